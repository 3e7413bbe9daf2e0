//===- Program.h - What a generated program is made of --------------------===//
//
// Included by a generated `program.cpp` after <cuda_runtime.h> and <nccl.h>, whose contents it uses: the real
// ones, or the host versions in `plumb/Runtime/Host`. The program defines `plumb_program`; the collective
// provider that it is linked with defines `main`, builds one `Rank` per rank, loads the data, and calls
// `step`.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_RUNTIME_PROGRAM_H
#define PLUMB_RUNTIME_PROGRAM_H

#include "plumb/Runtime/Failure.h"

#include <cuda_runtime.h>
#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

static_assert(CUDART_VERSION >= 12030, "a program needs CUDA 12.3 or newer");
static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 26, 0), "a program needs NCCL 2.26 or newer");

namespace plumb {

enum class DType : std::uint8_t { F32, F64, BF16, F16, I64, I32, U8, Bool };

/// One axis of the mesh. Ranks are numbered row-major over the axes in order, the last axis fastest.
struct Axis {
  const char *name;
  std::int64_t size;
};

/// A mesh axis (size 0), or a factor of one: the coordinate is read as three digits, of `pre`, `size` and the
/// rest, and this is the middle one.
struct AxisFactor {
  int axis = -1;
  std::int64_t pre = 1, size = 0;
};

/// One dimension of a global tensor of extent `size`, made of `blocks` blocks (fused QKV), equal ones or of
/// the given sizes, each of which is cut by mesh axes, outermost first. `axes` ends at the first -1; an entry
/// equal to the number of mesh axes stands for the reserved axis `microbatch`. An axis of n coordinates gives
/// coordinate r the rows [min(s, f·r), min(s, f·(r+1))) of the s rows left by the axes before it, f =
/// ceil(s/n): shards may be uneven or empty.
struct Dim {
  std::int64_t size;
  std::int32_t blocks = 1;
  AxisFactor axes[6] = {}; ///< Outermost first, until one whose axis is -1.
  const std::int64_t *blockSizes = nullptr;
};

inline constexpr std::size_t kAbsent = ~std::size_t(0);

/// What the values of an input of integers may be: 0 to `count` - 1, and `ignored` where there is such a one.
/// `reader` takes them as indices.
struct IndexRange {
  std::int64_t count;
  bool ignores;
  std::int64_t ignored;
  const char *reader;
};

/// A tensor that outlives a step. `offsets[p]` is the byte offset of the local slice in the arena of pipeline
/// coordinate p, or kAbsent where that coordinate does not hold it. If `microbatch` shards it, the slice of
/// microbatch m lies `m * stride` bytes further. Slices are dense and row-major.
struct Tensor {
  const char *name;
  DType dtype;
  std::int8_t rank;
  Dim dims[8];
  std::span<const std::size_t> offsets;
  std::size_t stride = 0;
  std::span<const char *const> aliases = {};
  /// Per microbatch the pipeline coordinate that makes its slice; empty: every one that holds the tensor.
  std::span<const int> makers = {};
  const IndexRange *indices = nullptr; ///< Of an input; null: any value will do.
};

/// Ranks that talk to each other: those that differ only in `axes` and, when `pipeline` is not empty, in the
/// pipeline coordinate, which runs over that list. Order in the communicator: the pipeline list slowest, in
/// its own order, then the axes as they are listed. A rank whose pipeline coordinate is not in a non-empty
/// list is no member; its handle is null.
struct Communicator {
  const char *name;
  std::span<const AxisFactor> axes;
  std::span<const int> pipeline;
};

/// `rows` rows of `run` elements, `fromPitch` and `toPitch` elements apart.
struct Piece2D {
  std::int64_t from, to, run, rows, fromPitch, toPitch;
};

/// What a member of an exchange sends to, or receives from, another; in elements.
struct Message {
  int peer;
  std::int64_t offset;
  std::size_t count;
};

/// One entry of a schedule table. `peer` is the stage at the other end of a transfer, -1 elsewhere.
enum ActionKind : std::uint8_t { F, B, I, W, SEND_F, RECV_F, SEND_B, RECV_B, REDUCE };
struct Action {
  ActionKind kind;
  int stage;
  int microbatch;
  int peer;
};

class Rank;

struct Program {
  const char *name;
  const char *signature; ///< Of the whole text of the program: equal on all ranks of a run.
  std::span<const Axis> mesh;
  int pipelineAxis; ///< Index in `mesh`; -1: none.
  std::int64_t microbatches;
  std::span<const Communicator> communicators; ///< In the order in which they are created.
  std::span<const Tensor> parameters, gradients, inputs, outputs;
  std::span<const Tensor> nonPersistent; ///< Buffers and constants that the model does not save.
  std::span<const Tensor> numbers;       ///< Element i of each is the number i, an i64.
  std::span<const Tensor> moments; ///< What the optimizer keeps from step to step; zero before the first.
  const Tensor *loss;              ///< A scalar; null in inference.
  const Tensor *counter;           ///< A scalar that holds the number of finished steps; null if unread.
  const Tensor *norm;              ///< A scalar, the global norm of the gradients; null if not measured.
  const Tensor *rate;              ///< A scalar, the learning rate; null if it is always `constantRate`.
  double constantRate;             ///< 0 without an optimizer.
  std::span<const std::size_t> arenaBytes; ///< Per pipeline coordinate.
  /// Per pipeline coordinate the offset in the arena where the inputs of the next step arrive.
  std::span<const std::size_t> staging;
  int streams, events;
  void (*step)(Rank &);
};

/// One rank of a running program: its place in the mesh and what was created for it. Handles are borrowed.
class Rank {
public:
  struct Handles {
    void *arena = nullptr;
    std::vector<ncclComm_t> comms;
    std::vector<cudaStream_t> streams;
    std::vector<cudaEvent_t> events;
  };

  Rank(int rank, std::vector<std::int64_t> coordinates, int pipeline, Handles handles)
      : number(rank), pipelineCoordinate(pipeline), coordinates(std::move(coordinates)),
        handles(std::move(handles)) {}

  int rank() const { return number; }
  std::int64_t coordinate(int axis) const { return coordinates[static_cast<std::size_t>(axis)]; }
  /// The coordinate on the pipeline axis; 0 without one.
  int pipeline() const { return pipelineCoordinate; }

  template <class T>
  T *at(std::size_t offset) const {
    return reinterpret_cast<T *>(static_cast<char *>(handles.arena) + offset);
  }
  ncclComm_t comm(int index) const { return handles.comms[static_cast<std::size_t>(index)]; }
  cudaStream_t stream(int index) const { return handles.streams[static_cast<std::size_t>(index)]; }
  cudaEvent_t event(int index) const { return handles.events[static_cast<std::size_t>(index)]; }

private:
  int number, pipelineCoordinate;
  std::vector<std::int64_t> coordinates;
  Handles handles;
};

namespace detail {
[[noreturn]] void raise(cudaError_t error, const char *call, const char *file, int line);
/// Returns if `result` is ncclInProgress and the provider could bring the call to an end.
void settle(ncclResult_t result, const char *call, const char *file, int line);
} // namespace detail

/// Says which part of which stage the calls that follow belong to, and for which microbatch, if for one:
/// reports of failures and profilers name it. `part` must outlive the program's step.
void enter(const char *part, std::size_t microbatch = kAbsent);

inline void check(cudaError_t error, const char *call, const char *file, int line) {
  if (error != cudaSuccess) [[unlikely]]
    detail::raise(error, call, file, line);
}
inline void check(ncclResult_t result, const char *call, const char *file, int line) {
  if (result != ncclSuccess) [[unlikely]]
    detail::settle(result, call, file, line);
}

/// Copies a piece on the device.
template <class T>
cudaError_t copyPiece(const Piece2D &piece, const T *from, T *to, cudaStream_t stream) {
  auto bytes = [](std::int64_t elements) { return static_cast<std::size_t>(elements) * sizeof(T); };
  return cudaMemcpy2DAsync(to + piece.to, bytes(piece.toPitch), from + piece.from, bytes(piece.fromPitch),
                           bytes(piece.run), static_cast<std::size_t>(piece.rows), cudaMemcpyDeviceToDevice,
                           stream);
}

} // namespace plumb

/// Evaluate a call once; throw plumb::Failure with its text, its place and the library's message if it fails.
#define PLUMB_CUDA(call) ::plumb::check((call), #call, __FILE__, __LINE__)
#define PLUMB_NCCL(call) ::plumb::check((call), #call, __FILE__, __LINE__)
#define PLUMB_LAUNCH(call) ::plumb::check((call), #call, __FILE__, __LINE__)

extern "C" const plumb::Program plumb_program;

#endif // PLUMB_RUNTIME_PROGRAM_H
