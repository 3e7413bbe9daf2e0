//===- Launches.h - What a rank launches in one step, stream by stream -*- C++ -*-===//
//
// The host launches everything in one order; a stream runs its launches in that order, and waits for launches
// of other streams where events tell it to. A *clock* of a stream says how far it has waited for each stream:
// the last launch there that it comes after.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_TRANSFORMS_LAUNCHES_H
#define PLUMB_TRANSFORMS_LAUNCHES_H

#include "plumb/Transforms/Buffers.h"
#include "plumb/Transforms/Slots.h"

namespace plumb {

/// A call, or the calls of a transfer, which start together.
struct Launch {
  Step step;
  llvm::SmallVector<mlir::Operation *, 1> ops;

  /// The op that holds the launch's waits and records.
  mlir::Operation *head() const { return ops.front(); }
  int64_t stream() const { return readStream(head()); }
};

/// All launches of the steps, in order. Loads, inputs, views, and stores of what lies in the state already
/// launch nothing. `buffers` are those of the stages, by index; null for stages that no step is of.
llvm::SmallVector<Launch, 0> getLaunches(const Pipeline &pipeline, llvm::ArrayRef<Step> steps,
                                         llvm::ArrayRef<const Buffers *> buffers);

class StreamClocks {
public:
  explicit StreamClocks(llvm::ArrayRef<Launch> launches);

  /// Whether what the stream runs next comes after a launch.
  bool isAfter(int64_t stream, int64_t launch) const;
  /// The last launch of another stream that the next one of `stream` comes after; -1: none.
  int64_t reached(int64_t stream, int64_t other) const { return pool[current[stream]][other]; }
  /// The stream waits for a launch, and so for all that it has waited for.
  void wait(int64_t stream, int64_t launch);
  /// The next launch, on its stream.
  void advance();

private:
  using Clock = llvm::SmallVector<int64_t, 8>;

  llvm::SmallVector<int64_t> streams; ///< By launch.
  llvm::SmallVector<Clock, 0> pool;   ///< A clock changes only where a stream waits.
  llvm::SmallVector<size_t> current;  ///< By stream, in the pool. Says nothing of the stream itself.
  llvm::SmallVector<size_t> clocks;   ///< By launch, in the pool.
};

/// When a launch may run, both ends included, in time of the compute stream: its launch i runs at 2i. What
/// runs on another stream does so after the last launch there that it comes after, and before the first that
/// comes after it. Two launches whose times do not overlap are ordered.
struct Span {
  int64_t begin, end;
};
llvm::SmallVector<Span, 0> getSpans(llvm::ArrayRef<Launch> launches,
                                    llvm::ArrayRef<llvm::SmallVector<SlotClass>> classes);

} // namespace plumb

#endif // PLUMB_TRANSFORMS_LAUNCHES_H
