//===- Slots.h - Slot classes of a stage, and access to plan attributes -*- C++ -*-===//

#ifndef PLUMB_TRANSFORMS_SLOTS_H
#define PLUMB_TRANSFORMS_SLOTS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "plumb/Transforms/PlanAttributes.h"
#include "plumb/Transforms/Steps.h"

namespace plumb {

/// Per-microbatch buffers of one lifetime; see PlanAttributes.h.
struct SlotClass {
  std::string name;
  llvm::SmallVector<int64_t> table; ///< The slot of each microbatch.
  int64_t stride = 0;               ///< Bytes from slot to slot.
  /// By microbatch the bytes from the first place, where they do not lie slot by slot.
  llvm::SmallVector<int64_t> places = {};

  int64_t count() const;
  /// Bytes from the first place to that of a microbatch.
  int64_t placeOf(int64_t microbatch) const {
    return places.empty() ? table[microbatch] * stride : places[microbatch];
  }
  /// Whether microbatch m has slot m: all microbatches lie side by side.
  bool isIdentity() const;
};

/// Reports a slot class that is malformed or has slots that no microbatch can have, and an op whose entries
/// in `kSlotAttr` are not those of a class per result (of a store: for the state). What `readSlots` needs.
mlir::LogicalResult verifySlots(StageOp stage, int64_t microbatches);
llvm::SmallVector<SlotClass> readSlots(StageOp stage);
void writeSlots(StageOp stage, llvm::ArrayRef<SlotClass> classes);

/// An event per slot of a class, the first of them numbered `first`; of class -1: one event.
struct EventRef {
  int64_t first, slotClass;

  /// The event of a microbatch.
  int64_t find(llvm::ArrayRef<SlotClass> classes, int64_t microbatch) const {
    return slotClass < 0 ? first : first + classes[slotClass].table[microbatch];
  }
};

/// Events that a launch waits for before it starts (`kWaitsAttr`), or that it records at its end
/// (`kRecordsAttr`). The first op of a group has those of the group.
llvm::SmallVector<EventRef> readEvents(mlir::Operation *op, llvm::StringRef attribute);

/// Entry `index` of a per-result array attribute; -1 if the op does not have it.
int64_t readEntry(mlir::Operation *op, llvm::StringRef attribute, unsigned index = 0);

/// The attributes of PlanAttributes.h are there, of the right kind and in range, and every op of a stage is a
/// call that fits the kernel or communicator it names: what reads a plan may rely on it.
mlir::LogicalResult verifyPlanAttributes(const Pipeline &pipeline);

/// The stream that an op runs on.
int64_t readStream(mlir::Operation *op);

/// Slots of intervals so that intervals which overlap have different ones; as few as possible, the lowest
/// first. Ends are included. O(n log n).
llvm::SmallVector<int64_t> colourIntervals(llvm::ArrayRef<std::pair<int64_t, int64_t>> intervals);

} // namespace plumb

#endif // PLUMB_TRANSFORMS_SLOTS_H
