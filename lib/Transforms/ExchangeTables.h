//===- ExchangeTables.h - Steps that differ from rank to rank ---*- C++ -*-===//

#ifndef PLUMB_LIB_TRANSFORMS_EXCHANGETABLES_H
#define PLUMB_LIB_TRANSFORMS_EXCHANGETABLES_H

#include "plumb/Redistribution/Plan.h"

namespace plumb {

/// Where the messages of a step that differs from rank to rank lie; per member of a group, in its order.
struct ExchangeTables {
  /// Pieces as in `ccl.copy`: into the buffer that is sent; from the operand, and from the buffer that is
  /// received, to the result.
  std::vector<llvm::SmallVector<int64_t>> packs, copies, unpacks;
  /// Messages as in `ccl.exchange`.
  std::vector<llvm::SmallVector<int64_t>> sends, receives;
  /// Elements of the buffers that are sent and received; nothing where the tensor itself serves.
  std::optional<int64_t> sendBuffer, receiveBuffer;
};

/// The tables of a permute or an exchange whose axes are in mesh order; nothing if groups differ, or if the
/// tables are too large for a program.
std::optional<ExchangeTables> exchangeTables(const redistribution::Mesh &mesh, llvm::ArrayRef<int64_t> shape,
                                             const redistribution::Step &step);

} // namespace plumb

#endif // PLUMB_LIB_TRANSFORMS_EXCHANGETABLES_H
