//===- MemoryState.h - What lies in an arena, and who may touch it -*- C++ -*-===//
//
// Every byte that has been written carries a *tag*, the number of what was written there. Streams are ordered
// by vector clocks: `clock[s]` of a stream is how far it has waited for stream s. Two accesses of different
// streams, one of them a write, are a race unless the later one's clock covers the earlier one.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_LIB_TRANSFORMS_MEMORYSTATE_H
#define PLUMB_LIB_TRANSFORMS_MEMORYSTATE_H

#include "llvm/ADT/SmallVector.h"
#include <cstdint>
#include <map>

namespace plumb::verification {

struct ByteRange {
  int64_t offset, bytes;
  bool operator==(const ByteRange &) const = default;
};

/// How an access fails.
enum class Conflict {
  None,
  OutOfArena,
  Unwritten,   ///< Some byte was never written.
  Overwritten, ///< Some byte holds another tag: `tag`.
  Race,        ///< Another stream's access, of `tag`, may not be over.
};

struct Finding {
  Conflict conflict = Conflict::None;
  int64_t tag = -1;
  explicit operator bool() const { return conflict != Conflict::None; }
};

class MemoryState {
public:
  MemoryState(int64_t bytes, int64_t streams)
      : bytes(bytes), clocks(streams, llvm::SmallVector<int64_t>(streams, 0)) {}

  /// Accesses by what runs next on a stream.
  Finding read(int64_t stream, ByteRange range, int64_t tag);
  Finding write(int64_t stream, ByteRange range, int64_t tag);
  /// A write with which nothing can race: the host's, while the device is idle.
  void initialize(ByteRange range, int64_t tag);
  /// The one tag of all bytes of a range, or why there is none. No access.
  Finding findTag(ByteRange range) const { return scan(range, -1); }
  /// Whether all bytes of a range hold the tag. No access.
  Finding holds(ByteRange range, int64_t tag) const { return scan(range, tag); }

  /// What runs next on the stream comes after what ran there.
  void advance(int64_t stream) { ++clocks[stream][stream]; }
  void record(int64_t stream, int64_t event) { events[event] = clocks[stream]; }
  void wait(int64_t stream, int64_t event);
  /// The host waits for all streams.
  void synchronize();

private:
  struct Access {
    int64_t stream, time;
  };
  struct Segment {
    int64_t end, tag;
    Access writer;                        ///< Stream -1: the host.
    llvm::SmallVector<Access, 2> readers; ///< The latest of each stream.
  };
  using Segments = std::map<int64_t, Segment>;

  bool isOrdered(const Access &earlier, int64_t stream) const {
    return earlier.stream < 0 || earlier.stream == stream || clocks[stream][earlier.stream] >= earlier.time;
  }
  Access next(int64_t stream) const { return {stream, clocks[stream][stream] + 1}; }
  bool isInside(ByteRange range) const {
    return range.offset >= 0 && range.bytes >= 0 && range.offset <= bytes &&
           range.bytes <= bytes - range.offset;
  }
  /// Whether all bytes have the tag; with -1, that of the first.
  Finding scan(ByteRange range, int64_t tag) const;
  /// Makes a segment begin at `position`, if one covers it.
  void split(int64_t position);
  void replace(ByteRange range, Segment segment);

  int64_t bytes;
  Segments segments; ///< By first byte; they do not overlap.
  llvm::SmallVector<llvm::SmallVector<int64_t>> clocks;
  std::map<int64_t, llvm::SmallVector<int64_t>> events;
};

} // namespace plumb::verification

#endif // PLUMB_LIB_TRANSFORMS_MEMORYSTATE_H
