//===- Lowering.h - One step as messages between local tensors --*- C++ -*-===//
//
// What a rank does in a step, down to boxes of its local tensors: copy what it
// keeps, pack what it sends, call the collective, unpack what it receives. All
// counts and offsets are in elements.
//
//   all_gather      sends its local tensor once; `count` per member, padded to the largest
//   reduce_scatter  sends `count` per member, padded to the largest
//   all_reduce      the local tensor, in place
//   all_to_all, permute, exchange    grouped send/receive of exact counts; empty messages are left out; an
//                                    exchange of uneven shards may take a second group
//
//===----------------------------------------------------------------------===//
#ifndef PLUMB_REDISTRIBUTION_LOWERING_H
#define PLUMB_REDISTRIBUTION_LOWERING_H

#include "plumb/Redistribution/IndexSet.h"
#include "plumb/Redistribution/Plan.h"

namespace plumb::redistribution {

/// Part of the source or result, as it lies in the buffer of a collective: the boxes one after another, each
/// row-major.
struct Message {
  /// Position in the group.
  int64_t peer = 0;
  int64_t bufferOffset = 0;
  int64_t count = 0;
  /// In the local source (sends) or the local result (receives, relays).
  std::vector<Box> boxes;
};

/// Elements that stay on the rank; `source` and `result` have equal shapes.
struct LocalCopy {
  Box source;
  Box result;
};

struct RankStep {
  /// The ranks of the group, in order, and this rank's position in it.
  std::vector<int64_t> group;
  int64_t position = 0;
  Index localBefore, localAfter;
  std::vector<LocalCopy> copies;
  std::vector<Message> sends, receives;
  /// A second group of messages, where few hold what many need: what arrived is handed on, out of the local
  /// result.
  std::vector<Message> relays, relayed;
  /// Elements per member of an all_gather or reduce_scatter; the size of the tensor for an all_reduce.
  int64_t count = 0;
  /// The buffer is the local tensor itself, no packing needed.
  bool sendsInPlace = false, receivesInPlace = false;
  /// A mask keeps no value on this rank: the result is the neutral element everywhere.
  bool neutral = false;

  int64_t sentElements() const;
  int64_t receivedElements() const;
};

/// The ranks of the group of `rank` over `axes`, row-major in the order of `axes`.
std::vector<int64_t> groupOf(const Mesh &mesh, llvm::ArrayRef<AxisRef> axes, int64_t rank);

RankStep lowerStep(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, const Step &step, int64_t rank);

/// The same for the whole group of `rank`, in group order; an exchange is balanced over it once.
std::vector<RankStep> lowerGroup(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, const Step &step,
                                 int64_t rank);

/// What one member of a group moves in a step.
struct MemberLoad {
  int64_t rank = 0;
  int64_t sent = 0, received = 0;
  /// Messages that it sends or receives, whichever are more.
  int64_t messages = 0;
};

/// The same figures as of `lowerGroup`, without where the elements lie; for steps of messages (all_to_all,
/// permute, exchange).
std::vector<MemberLoad> loadsOfGroup(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, const Step &step,
                                     int64_t rank);

} // namespace plumb::redistribution

#endif // PLUMB_REDISTRIBUTION_LOWERING_H
