// RUN: not plumb-opt --emit-program %s 2>&1 | FileCheck %s
// RUN: not plumb-opt --emit-plan-file %s 2>&1 | FileCheck %s --check-prefix=PLAN

// CHECK: error: only a verified plan becomes a program; run the pass verify-plan first
// PLAN: error: only a verified plan becomes a plan file; run the pass verify-plan first
plumb.mesh @mesh ["tp" = 4]
plumb.parameter @w : tensor<8xf32> layout <@mesh, [{"tp"}]>
plumb.stage @submod_pp_0 index 0 {
  %w = plumb.load @w {plumb.layouts = [#plumb.layout<@mesh, [{"tp"}]>]} : tensor<2xf32>
}
