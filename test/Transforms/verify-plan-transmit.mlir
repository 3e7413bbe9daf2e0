// A parameter that its owner transmits: the plan is right, and stops being so when what goes between the ranks, or what is made of
// it, is changed.
// RUN: plumb-opt %s --apply-spec --split-stages --assign-ownership --build-backward --build-step --propagate-layouts --plan-boundaries --partition --lower-redistributions --form-kernels --schedule --assign-streams --plan-memory -o %t
// RUN: plumb-opt --verify-plan %t | FileCheck %s --check-prefix=RIGHT
// RIGHT: plumb.verified

// A value that is not received, a gradient that is not sent, one that is not what the owner adds.
// RUN: sed '/ccl.recv from 0 on @once_0_1/d; /plumb.store @copy.w/d' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=VALUE
// VALUE: 'ccl.send' is made 2 times on @once_0_1, but received 0 times
// RUN: sed '/ccl.send %.* to 0 on @once_1_0/d' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=GRADIENT
// GRADIENT: 'ccl.recv' waits on @once_1_0, where nothing is sent
// RUN: sed 's/ccl.send %[0-9]* to 0 on @once_1_0/ccl.send %1 to 0 on @once_1_0/' %t | not plumb-opt --verify-plan 2>&1 | FileCheck %s --check-prefix=SHARE
// SHARE: 'plumb.store' updates @w from a gradient that is not summed over the copies of the parameter: the share of pipeline coordinate 1 is missing
plumb.mesh @mesh ["pp" = 2]
plumb.pipeline axis "pp" schedule "1f1b" microbatches 2
plumb.sharing_rule "w" "transmit"
plumb.optimizer "sgd" rate 0.1
plumb.loss_rule output 0 reduce "sum"
plumb.parameter @w trainable : tensor<4x4xf32>
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<8x4xf32>
  %w = plumb.load @w : tensor<4x4xf32>
  %0 = nn.einsum "ai,oi->ao"(%x, %w) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  plumb.pipe_split
  %1 = nn.einsum "ai,oi->ao"(%0, %w) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  plumb.output "y" index 0 %1 : tensor<8x4xf32>
}
