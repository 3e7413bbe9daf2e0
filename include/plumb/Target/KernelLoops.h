// Vector loops for any nest: elementwise, broadcasts, transposes, gathers and reductions.
#ifndef PLUMB_TARGET_KERNELLOOPS_H
#define PLUMB_TARGET_KERNELLOOPS_H

#include "plumb/Target/KernelNest.h"

namespace plumb::kernels {

/// Emits the loops of a nest, vectorised along the loop that costs least: one that is contiguous in most
/// operands.
///
/// * Along a parallel loop, lanes are independent; the accumulators of reductions stay in registers through
/// all
///   reduction loops.
/// * Along a reduction loop, several vectors of partial results are kept and combined at the end. Sums are
/// thereby
///   reassociated, in an order fixed by the shape and the target.
/// * An input that is contiguous along another parallel loop than the output is transposed in registers, a
/// square
///   tile at a time.
void emitLoops(mlir::ImplicitLocOpBuilder &b, const LoopNest &nest, const VectorTarget &target);

/// Transposes a square of vectors in registers: element j of vector i goes to element i of vector j. Their
/// number is their length, a power of two.
void transposeSquare(mlir::ImplicitLocOpBuilder &b, llvm::MutableArrayRef<mlir::Value> rows);

} // namespace plumb::kernels

#endif // PLUMB_TARGET_KERNELLOOPS_H
