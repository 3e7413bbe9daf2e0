// RUN: plumb-opt %s --split-input-file --apply-spec --verify-diagnostics

plumb.mesh @mesh ["pp" = 2]
// expected-error @+1 {{a split policy cannot be combined with markers; remove one of them}}
plumb.split_policy "balanced" stages 2
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<4xf32>
  %0 = nn.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  // expected-note @+1 {{a marker is here (model.py:7)}}
  plumb.pipe_split {plumb.source = "model.py:7"}
  %1 = nn.relu %0 : (tensor<4xf32>) -> tensor<4xf32>
  plumb.output "y" index 0 %1 : tensor<4xf32>
}

// -----

plumb.mesh @mesh ["pp" = 2]
// expected-error @+1 {{the model has 1 modules that can be stages, which cannot make 3 stages}}
plumb.split_policy "balanced" stages 3
plumb.module @a
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<4xf32>
  %0 = nn.relu %x {plumb.module = "a"} : (tensor<4xf32>) -> tensor<4xf32>
  plumb.output "y" index 0 %0 : tensor<4xf32>
}

// -----

plumb.mesh @mesh ["pp" = 2]
// expected-error @+1 {{the list distributes 5 layers, the model has 2 (h.0 to h.1)}}
plumb.split_policy "layers" list [2, 3]
plumb.module @h.0
plumb.module @h.1
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<4xf32>
  %0 = nn.relu %x {plumb.module = "h.0"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.relu %0 {plumb.module = "h.1"} : (tensor<4xf32>) -> tensor<4xf32>
  plumb.output "y" index 0 %1 : tensor<4xf32>
}

// -----

plumb.mesh @mesh ["pp" = 2]
// expected-error @+1 {{no child of module "hh" computes anything; did you mean "h"?}}
plumb.split_policy "each" of "hh"
plumb.module @h
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<4xf32>
  %0 = nn.relu %x {plumb.module = "h.0"} : (tensor<4xf32>) -> tensor<4xf32>
  plumb.output "y" index 0 %0 : tensor<4xf32>
}

// -----

plumb.mesh @mesh ["pp" = 2]
// expected-error @+1 {{the layout string has 3 layers 't', the model has 2 (h.0 to h.1)}}
plumb.split_policy "layout" of "Et|ttL"
plumb.module @h.0
plumb.module @h.1
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<4xf32>
  %0 = nn.relu %x {plumb.module = "h.0"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.relu %0 {plumb.module = "h.1"} : (tensor<4xf32>) -> tensor<4xf32>
  plumb.output "y" index 0 %1 : tensor<4xf32>
}

// -----

plumb.mesh @mesh ["pp" = 2]
// expected-error @+1 {{stage 2 of the layout string, "L", would be empty: nothing runs after the layers}}
plumb.split_policy "layout" of "Et|t|L"
plumb.module @h.0
plumb.module @h.1
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<4xf32>
  %0 = nn.relu %x {plumb.module = "h.0"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.relu %0 {plumb.module = "h.1"} : (tensor<4xf32>) -> tensor<4xf32>
  plumb.output "y" index 0 %1 : tensor<4xf32>
}

// -----

plumb.mesh @mesh ["pp" = 2]
// expected-error @+1 {{the layout string "Et?L" has '?'; expected E, t, m, L, |, ( or a comma, at character 3}}
plumb.split_policy "layout" of "Et?L"
plumb.program @model {}

// -----

plumb.mesh @mesh ["pp" = 2]
// expected-error @+1 {{the model has no module "h.2"; did you mean "h.0"?}}
plumb.split_policy "modules" modules [["h.0"], ["h.2"]]
plumb.module @h.0
plumb.module @h.1
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<4xf32>
  %0 = nn.relu %x {plumb.module = "h.0"} : (tensor<4xf32>) -> tensor<4xf32>
  plumb.output "y" index 0 %0 : tensor<4xf32>
}

// -----

plumb.mesh @mesh ["pp" = 2]
// expected-error @+1 {{module h.0 runs before module h.1, which an earlier stage has; stages must follow the order of the program}}
plumb.split_policy "modules" modules [["h.1"], ["h.0"]]
plumb.module @h.0
plumb.module @h.1
plumb.program @model {
  %x = plumb.input "x" index 0 : tensor<4xf32>
  %0 = nn.relu %x {plumb.module = "h.0"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.relu %0 {plumb.module = "h.1"} : (tensor<4xf32>) -> tensor<4xf32>
  plumb.output "y" index 0 %1 : tensor<4xf32>
}

// -----

plumb.mesh @mesh ["pp" = 2]
// expected-error @+1 {{there is no split policy "best"; there are balanced, layers, each, layout and modules}}
plumb.split_policy "best"
plumb.program @model {}

// -----

// All rules that fail are reported, not only the first.

// expected-note @+1 {{the mesh has pp, tp}}
plumb.mesh @mesh ["pp" = 2, "tp" = 2]
// expected-error @+1 {{the list distributes 2 layers, the model has 0}}
plumb.split_policy "layers" list [2]
// expected-error @+1 {{split point "fc3" matches no module that computes; did you mean "fc"?}}
plumb.split_rule "fc3"
// expected-error @+1 {{split point "q" matches no module that computes}}
plumb.split_rule "q"
// expected-error @+1 {{the model has no input "ids"}}
plumb.input_rule "ids" {}
// expected-error @+1 {{the mesh has no axis "td"; did you mean "tp"?}}
plumb.layout_rule "fc" style "colwise" axis "td"
// expected-error @+1 {{pattern "gc" matches 0 of 1 modules; did you mean "fc"?}}
plumb.layout_rule "gc" style "colwise"
// expected-error @+1 {{the loss is output 3, the model has 0 outputs}}
plumb.loss_rule output 3
plumb.module @fc
plumb.program @model {}
