// RUN: plumb-opt %s -split-input-file -verify-diagnostics

func.func @einsum_without_arrow(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  // expected-error @below {{'nn.einsum' op equation "ij,jk" is not of the form "lhs,rhs->result"}}
  %0 = nn.einsum "ij,jk"(%a, %b) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @einsum_letter_count(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  // expected-error @below {{equation gives the left operand 1 letters, "i", but it has 2 dims: 'tensor<2x3xf32>'}}
  %0 = nn.einsum "i,jk->ik"(%a, %b) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @einsum_upper_case(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  // expected-error @below {{equation names a dim of the right operand 'K'; dims are lower-case letters}}
  %0 = nn.einsum "ij,jK->iK"(%a, %b) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @einsum_repeated_letter(%a: tensor<3x3xf32>, %b: tensor<3x4xf32>) {
  // expected-error @below {{equation names letter 'i' twice in the left operand}}
  %0 = nn.einsum "ii,ik->ik"(%a, %b) : (tensor<3x3xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  return
}

// -----

func.func @einsum_unknown_result_letter(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  // expected-error @below {{letter 'z' of the result is in neither operand}}
  %0 = nn.einsum "ij,jk->iz"(%a, %b) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @einsum_sizes(%a: tensor<2x3xf32>, %b: tensor<5x4xf32>) {
  // expected-error @below {{letter 'j' has size 3 in the left operand but 5 in the right}}
  %0 = nn.einsum "ij,jk->ik"(%a, %b) : (tensor<2x3xf32>, tensor<5x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @einsum_result_type(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  // expected-error @below {{result 0 is 'tensor<4x2xf32>' but follows from the operands as 'tensor<2x4xf32>'}}
  %0 = nn.einsum "ij,jk->ik"(%a, %b) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<4x2xf32>
  return
}

// -----

func.func @dynamic(%a: tensor<?xf32>) {
  // expected-error @below {{'nn.relu' op operand #0 must be statically shaped tensor of floating-point values, but got 'tensor<?xf32>'}}
  %0 = nn.relu %a : (tensor<?xf32>) -> tensor<?xf32>
  return
}

// -----

func.func @sum_range(%a: tensor<2x3xf32>) {
  // expected-error @below {{dim 2 is out of range for rank 2}}
  %0 = nn.sum %a dims [2] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @sum_order(%a: tensor<2x3xf32>) {
  // expected-error @below {{dims [1, 0] are not sorted and distinct}}
  %0 = nn.sum %a dims [1, 0] : (tensor<2x3xf32>) -> tensor<f32>
  return
}

// -----

func.func @softmax_causal_rank(%a: tensor<3xf32>) {
  // expected-error @below {{needs at least 2 dims (query, key), but the operand is 'tensor<3xf32>'}}
  %0 = nn.softmax %a causal : (tensor<3xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @softmax_backward_types(%a: tensor<3xf32>, %b: tensor<4xf32>) {
  // expected-error @below {{operand 1 is 'tensor<4xf32>' but operand 0 is 'tensor<3xf32>'}}
  %0 = nn.softmax_backward %a, %b : (tensor<3xf32>, tensor<4xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @normalize_count(%a: tensor<2x3xf32>) {
  // expected-error @below {{count 3 is not between 1 and the operand's rank 2}}
  %0, %1 = nn.normalize %a count 3 eps 1.0e-5 : (tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<f32>)
  return
}

// -----

func.func @normalize_eps(%a: tensor<2x3xf32>) {
  // expected-error @below {{eps -1.000000e+00 : f64 is not a non-negative number}}
  %0, %1 = nn.normalize %a count 1 eps -1.0 : (tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2xf32>)
  return
}

// -----

func.func @normalize_backward_rstd(%a: tensor<2x3xf32>, %r: tensor<3xf32>) {
  // expected-error @below {{rstd of type 'tensor<3xf32>' has not the leading dims of the cotangent of type 'tensor<2x3xf32>'}}
  %0 = nn.normalize_backward %a, %a, %r : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @no_broadcast(%a: tensor<2x3xf32>, %b: tensor<4xf32>) {
  // expected-error @below {{dim 0 of operand 1 has size 4, which does not broadcast against 3}}
  %0 = nn.add %a, %b : (tensor<2x3xf32>, tensor<4xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @element_types(%a: tensor<2xf32>, %b: tensor<2xf64>) {
  // expected-error @below {{operand 1 has element type 'f64' but operand 0 has 'f32'}}
  %0 = nn.mul %a, %b : (tensor<2xf32>, tensor<2xf64>) -> tensor<2xf32>
  return
}

// -----

func.func @integer_division(%a: tensor<2xi64>) {
  // expected-error @below {{operand #0 must be statically shaped tensor of floating-point values}}
  %0 = nn.div %a, %a : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
  return
}

// -----

func.func @weighted_sum_types(%a: tensor<2xf32>, %b: tensor<1xf32>) {
  // expected-error @below {{requires all operands to have the same type}}
  %0 = nn.weighted_sum %a by 0.9, %b by 0.1 : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @view_count(%a: tensor<2x3xf32>) {
  // expected-error @below {{operand has 6 elements but the result has 8}}
  %0 = nn.view %a : (tensor<2x3xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @view_element_type(%a: tensor<2x3xf32>) {
  // expected-error @below {{cannot change element type 'f32' to 'i32'}}
  %0 = nn.view %a : (tensor<2x3xf32>) -> tensor<6xi32>
  return
}

// -----

func.func @transpose_permutation(%a: tensor<2x3xf32>) {
  // expected-error @below {{[0, 0] is not a permutation of the 2 dims of 'tensor<2x3xf32>'}}
  %0 = nn.transpose %a [0, 0] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @transpose_out_of_range(%a: tensor<2x3xf32>) {
  // expected-error @below {{[0, 7] is not a permutation of the 2 dims of 'tensor<2x3xf32>'}}
  %0 = nn.transpose %a [0, 7] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @broadcast_size(%a: tensor<2x3xf32>) {
  // expected-error @below {{cannot broadcast dim 0 of size 2 to size 4; only dims of size 1 repeat}}
  %0 = nn.broadcast %a : (tensor<2x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @broadcast_rank(%a: tensor<2x3xf32>) {
  // expected-error @below {{cannot broadcast rank 2 to rank 1}}
  %0 = nn.broadcast %a : (tensor<2x3xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @split_sum(%a: tensor<6xf32>) {
  // expected-error @below {{pieces join to 'tensor<5xf32>' but the operand is 'tensor<6xf32>'}}
  %0:2 = nn.split %a dim 0 : (tensor<6xf32>) -> (tensor<2xf32>, tensor<3xf32>)
  return
}

// -----

func.func @split_nothing(%a: tensor<6xf32>) {
  // expected-error @below {{needs at least one piece}}
  nn.split %a dim 0 : (tensor<6xf32>) -> ()
  return
}

// -----

func.func @split_other_dims(%a: tensor<6x2xf32>) {
  // expected-error @below {{piece 1 of type 'tensor<3x1xf32>' does not fit piece 0 of type 'tensor<3x2xf32>': they may differ only in dim 0}}
  %0:2 = nn.split %a dim 0 : (tensor<6x2xf32>) -> (tensor<3x2xf32>, tensor<3x1xf32>)
  return
}

// -----

func.func @cat_dim(%a: tensor<2x3xf32>) {
  // expected-error @below {{dim -1 is out of range for rank 2}}
  %0 = nn.cat %a dim -1 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @cat_rank(%a: tensor<2x3xf32>, %b: tensor<3xf32>) {
  // expected-error @below {{operand 1 of type 'tensor<3xf32>' does not fit operand 0 of type 'tensor<2x3xf32>'}}
  %0 = nn.cat %a, %b dim 0 : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<3x3xf32>
  return
}

// -----

func.func @cat_nothing() {
  // expected-error @below {{needs at least one operand}}
  %0 = "nn.cat"() <{dim = 0 : i64}> : () -> tensor<2xf32>
  return
}

// -----

func.func @fill_fraction() {
  // expected-error @below {{value 1.500000e+00 : f64 is not a number of type 'i64'}}
  %0 = nn.fill 1.5 : tensor<2xi64>
  return
}

// -----

func.func @fill_bool() {
  // expected-error @below {{value 2.000000e+00 : f64 is not a number of type 'i1'}}
  %0 = nn.fill 2.0 : tensor<2xi1>
  return
}

// -----

func.func @iota_rank() {
  // expected-error @below {{result must have one dim, but is 'tensor<2x2xi64>'}}
  %0 = nn.iota start 0 step 1 : tensor<2x2xi64>
  return
}

// -----

func.func @uniform_step(%s: tensor<2xf64>, %i: tensor<4xi64>) {
  // expected-error @below {{the step must be one number, but is 'tensor<2xf64>'}}
  %0 = nn.uniform %s at %i of [4] seed 0 stream 0 : (tensor<2xf64>, tensor<4xi64>) -> tensor<4xf32>
  return
}

// -----

func.func @uniform_dims(%s: tensor<f64>, %i: tensor<4xi64>) {
  // expected-error @below {{has positions along 1 dims of a tensor of 2 dims}}
  %0 = nn.uniform %s at %i of [4, 4] seed 0 stream 0 : (tensor<f64>, tensor<4xi64>) -> tensor<4xf32>
  return
}

// -----

func.func @uniform_positions(%s: tensor<f64>, %i: tensor<4xi64>) {
  // expected-error @below {{positions along a dim of 3 elements cannot be 'tensor<4xi64>'}}
  %0 = nn.uniform %s at %i of [3] seed 0 stream 0 : (tensor<f64>, tensor<4xi64>) -> tensor<4xf32>
  return
}

// -----

func.func @embedding_table(%t: tensor<4xf32>, %i: tensor<3xi64>) {
  // expected-error @below {{table must have two dims and at least one row, but is 'tensor<4xf32>'}}
  %0 = nn.embedding %t, %i : (tensor<4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  return
}

// -----

func.func @embedding_backward_cotangent(%c: tensor<3x5xf32>, %i: tensor<3xi64>) {
  // expected-error @below {{cotangent of type 'tensor<3x5xf32>' must have shape [3, 6], that of the indices and a row}}
  %0 = nn.embedding_backward %c, %i : (tensor<3x5xf32>, tensor<3xi64>) -> tensor<4x6xf32>
  return
}

// -----

func.func @cross_entropy_targets(%l: tensor<3x5xf32>, %t: tensor<5xi64>) {
  // expected-error @below {{targets of type 'tensor<5xi64>' must have shape [3], that of the rows of the logits}}
  %0, %1 = nn.cross_entropy %l, %t ignore -100 : (tensor<3x5xf32>, tensor<5xi64>) -> (tensor<3xf32>, tensor<3xf32>)
  return
}

// -----

func.func @cross_entropy_backward_lse(%c: tensor<3xf32>, %l: tensor<3x5xf32>, %t: tensor<3xi64>, %s: tensor<3x1xf32>) {
  // expected-error @below {{lse of type 'tensor<3x1xf32>' must have shape [3], that of the rows of the logits}}
  %0 = nn.cross_entropy_backward %c, %l, %t, %s ignore -100 : (tensor<3xf32>, tensor<3x5xf32>, tensor<3xi64>, tensor<3x1xf32>) -> tensor<3x5xf32>
  return
}

// -----

func.func @is_valid_shape(%t: tensor<3xi64>) {
  // expected-error @below {{result of type 'tensor<4xf32>' must have shape [3], that of the targets}}
  %0 = nn.is_valid %t ignore -100 : (tensor<3xi64>) -> tensor<4xf32>
  return
}

// -----

func.func @convolution_rank(%x: tensor<2x4x9x9xf32>, %k: tensor<6x4x3x3xf32>) {
  // expected-error @below {{needs operands of 5 dims, (n, g, c, y, x) and (g, f, c, y, x), but has}}
  %0 = nn.convolution %x, %k strides [1, 1] dilations [1, 1] : (tensor<2x4x9x9xf32>, tensor<6x4x3x3xf32>) -> tensor<2x6x7x7xf32>
  return
}

// -----

func.func @convolution_channels(%x: tensor<2x1x4x9x9xf32>, %k: tensor<1x6x3x3x3xf32>) {
  // expected-error @below {{input has 4 channels but the kernel has 3}}
  %0 = nn.convolution %x, %k strides [1, 1] dilations [1, 1] : (tensor<2x1x4x9x9xf32>, tensor<1x6x3x3x3xf32>) -> tensor<2x1x6x7x7xf32>
  return
}

// -----

func.func @convolution_fit(%x: tensor<2x1x4x5x9xf32>, %k: tensor<1x6x4x3x3xf32>) {
  // expected-error @below {{a kernel of 3 elements, 3 apart, does not fit into dim 3 of}}
  %0 = nn.convolution %x, %k strides [1, 1] dilations [3, 1] : (tensor<2x1x4x5x9xf32>, tensor<1x6x4x3x3xf32>) -> tensor<2x1x6x1x7xf32>
  return
}

// -----

func.func @convolution_stride(%x: tensor<2x1x4x5x9xf32>, %k: tensor<1x6x4x3x3xf32>) {
  // expected-error @below {{strides and dilations must be positive}}
  %0 = nn.convolution %x, %k strides [0, 1] dilations [1, 1] : (tensor<2x1x4x5x9xf32>, tensor<1x6x4x3x3xf32>) -> tensor<2x1x6x3x7xf32>
  return
}

// -----

func.func @slice_beyond(%x: tensor<4x6xf32>) {
  // expected-error @below {{takes 3 elements, 2 apart, from 1 on in dim 0, which has 4}}
  %0 = nn.slice %x offsets [1, 0] strides [2, 1] : (tensor<4x6xf32>) -> tensor<3x6xf32>
  return
}

// -----

func.func @slice_negative(%x: tensor<4x6xf32>) {
  // expected-error @below {{dim 1 has offset -1 and stride 1; offsets are not negative and strides are positive}}
  %0 = nn.slice %x offsets [0, -1] strides [1, 1] : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @slice_offsets(%x: tensor<4x6xf32>) {
  // expected-error @below {{needs an offset and a stride for each dim of}}
  %0 = nn.slice %x offsets [0] strides [1] : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @pad_type(%x: tensor<4xf32>) {
  // expected-error @below {{cannot change element type 'f32'}}
  %0 = nn.pad %x with 0.0 offsets [1] strides [1] : (tensor<4xf32>) -> tensor<6xf64>
  return
}

// -----

func.func @pad_small(%x: tensor<4xf32>) {
  // expected-error @below {{takes 4 elements, 1 apart, from 3 on in dim 0, which has 6}}
  %0 = nn.pad %x with 0.0 offsets [3] strides [1] : (tensor<4xf32>) -> tensor<6xf32>
  return
}

// -----

func.func @reverse_dims(%x: tensor<4x6xf32>) {
  // expected-error @below {{dim 2 is out of range for rank 2}}
  %0 = nn.reverse %x dims [2] : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @gather_shape(%x: tensor<4x6xf32>, %i: tensor<3x2xi64>) {
  // expected-error @below {{may differ from 'tensor<4x6xf32>' only in dim 1}}
  %0 = nn.gather %x, %i dim 1 : (tensor<4x6xf32>, tensor<3x2xi64>) -> tensor<3x2xf32>
  return
}

// -----

func.func @gather_empty(%x: tensor<4x0xf32>, %i: tensor<4x2xi64>) {
  // expected-error @below {{dim 1 of 'tensor<4x0xf32>' has no element that an index could name}}
  %0 = nn.gather %x, %i dim 1 : (tensor<4x0xf32>, tensor<4x2xi64>) -> tensor<4x2xf32>
  return
}

// -----

func.func @scatter_source(%x: tensor<4x6xf32>, %i: tensor<4x2xi64>, %s: tensor<4x3xf32>) {
  // expected-error @below {{source of type 'tensor<4x3xf32>' must have the shape of the indices, 'tensor<4x2xi64>'}}
  %0 = nn.scatter %x, %i, %s dim 1 : (tensor<4x6xf32>, tensor<4x2xi64>, tensor<4x3xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @topk_count(%x: tensor<4x6xf32>) {
  // expected-error @below {{cannot take 7 elements of each row of 'tensor<4x6xf32>'}}
  %0:2 = nn.topk %x count 7 : (tensor<4x6xf32>) -> (tensor<4x7xf32>, tensor<4x7xi64>)
  return
}

// -----

func.func @max_empty(%x: tensor<4x0xf32>) {
  // expected-error @below {{dim 1 has no elements, of which none is the greatest}}
  %0 = nn.max %x dims [1] : (tensor<4x0xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @cumsum_dim(%x: tensor<4x6xf32>) {
  // expected-error @below {{dim 2 is out of range for rank 2}}
  %0 = nn.cumsum %x dim 2 : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @log_softmax_scalar(%x: tensor<f32>) {
  // expected-error @below {{needs at least 1 dim}}
  %0 = nn.log_softmax %x : (tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @convert_shape(%x: tensor<4xf32>) {
  // expected-error @below {{changes the shape of 'tensor<4xf32>' to that of 'tensor<2x2xf64>'}}
  %0 = nn.convert %x : (tensor<4xf32>) -> tensor<2x2xf64>
  return
}

// -----

func.func @detach_type(%x: tensor<4xf32>) {
  // expected-error @below {{requires the same type for all operands and results}}
  %0 = nn.detach %x : (tensor<4xf32>) -> tensor<4xf64>
  return
}

// -----

func.func @where_condition(%x: tensor<4xf32>) {
  // expected-error @below {{operand #0 must be}}
  %0 = nn.where %x, %x, %x : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @where_types(%m: tensor<4xi1>, %x: tensor<4xf32>, %y: tensor<4xf64>) {
  // expected-error @below {{operand 2 has element type 'f64' but operand 1 has 'f32'}}
  %0 = nn.where %m, %x, %y : (tensor<4xi1>, tensor<4xf32>, tensor<4xf64>) -> tensor<4xf32>
  return
}

// -----

func.func @less_bool(%m: tensor<4xi1>) {
  // expected-error @below {{operand #0 must be}}
  %0 = nn.less %m, %m : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
  return
}

// -----

func.func @equal_result(%x: tensor<4xf32>) {
  // expected-error @below {{result #0 must be statically shaped tensor of 1-bit signless integer values, but got 'tensor<4xf32>'}}
  %0 = nn.equal %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @maximum_types(%x: tensor<4xf32>, %y: tensor<4xf64>) {
  // expected-error @below {{operand 1 has element type 'f64' but operand 0 has 'f32'}}
  %0 = nn.maximum %x, %y : (tensor<4xf32>, tensor<4xf64>) -> tensor<4xf32>
  return
}

// -----

func.func @power_integer(%i: tensor<4xi64>) {
  // expected-error @below {{operand #0 must be}}
  %0 = nn.power %i by 2.0 : (tensor<4xi64>) -> tensor<4xi64>
  return
}

// -----

func.func @exp_integer(%i: tensor<4xi64>) {
  // expected-error @below {{operand #0 must be}}
  %0 = nn.exp %i : (tensor<4xi64>) -> tensor<4xi64>
  return
}

// -----

func.func @log_integer(%i: tensor<4xi64>) {
  // expected-error @below {{operand #0 must be}}
  %0 = nn.log %i : (tensor<4xi64>) -> tensor<4xi64>
  return
}

// -----

func.func @sin_integer(%i: tensor<4xi64>) {
  // expected-error @below {{operand #0 must be}}
  %0 = nn.sin %i : (tensor<4xi64>) -> tensor<4xi64>
  return
}

// -----

func.func @cos_integer(%i: tensor<4xi64>) {
  // expected-error @below {{operand #0 must be}}
  %0 = nn.cos %i : (tensor<4xi64>) -> tensor<4xi64>
  return
}

// -----

func.func @erf_integer(%i: tensor<4xi64>) {
  // expected-error @below {{operand #0 must be}}
  %0 = nn.erf %i : (tensor<4xi64>) -> tensor<4xi64>
  return
}

// -----

func.func @sigmoid_integer(%i: tensor<4xi64>) {
  // expected-error @below {{operand #0 must be}}
  %0 = nn.sigmoid %i : (tensor<4xi64>) -> tensor<4xi64>
  return
}

// -----

func.func @softplus_integer(%i: tensor<4xi64>) {
  // expected-error @below {{operand #0 must be}}
  %0 = nn.softplus %i : (tensor<4xi64>) -> tensor<4xi64>
  return
}

// -----

func.func @floor_integer(%i: tensor<4xi64>) {
  // expected-error @below {{operand #0 must be}}
  %0 = nn.floor %i : (tensor<4xi64>) -> tensor<4xi64>
  return
}

// -----

func.func @round_integer(%i: tensor<4xi64>) {
  // expected-error @below {{operand #0 must be}}
  %0 = nn.round %i : (tensor<4xi64>) -> tensor<4xi64>
  return
}
