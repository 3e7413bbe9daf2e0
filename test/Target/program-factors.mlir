// RUN: plumb-opt --schedule --assign-streams --plan-memory --verify-plan --emit-program %s -o /dev/null | FileCheck %s

// A factor of an axis that cuts a parameter is named by the sizes before it and its own.

// CHECK: {"w", plumb::DType::F32, 1, {{[{][{]}}8, 1, {{[{][{]}}0, 1, 2}}}}, kParameters_offsets[0]
plumb.mesh @mesh ["tp" = 4]
plumb.parameter @w : tensor<8xf32> layout <@mesh, [{"tp":(1)2}]>
plumb.stage @submod_pp_0 index 0 {
  %w = plumb.load @w {plumb.layouts = [#plumb.layout<@mesh, [{"tp":(1)2}]>]} : tensor<4xf32>
}
