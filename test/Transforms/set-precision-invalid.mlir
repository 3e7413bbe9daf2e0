// RUN: plumb-opt %s --set-precision -verify-diagnostics

// expected-error@below {{products cannot be computed in "f8"; expected "bf16" or "f32"}}
plumb.precision_rule "f8"
plumb.program @model {
}
