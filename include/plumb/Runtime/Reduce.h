//===- Reduce.h - The arithmetic of host collectives ----------------------===//

#ifndef PLUMB_RUNTIME_REDUCE_H
#define PLUMB_RUNTIME_REDUCE_H

#include <nccl.h>

#include <cstddef>
#include <span>

namespace plumb::host {

/// Writes op over `inputs` (in their order, elementwise, `count` elements each) to every one of `outputs`. An
/// output may be the same memory as an input. f16 and bf16 are accumulated in f32 and rounded once; the
/// average is the sum divided by the number of inputs.
void reduce(ncclDataType_t type, ncclRedOp_t op, std::span<const void *const> inputs,
            std::span<void *const> outputs, std::size_t count);

} // namespace plumb::host

#endif // PLUMB_RUNTIME_REDUCE_H
