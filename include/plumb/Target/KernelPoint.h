// The scalar code of a structured op on buffers, for one thread.
#ifndef PLUMB_TARGET_KERNELPOINT_H
#define PLUMB_TARGET_KERNELPOINT_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <optional>

namespace plumb::kernels {

/// Points that a thread of a product computes together: a square of them in two parallel loops, each of which
/// some input does not depend on. What it loads for a row or a column of the square it uses `size` times.
struct Tile {
  unsigned rows, columns;
  int64_t size;
  /// How far the points of a square are from each other, so that neighbouring threads have neighbouring
  /// points.
  int64_t rowStep, columnStep;
  int64_t threads;
};

/// The tile that suits an op whose outputs vary with all parallel loops; none if it is no product, or so
/// small that fewer threads would not keep a device busy.
std::optional<Tile> chooseTile(mlir::linalg::LinalgOp op);

/// Emits the points of the parallel loops, numbered in their order, the last loop running fastest.
class PointEmitter {
public:
  PointEmitter(mlir::ImplicitLocOpBuilder &b, mlir::linalg::LinalgOp op);

  int64_t points() const { return numberOf(parallel); }
  /// Of the reduction loops.
  int64_t turns() const { return numberOf(reduction); }
  llvm::SmallVector<int64_t> parallelSizes() const { return sizesOf(parallel); }

  /// Computes the point with this number.
  void emit(mlir::Value point);
  /// Computes the points of a thread.
  void emitTile(mlir::Value thread, const Tile &tile);
  /// Computes every `parts`-th turn of the reduction, from `part` on, and stores what the outputs get of it
  /// at the point and the part of `partials`.
  void emitPart(mlir::Value point, mlir::Value part, int64_t parts,
                llvm::ArrayRef<mlir::Operation *> combiners, mlir::ValueRange partials);

private:
  using Places = llvm::SmallVector<llvm::SmallVector<mlir::Value>>;

  int64_t numberOf(llvm::ArrayRef<unsigned> loops) const {
    return mlir::ShapedType::getNumElements(sizesOf(loops));
  }
  llvm::SmallVector<int64_t> sizesOf(llvm::ArrayRef<unsigned> loops) const {
    return llvm::map_to_vector(loops, [&](unsigned loop) { return sizes[loop]; });
  }
  mlir::Value constant(int64_t value);
  void setIndices(llvm::ArrayRef<unsigned> loops, mlir::Value number);
  /// The outputs at the current indices, and their places.
  llvm::SmallVector<mlir::Value> loadOutputs(Places &places);
  llvm::SmallVector<mlir::Value> subscripts(mlir::OpOperand &operand);
  llvm::SmallVector<mlir::Value> evaluate(mlir::ValueRange outputs);
  llvm::SmallVector<mlir::Value>
  reduce(llvm::ArrayRef<unsigned> loops, mlir::ValueRange outputs,
         llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::ValueRange)> body);

  mlir::ImplicitLocOpBuilder &b;
  mlir::linalg::LinalgOp op;
  llvm::SmallVector<int64_t> sizes;
  llvm::SmallVector<unsigned> parallel, reduction;
  llvm::SmallVector<mlir::Value> indices;
};

} // namespace plumb::kernels

#endif // PLUMB_TARGET_KERNELPOINT_H
