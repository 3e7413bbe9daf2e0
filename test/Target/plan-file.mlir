// RUN: plumb-opt --form-kernels --schedule --assign-streams --plan-memory --verify-plan --emit-plan-file %S/../Transforms/verify-plan.mlir -o /dev/null | FileCheck %s

// CHECK: "format": "plumb-plan",
// CHECK-NEXT: "version": 2,
// CHECK-NEXT: "made_by": "plumbc {{[0-9.]+}}",
// CHECK-NEXT: "model": "two_stage",
// CHECK-NEXT: "signature": "{{[0-9a-f]+}}",
// CHECK: "name": "pp",
// CHECK-NEXT: "size": 2,
// CHECK-NEXT: "stride": 2
// CHECK: "ranks": 4
// CHECK: "schedule": "1f1b",
// CHECK: "communicators": [
// CHECK: "name": "tp",
// CHECK: "stages": [
// CHECK: "name": "submod_pp_0",
// CHECK: "parameters": [
// CHECK-NEXT: "up.weight",
// CHECK: "sends": [
// CHECK: "communicator": "forward_0_1",
// CHECK-NEXT: "type": "tensor<4x6xf32>",
// CHECK-NEXT: "layout": [
// CHECK: "name": "head.weight",
// CHECK-NEXT: "aliases": [
// CHECK-NEXT: "tied.weight"
// CHECK: "owner": 1,
// CHECK: "memory": [
// CHECK: "arena": {{[0-9]+}},
// CHECK: "buffers": [
// CHECK: "made_by": "module up, model.py:10",
// CHECK-NEXT: "part": "forward",
// CHECK-NEXT: "used_in": [
// CHECK: "offset": 1664,
// CHECK-NEXT: "bytes": 64,
// CHECK-NEXT: "slots": 2,
// CHECK: "actions": [
// CHECK: "0F0",
// CHECK: "certificate": {
// CHECK-NEXT: "proved": [
// CHECK-NEXT: "actions",
