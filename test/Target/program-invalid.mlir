// RUN: not plumb-opt --emit-program %s 2>&1 | FileCheck %s
// RUN: not plumb-opt --emit-plan-file %s 2>&1 | FileCheck %s --check-prefix=PLAN
// RUN: not plumb-opt --schedule --assign-streams --plan-memory --verify-plan --emit-program %s 2>&1 | FileCheck %s --check-prefix=FACTOR

// CHECK: error: only a verified plan becomes a program; run the pass verify-plan first
// PLAN: error: only a verified plan becomes a plan file; run the pass verify-plan first
// FACTOR: error: tensor 'w' cannot be loaded by the program: its layout uses a factor of a mesh axis; make that factor an axis of the mesh
plumb.mesh @mesh ["tp" = 4]
plumb.parameter @w : tensor<8xf32> layout <@mesh, [{"tp":(1)2}]>
plumb.stage @submod_pp_0 index 0 {
  %w = plumb.load @w : tensor<4xf32>
}
