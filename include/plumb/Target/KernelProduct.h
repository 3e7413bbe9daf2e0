// Matrix products, and everything that is one: any number of batch, row, column and inner loops, in any
// order, over views of any stride; convolutions included.
#ifndef PLUMB_TARGET_KERNELPRODUCT_H
#define PLUMB_TARGET_KERNELPRODUCT_H

#include "plumb/Target/KernelNest.h"

#include <optional>

namespace plumb::kernels {

/// C(b, m, n) += Σ_k A(b, m, k) · B(b, k, n), where each of b, m, n, k is a list of loops. The roles of A and
/// B are chosen such that C is contiguous along the innermost loop of n. Elementwise work on C, done on every
/// tile as soon as it is complete.
struct Epilogue {
  /// The nest in the loops of the product; those of k run once.
  LoopNest nest;
  /// Its input that is C.
  unsigned input = 0;
  /// Nothing else reads C, so that it only ever exists as a tile.
  bool consumes = false;
};

struct Product {
  LoopNest nest;
  /// A is the second input of the nest.
  bool swapped = false;
  /// Loops that run more than once.
  llvm::SmallVector<int> batch, rows, columns, inner;
  /// Conversions that the body applies to an element of A (B) first.
  llvm::SmallVector<mlir::Operation *> convertA, convertB;
  /// C is known to be zero before, so that it is only written.
  bool overwrites = false;
  std::optional<Epilogue> epilogue;
};

/// The product that a nest computes, if it is one that register tiles suit.
std::optional<Product> matchProduct(const LoopNest &nest);

/// Emits a product as tiles of accumulators in registers that run over the whole of k.
///
/// B is packed, a block of columns at a time, into panels as wide as a tile in which k runs fastest but for
/// the columns of the panel: the innermost loop then reads B as one stream whatever its layout was
/// (transposed, as in every linear layer, strided by heads, or the window of a convolution). Tiles at the
/// edges have their own static sizes, rows being shared out evenly.
void emitProduct(mlir::ImplicitLocOpBuilder &b, const Product &product, const VectorTarget &target);

} // namespace plumb::kernels

#endif // PLUMB_TARGET_KERNELPRODUCT_H
