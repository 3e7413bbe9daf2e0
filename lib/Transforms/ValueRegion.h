//===- ValueRegion.h - Where the values of a rank lie -----------*- C++ -*-===//
//
// All values of a coordinate, and the scratch of its kernels, lie in one region, in which those that are
// never in use at one time share memory. Time is that of `Span`.
//
//   * What one part uses alone is packed by the order within the part. All of it is one block; so is what is
//     still in use on another stream when the part ends.
//   * What lives from part to part has a block per slot of its class, or, where that wastes memory, one per
//     microbatch; all values of the class lie together in each.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_LIB_TRANSFORMS_VALUEREGION_H
#define PLUMB_LIB_TRANSFORMS_VALUEREGION_H

#include "Packing.h"
#include "plumb/Transforms/Launches.h"
#include "llvm/ADT/MapVector.h"
#include <map>

namespace plumb {

/// What is known of the memory of a stage, and where everything comes to lie.
struct StageMemory {
  StageMemory(StageOp stage, const mlir::SymbolTable &symbols)
      : stage(stage), buffers(stage, symbols), classes(readSlots(stage)), offsets(buffers.all().size(), -1) {}

  /// The slot class of a buffer, -1 if it has none.
  int64_t classOf(const Buffer &buffer) const {
    auto result = llvm::cast<mlir::OpResult>(buffer.root);
    return readEntry(result.getOwner(), kSlotAttr, result.getResultNumber());
  }

  StageOp stage;
  Buffers buffers;
  llvm::SmallVector<SlotClass> classes;
  llvm::SmallVector<int64_t> offsets;                  ///< By buffer; those of values, of slot 0.
  llvm::MapVector<mlir::Operation *, int64_t> scratch; ///< Offsets.
};

/// Bytes of a region by use. Values that are not needed at one time share memory, so that the sum may be more
/// than the region.
struct RegionUsage {
  int64_t activations = 0, temporaries = 0;
  int64_t live = 0;    ///< The most that is in use at one time, alignment included.
  std::string largest; ///< Where most temporary memory is in use.
  std::vector<std::pair<int64_t, std::string>> parts; ///< What takes how much, in words.
};

class ValueRegion {
public:
  /// Launches and stages of one coordinate.
  ValueRegion(const mlir::SymbolTable &symbols, int64_t microbatches, llvm::ArrayRef<Launch> launches,
              llvm::MutableArrayRef<StageMemory> stages);

  /// Sets the offsets of values and scratch, and where slots lie. Returns the end of the region.
  int64_t place(int64_t begin);

  RegionUsage usage; ///< Of what `place` has placed.

private:
  /// A buffer or scratch that needs a place.
  struct Item {
    int64_t bytes;
    int64_t *offset;
    llvm::SmallVector<Span, 0>
        spans;              ///< By microbatch, the first for what runs once; unused if they end at -1.
    Span local{kNever, -1}; ///< Positions in its part, over all microbatches.
  };
  struct StageItems {
    StageMemory *memory;
    llvm::SmallVector<Item, 0> buffers;
    llvm::MapVector<mlir::Operation *, Item> scratch;
  };
  /// The launches of one part.
  struct PartLaunches {
    llvm::SmallVector<mlir::Operation *> ops; ///< Of one microbatch.
    std::map<int64_t, int64_t> begins;        ///< The first launch by microbatch.
    bool isElsewhere = true; ///< All of it runs on one stream, which is not that of computation.
  };
  /// What has a place: what lies in it, with offsets from its start.
  struct Block {
    TimedBlock place;
    llvm::SmallVector<int64_t *> offsets;
  };
  /// The blocks of a slot class, and which of them each microbatch has.
  struct ClassBlocks {
    SlotClass *slots;
    size_t first;
    llvm::SmallVector<int64_t> blockOf;
    llvm::SmallVector<int64_t *> offsets;
  };
  struct Arrangement {
    llvm::SmallVector<Block, 0> blocks;
    llvm::SmallVector<ClassBlocks, 0> classes;
    int64_t size;
  };
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  int64_t scratchOf(mlir::Operation *op) const;
  void collectItems();
  void use(Item &item, int64_t launch, int64_t position) const;
  void makeBlocks(StageItems &stage);
  void addClassBlocks(StageItems &stage, bool byMicrobatch, Arrangement &arrangement) const;
  Arrangement arrange(bool byMicrobatch);
  Packed packTogether(llvm::ArrayRef<Item *> items, const PartLaunches &part);
  void packPart(StageItems &stage, const Part &part, llvm::ArrayRef<Item *> items);
  Span getPosition(const Item &item, const PartLaunches &part) const;
  void addTimes(
      const Item &item, TimedBlock &block,
      llvm::function_ref<bool(int64_t)> isWanted = [](int64_t) { return true; }) const;
  void addBlock(const Item &item);
  static void placeClass(const ClassBlocks &entry, const Arrangement &arrangement, int64_t begin);
  Span roundOut(Span span) const;
  int64_t findLargestLiveSet() const;

  const mlir::SymbolTable &symbols;
  int64_t microbatches;
  llvm::ArrayRef<Launch> launches;
  llvm::SmallVector<Span, 0> spans;     ///< By launch.
  std::map<int64_t, StageItems> stages; ///< By index.
  std::map<std::pair<int64_t, Part>, PartLaunches> parts;
  llvm::SmallVector<Block, 0> blocks; ///< But for those of slot classes.
};

} // namespace plumb

#endif // PLUMB_LIB_TRANSFORMS_VALUEREGION_H
