//===- Events.h - Which launches wait for which -----------------*- C++ -*-===//

#ifndef PLUMB_LIB_TRANSFORMS_EVENTS_H
#define PLUMB_LIB_TRANSFORMS_EVENTS_H

#include "Streams.h"
#include "plumb/Transforms/Launches.h"

namespace plumb {

/// Joins the streams of one coordinate by events, as few as do: a launch waits for the last launch of another
/// stream that made what it reads, or read or made what lay where it writes, unless what its stream has
/// waited for already implies that. Two rules keep what is in flight, and so memory, small: a gather of
/// parameters waits for the computation before it, so that what it fills need not be free earlier; and the
/// computation waits for what is reduced per microbatch, and so for the memory of its operands, when the next
/// reduction has been launched, at the latest at the end of the next part. Sets `kWaitsAttr` and
/// `kRecordsAttr` of the ops, for which `buffers` and `classes` are those of their stages. Returns the number
/// of events.
///
/// The launches of a step are walked in order, with the clocks of the streams. Linear in what they read and
/// write, times the streams.
int64_t assignEvents(llvm::ArrayRef<Launch> launches, llvm::ArrayRef<const Buffers *> buffers,
                     llvm::ArrayRef<llvm::SmallVector<SlotClass>> classes, const StreamNumbers &streams);

} // namespace plumb

#endif // PLUMB_LIB_TRANSFORMS_EVENTS_H
