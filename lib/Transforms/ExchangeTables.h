//===- ExchangeTables.h - Steps that differ from rank to rank ---*- C++ -*-===//

#ifndef PLUMB_LIB_TRANSFORMS_EXCHANGETABLES_H
#define PLUMB_LIB_TRANSFORMS_EXCHANGETABLES_H

#include "plumb/Redistribution/Plan.h"

namespace plumb {

/// Where messages in one group of calls lie; per member, in the order of the communicator.
struct ExchangeTables {
  /// Of the group, in mesh order.
  llvm::SmallVector<redistribution::AxisRef> axes;
  /// Pieces as in `ccl.copy`: into the buffer that is sent; from the operand, and from the buffer that is
  /// received, to the result.
  std::vector<llvm::SmallVector<int64_t>> packs, copies, unpacks;
  /// Messages as in `ccl.exchange`.
  std::vector<llvm::SmallVector<int64_t>> sends, receives;
  /// Elements of the buffers that are sent and received; nothing where the tensor itself serves.
  std::optional<int64_t> sendBuffer, receiveBuffer;
  /// Nothing is sent.
  bool isLocal = false;
};

/// A slice, a permute or an exchange as rounds, each of which makes a tensor of the step's result from the
/// one before; nothing if they are too large for a program. There is a second round where messages are handed
/// on. Where shards differ in size groups may differ too: then the axes that cut them belong to the group.
std::optional<std::vector<ExchangeTables>> exchangeTables(const redistribution::Mesh &mesh,
                                                          llvm::ArrayRef<int64_t> shape,
                                                          const redistribution::Step &step);

} // namespace plumb

#endif // PLUMB_LIB_TRANSFORMS_EXCHANGETABLES_H
