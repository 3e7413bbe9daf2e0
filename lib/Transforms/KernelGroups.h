//===- KernelGroups.h - Which tensor ops share a kernel ---------*- C++ -*-===//
//
// The rule looks at sharding rules and traits only. An *elementwise* op has one result, only parallel
// factors, and operands that are aligned with the result or broadcast to it. Any other op is an *anchor*.
//
//   * An anchor starts a group. So does an elementwise op that cannot join one.
//   * An elementwise op joins the group of the operand that is made last, if that group belongs to the same
//   phase and
//     the operand has as many elements as the result.
//
// A group stands where its first op stood. Each op joins the *latest* of the groups it reads, so everything
// else that it reads is made before that place: groups in order of their places respect all dependences, and
// none has a path that leaves it and comes back. Linear in the number of uses.
//
// Constants (ops without operands, and views and broadcasts of them) belong to no group: each group that
// reads one makes its own. Views lie inside a group where it reads their operand, outside elsewhere.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_LIB_TRANSFORMS_KERNELGROUPS_H
#define PLUMB_LIB_TRANSFORMS_KERNELGROUPS_H

#include "plumb/Dialect/NN/NN.h"
#include "plumb/Dialect/Plumb/Plumb.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace plumb {

struct KernelGroup {
  int64_t position; ///< Of its first op in the block.
  Phase phase;
  llvm::SmallVector<nn::TensorOpInterface> ops;
};

/// The groups of one stage. The block must not change while the object is in use.
class KernelGroups {
public:
  explicit KernelGroups(StageOp stage);

  /// In order of position.
  llvm::ArrayRef<KernelGroup> all() const LLVM_LIFETIME_BOUND { return groups; }
  /// Index of the group of an op, or -1.
  int find(mlir::Operation *op) const;

  /// Whether the group makes its own copy of the op: a constant, or a view of what the group makes.
  bool isInternal(mlir::Operation *op, int group) const;
  /// The store that the group may carry out by overwriting the state, as the operand `load` of its op that
  /// makes the stored `value`; null if there is none.
  StoreOp findInPlaceStore(mlir::Value value, int group, LoadOp &load) const;

private:
  struct StateAccess {
    int64_t lastStore = -1;             ///< Position of the latest store.
    llvm::SmallVector<LoadOp, 2> loads; ///< Those since.
  };
  using Loads = llvm::SmallVector<LoadOp, 2>;

  void add(mlir::Operation *op, int64_t position);
  void addTensorOp(nn::TensorOpInterface op, int64_t position);
  int findGroupToJoin(nn::TensorOpInterface op) const;
  bool isConstant(nn::TensorOpInterface op) const;

  llvm::SmallVector<KernelGroup, 0> groups;
  llvm::DenseMap<mlir::Operation *, int> groupOf;
  /// Where a value is made. What may be moved to the front has the position of what keeps it back.
  llvm::DenseMap<mlir::Operation *, int64_t> positions;
  llvm::DenseMap<mlir::Operation *, int> constants; ///< With the length of the longest chain of ops.
  llvm::StringMap<StateAccess> states;
  llvm::DenseMap<StoreOp, Loads> loads; ///< Those between a store and the store before it.
};

/// The value that a chain of views starts from.
mlir::Value skipViews(mlir::Value value);

/// Whether all loops of the op run over the elements of its one result; see the top of the file.
bool isElementwise(nn::TensorOpInterface op);

} // namespace plumb

#endif // PLUMB_LIB_TRANSFORMS_KERNELGROUPS_H
