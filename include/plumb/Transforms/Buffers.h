//===- Buffers.h - Which values of a stage share memory ---------*- C++ -*-===//
//
// A *buffer* is the memory of a value together with
//   * its views: reinterpreted and sliced values lie in their operand's memory;
//   * what overwrites it: a kernel's in-place result, the result of a sum over ranks whose operand dies
//   there;
//   * the parameter, state or input it is: a load is no copy, and a value that is stored is made in the
//   state's own
//     memory wherever nothing may read the state's old value any more. Other stores are copies.
//
// Both assign-streams and plan-memory ask this analysis; it is a function of the stage's ops alone.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_TRANSFORMS_BUFFERS_H
#define PLUMB_TRANSFORMS_BUFFERS_H

#include "mlir/IR/SymbolTable.h"
#include "plumb/Transforms/Steps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

namespace plumb {

/// Bytes of a tensor; a bool is one byte.
int64_t getByteSize(mlir::Type type);

struct Buffer {
  mlir::Value root; ///< The value that fills it first.
  int64_t bytes;
  llvm::StringRef symbol;           ///< The parameter or state whose memory it is, if any.
  int64_t input;                    ///< The number of the input whose memory it is, or -1.
  Part writer;                      ///< The part that fills it first.
  llvm::SmallVector<Part, 3> parts; ///< All that write or read it, sorted.
  int64_t first, last; ///< Positions of the op that fills it and of its last reader in the block.

  bool hasOwnMemory() const { return symbol.empty() && input < 0; }
  /// Whether one part alone, which is no transfer, uses it.
  bool isTemporary() const { return hasOwnMemory() && parts.size() == 1 && !writer.isTransfer(); }
};

class Buffers {
public:
  Buffers(StageOp stage, const mlir::SymbolTable &symbols);

  /// In order of their first definition.
  llvm::ArrayRef<Buffer> all() const LLVM_LIFETIME_BOUND { return buffers; }
  const Buffer &find(mlir::Value value) const { return buffers[ids.lookup(value)]; }
  int64_t getId(mlir::Value value) const { return ids.lookup(value); }
  /// Whether the value that is stored does not lie in the state's memory.
  bool isCopied(StoreOp store) const { return find(store.getValue()).symbol != store.getSymbol(); }

private:
  struct Access {
    int64_t position;
    bool isStore;
  };

  void readUses(mlir::Block &block);
  void define(mlir::Operation *op);
  int64_t chooseBuffer(mlir::OpResult result);
  /// The operand whose memory a collective may overwrite with the result, or null.
  mlir::Value findDyingOperand(mlir::OpResult result) const;
  /// The state in whose memory the value may be made; empty if there is none.
  llvm::StringRef findTarget(mlir::OpResult result) const;
  StoreOp findStore(mlir::Value value) const;
  bool isSent(mlir::Value value) const;
  int64_t create(mlir::Value root);
  int64_t lastUseOf(mlir::Value value) const;

  llvm::SmallVector<Buffer, 0> buffers;
  llvm::DenseMap<mlir::Value, int64_t> ids;
  llvm::DenseMap<mlir::Operation *, int64_t> positions;
  llvm::DenseMap<mlir::Value, int64_t> lastUses; ///< Of values without their views, and of all their views.
  llvm::StringMap<llvm::SmallVector<Access, 2>> accesses;
  llvm::StringMap<int64_t> lastReads; ///< Last use of a value loaded so far, by symbol.
  const mlir::SymbolTable *symbols;
};

/// Whether the microbatches of a tensor with this layout lie side by side in memory.
bool isCutByMicrobatch(LayoutAttr layout);

/// Bytes of all inputs that the stages of a coordinate read, all microbatches: what the inputs of the next
/// step need where they arrive.
int64_t getStagedBytes(const Pipeline &pipeline, int64_t coordinate);

/// The layout that a parameter or state declares; null for other ops.
LayoutAttr getDeclaredLayout(mlir::Operation *symbol);

} // namespace plumb

#endif // PLUMB_TRANSFORMS_BUFFERS_H
