//===- Layout.h - Where ranks, communicators and slices lie ----------------===//
//
// The arithmetic of `Program.h`: coordinates of ranks, members of communicators, and the part of a global
// tensor that a rank holds.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_RUNTIME_LAYOUT_H
#define PLUMB_RUNTIME_LAYOUT_H

#include "plumb/Runtime/Program.h"
#include "plumb/Runtime/TensorView.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace plumb {

std::size_t sizeOf(DType type);
/// The name in safetensors files: "F32", "BF16", "BOOL", …
const char *nameOf(DType type);

/// Number of ranks: the product of the mesh.
int rankCount(const Program &program);
std::vector<std::int64_t> coordinatesOf(const Program &program, int rank);
int pipelineSize(const Program &program);
/// The coordinate on the pipeline axis; 0 without one.
int pipelineOf(const Program &program, std::span<const std::int64_t> coordinates);

/// The members of the instance of `communicator` that `rank` belongs to, in the communicator's order; empty
/// if the rank is no member. Two ranks of one instance get the same list.
std::vector<int> membersOf(const Program &program, const Communicator &communicator, int rank);

/// Extents of the global tensor.
std::vector<std::int64_t> shapeOf(const Tensor &tensor);
/// The values of a whole tensor, dense and row-major.
TensorView wholeView(const Tensor &tensor, const std::byte *global);
/// "[4, 8]".
std::string describeShape(std::span<const std::int64_t> shape);
/// True if the reserved axis `microbatch` cuts the tensor.
bool isCutByMicrobatch(const Program &program, const Tensor &tensor);

/// The rows of one dimension that a slice takes: `blocks` times `rows` of them, `stride` apart, the first at
/// `begin`.
struct SliceRange {
  std::int64_t begin, rows, blocks, stride;
  bool operator==(const SliceRange &) const = default;
  auto operator<=>(const SliceRange &) const = default;
};

/// What a rank holds of one dimension: in each of `blocks` equal blocks of `blockSize` rows, `size` rows,
/// which begin at `begin` in the first; in the tensor of the rank they begin at `localBegin` and take
/// `padded`.
struct DimPart {
  std::int64_t begin, localBegin, size, padded, blocks, blockSize;
};

/// The part of a global row-major tensor that one rank holds (of one microbatch), as nested strided loops
/// over runs of adjacent elements, one nest for each choice of blocks that differ in size. All ranks' tensors
/// have the shape of the largest part; behind a smaller one lies padding, which is zero when the slice is
/// gathered.
class Slice {
public:
  /// `coordinates` of a rank; `microbatch` counts only where the tensor is cut by it.
  Slice(const Program &program, const Tensor &tensor, std::span<const std::int64_t> coordinates,
        std::int64_t microbatch);

  std::span<const std::int64_t> shape() const { return localShape; }
  std::size_t bytes() const { return totalBytes; }
  /// Without padding.
  std::size_t denseBytes() const { return ownBytes; }
  /// By dimension. No input has blocks that differ in size, of which this is the first.
  std::span<const SliceRange> ranges() const { return rangeOfDim; }

  /// `global` holds the tensor from byte `offset` on.
  void gather(const TensorView &global, std::byte *local, std::size_t offset = 0) const;
  void scatter(const std::byte *local, std::byte *global) const;
  bool equals(const std::byte *local, const std::byte *global) const;
  /// Puts padding between the elements of a dense slice.
  void pad(const std::byte *dense, std::byte *local) const;
  /// Calls `visit(local, global, bytes)` with the byte offsets of each run of adjacent elements.
  void forEachRun(const std::function<void(std::size_t, std::size_t, std::size_t)> &visit) const;
  /// Two slices of one tensor are replicas of each other iff this agrees.
  bool operator==(const Slice &) const = default;
  auto operator<=>(const Slice &) const = default;

private:
  struct Loop {
    std::int64_t count;
    std::size_t stride, localStride; ///< Bytes in the global tensor, and in the local one.
    bool operator==(const Loop &) const = default;
    auto operator<=>(const Loop &) const = default;
  };

  struct Nest {
    std::vector<Loop> loops;                ///< Outermost first.
    std::size_t start = 0, localStart = 0;  ///< Byte offsets of the first run.
    std::size_t runBytes = 0, ownBytes = 0; ///< Of one run and of all.
    bool operator==(const Nest &) const = default;
    auto operator<=>(const Nest &) const = default;
  };

  void addNest(std::size_t elementBytes, std::span<const std::int64_t> shape, std::span<const DimPart> parts);
  template <class Visit>
  static bool walkNest(const Nest &nest, const Visit &visit);
  template <class Visit>
  bool walk(const Visit &visit) const;

  std::vector<std::int64_t> localShape;
  std::vector<SliceRange> rangeOfDim;
  std::vector<Nest> nests;
  std::size_t ownBytes = 0, totalBytes = 0; ///< Without and with padding.
};

} // namespace plumb

#endif // PLUMB_RUNTIME_LAYOUT_H
