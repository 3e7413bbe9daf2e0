//===- KernelName.h - What a kernel is called, and what it costs -*- C++ -*-===//

#ifndef PLUMB_LIB_TRANSFORMS_KERNELNAME_H
#define PLUMB_LIB_TRANSFORMS_KERNELNAME_H

#include "plumb/Dialect/NN/NN.h"
#include <string>

namespace plumb {

/// `k_<first op>_<sizes>_<further ops>`, from the ops of a group in order:
///   k_einsum_nt_256x192x64_add_gelu   a product A·Bᵀ of M x N x K elements and its epilogue
///   k_einsum_nn_4x32x32x16            a batch of 4 products
///   k_mul_add_8x32x64                 a chain of elementwise ops
/// Views and constants are left out, all ops beyond the sixth are counted only.
std::string getKernelName(llvm::ArrayRef<nn::TensorOpInterface> ops);

/// Operations of one run: two per product of a contraction, else one per element of the tensor
/// that the op walks over.
int64_t countFlops(nn::TensorOpInterface op);

} // namespace plumb

#endif // PLUMB_LIB_TRANSFORMS_KERNELNAME_H
