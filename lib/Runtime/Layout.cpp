//===- Layout.cpp - Where ranks, communicators and slices lie --------------===//

#include "plumb/Runtime/Layout.h"

#include <algorithm>
#include <cstring>

namespace plumb {

std::size_t sizeOf(DType type) {
  switch (type) {
  case DType::F64:
  case DType::I64:
    return 8;
  case DType::F32:
  case DType::I32:
    return 4;
  case DType::BF16:
  case DType::F16:
    return 2;
  case DType::U8:
  case DType::Bool:
    return 1;
  }
  return 1;
}

const char *nameOf(DType type) {
  static const char *const names[] = {"F32", "F64", "BF16", "F16", "I64", "I32", "U8", "BOOL"};
  return names[static_cast<int>(type)];
}

//===----------------------------------------------------------------------===//
// Ranks
//===----------------------------------------------------------------------===//

int rankCount(const Program &program) {
  std::int64_t count = 1;
  for (const Axis &axis : program.mesh)
    count *= axis.size;
  return static_cast<int>(count);
}

std::vector<std::int64_t> coordinatesOf(const Program &program, int rank) {
  std::vector<std::int64_t> coordinates(program.mesh.size());
  std::int64_t rest = rank;
  for (std::size_t i = program.mesh.size(); i-- > 0;) {
    coordinates[i] = rest % program.mesh[i].size;
    rest /= program.mesh[i].size;
  }
  return coordinates;
}

int pipelineSize(const Program &program) {
  return program.pipelineAxis < 0
             ? 1
             : static_cast<int>(program.mesh[static_cast<std::size_t>(program.pipelineAxis)].size);
}

int pipelineOf(const Program &program, std::span<const std::int64_t> coordinates) {
  return program.pipelineAxis < 0
             ? 0
             : static_cast<int>(coordinates[static_cast<std::size_t>(program.pipelineAxis)]);
}

static int rankAt(const Program &program, std::span<const std::int64_t> coordinates) {
  std::int64_t rank = 0;
  for (std::size_t i = 0; i < program.mesh.size(); ++i)
    rank = rank * program.mesh[i].size + coordinates[i];
  return static_cast<int>(rank);
}

std::vector<int> membersOf(const Program &program, const Communicator &communicator, int rank) {
  std::vector<std::int64_t> coordinates = coordinatesOf(program, rank);
  std::vector<int> pipeline(communicator.pipeline.begin(), communicator.pipeline.end());
  if (!pipeline.empty() && std::ranges::find(pipeline, pipelineOf(program, coordinates)) == pipeline.end())
    return {};
  struct Digit {
    std::size_t axis;
    std::int64_t size, stride;
  };
  std::vector<Digit> digits;
  for (const AxisFactor &factor : communicator.axes) {
    if (!pipeline.empty() && factor.axis == program.pipelineAxis)
      continue; // the list governs it
    auto axis = static_cast<std::size_t>(factor.axis);
    std::int64_t whole = program.mesh[axis].size, size = factor.size ? factor.size : whole;
    Digit digit{axis, size, whole / (factor.pre * size)};
    coordinates[axis] -= coordinates[axis] / digit.stride % size * digit.stride;
    digits.push_back(digit);
  }
  std::vector<int> members;
  auto walk = [&](auto &self, std::size_t depth) -> void {
    if (depth == digits.size())
      return members.push_back(rankAt(program, coordinates));
    const Digit &digit = digits[depth];
    for (std::int64_t i = 0; i < digit.size; ++i) {
      self(self, depth + 1);
      coordinates[digit.axis] += digit.stride;
    }
    coordinates[digit.axis] -= digit.size * digit.stride;
  };
  if (pipeline.empty() || program.pipelineAxis < 0) {
    walk(walk, 0);
  } else {
    for (int coordinate : pipeline) {
      coordinates[static_cast<std::size_t>(program.pipelineAxis)] = coordinate;
      walk(walk, 0);
    }
  }
  return members;
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

static std::span<const Dim> dimsOf(const Tensor &tensor) {
  return {tensor.dims, static_cast<std::size_t>(tensor.rank)};
}

std::vector<std::int64_t> shapeOf(const Tensor &tensor) {
  std::vector<std::int64_t> shape;
  for (const Dim &dim : dimsOf(tensor))
    shape.push_back(dim.size);
  return shape;
}

TensorView wholeView(const Tensor &tensor, const std::byte *global) {
  TensorView view{nameOf(tensor.dtype), shapeOf(tensor), {}};
  view.data = {global, view.bytes()};
  return view;
}

std::string describeShape(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

static std::span<const AxisFactor> axesOf(const Dim &dim) {
  return {dim.axes, std::ranges::find(dim.axes, -1, &AxisFactor::axis)};
}

bool isCutByMicrobatch(const Program &program, const Tensor &tensor) {
  return std::ranges::any_of(dimsOf(tensor), [&](const Dim &dim) {
    return std::ranges::count(axesOf(dim), static_cast<int>(program.mesh.size()), &AxisFactor::axis) != 0;
  });
}

/// Rows [begin, begin + size) of `of` rows, and how many the largest part has.
namespace {
struct Range {
  std::int64_t begin, size, padded;
};
} // namespace

static Range cut(const Program &program, const Dim &dim, std::int64_t of,
                 std::span<const std::int64_t> coordinates, std::int64_t microbatch) {
  Range range{0, of, of};
  for (const AxisFactor &factor : axesOf(dim)) {
    auto axis = static_cast<std::size_t>(factor.axis);
    bool inTime = axis == program.mesh.size();
    std::int64_t whole = inTime ? program.microbatches : program.mesh[axis].size;
    std::int64_t n = factor.size ? factor.size : whole;
    std::int64_t r = (inTime ? microbatch : coordinates[axis]) / (whole / (factor.pre * n)) % n;
    std::int64_t per = (range.size + n - 1) / n;
    std::int64_t begin = std::min(range.size, per * r), end = std::min(range.size, per * (r + 1));
    range = {range.begin + begin, end - begin, (range.padded + n - 1) / n};
  }
  return range;
}

/// What a rank holds of a dim: of so many equal blocks, or of each of several that differ.
static std::vector<DimPart> partsOf(const Program &program, const Dim &dim,
                                    std::span<const std::int64_t> coordinates, std::int64_t microbatch) {
  bool differ = dim.blockSizes != nullptr;
  std::vector<DimPart> parts;
  std::int64_t global = 0, local = 0;
  for (int block = 0; block < (differ ? dim.blocks : 1); ++block) {
    std::int64_t size = differ ? dim.blockSizes[block] : dim.size / dim.blocks;
    Range range = cut(program, dim, size, coordinates, microbatch);
    parts.push_back({global + range.begin, local, range.size, range.padded, differ ? 1 : dim.blocks, size});
    global += size;
    local += range.padded;
  }
  return parts;
}

Slice::Slice(const Program &program, const Tensor &tensor, std::span<const std::int64_t> coordinates,
             std::int64_t microbatch) {
  std::span<const Dim> dims = dimsOf(tensor);
  std::vector<std::vector<DimPart>> parts;
  totalBytes = sizeOf(tensor.dtype);
  for (const Dim &dim : dims) {
    parts.push_back(partsOf(program, dim, coordinates, microbatch));
    const DimPart &first = parts.back().front();
    rangeOfDim.push_back({first.begin, first.size, first.blocks, first.blockSize});
    std::int64_t padded = 0;
    for (const DimPart &part : parts.back())
      padded += part.padded * part.blocks;
    localShape.push_back(padded);
    totalBytes *= static_cast<std::size_t>(padded);
  }
  // Every choice of a part of each dim.
  std::vector<std::size_t> choice(dims.size(), 0);
  for (bool more = true; more;) {
    std::vector<DimPart> chosen;
    for (std::size_t i = 0; i < dims.size(); ++i)
      chosen.push_back(parts[i][choice[i]]);
    addNest(sizeOf(tensor.dtype), shapeOf(tensor), chosen);
    more = false;
    for (std::size_t i = dims.size(); i-- > 0 && !more;) {
      more = ++choice[i] < parts[i].size();
      if (!more)
        choice[i] = 0;
    }
  }
}

void Slice::addNest(std::size_t elementBytes, std::span<const std::int64_t> shape,
                    std::span<const DimPart> parts) {
  Nest nest;
  nest.runBytes = nest.ownBytes = elementBytes;
  std::size_t stride = elementBytes,
              local = elementBytes; // of a row, in the global tensor and in the local one
  // From the innermost dimension outwards; a loop whose steps are adjacent runs becomes part of the run.
  auto loop = [&](std::int64_t count, std::size_t step, std::size_t localStep) {
    if (nest.loops.empty() && step == nest.runBytes && localStep == nest.runBytes)
      nest.runBytes *= static_cast<std::size_t>(count);
    else if (count != 1)
      nest.loops.push_back({count, step, localStep});
    nest.ownBytes *= static_cast<std::size_t>(count);
  };
  for (std::size_t i = parts.size(); i-- > 0;) {
    const DimPart &part = parts[i];
    loop(part.size, stride, local);
    loop(part.blocks, stride * static_cast<std::size_t>(part.blockSize),
         local * static_cast<std::size_t>(part.padded));
    nest.start += stride * static_cast<std::size_t>(part.begin);
    nest.localStart += local * static_cast<std::size_t>(part.localBegin);
    stride *= static_cast<std::size_t>(shape[i]);
    local *= static_cast<std::size_t>(localShape[i]);
  }
  std::ranges::reverse(nest.loops);
  ownBytes += nest.ownBytes;
  nests.push_back(std::move(nest));
}

template <class Visit>
bool Slice::walkNest(const Nest &nest, const Visit &visit) {
  if (nest.ownBytes == 0)
    return true;
  std::vector<std::int64_t> index(nest.loops.size(), 0);
  std::size_t global = nest.start, local = nest.localStart;
  for (std::size_t done = 0; done < nest.ownBytes; done += nest.runBytes) {
    if (!visit(local, global, nest.runBytes))
      return false;
    for (std::size_t i = nest.loops.size(); i-- > 0;) {
      const Loop &loop = nest.loops[i];
      global += loop.stride;
      local += loop.localStride;
      if (++index[i] < loop.count)
        break;
      auto count = static_cast<std::size_t>(loop.count);
      global -= loop.stride * count;
      local -= loop.localStride * count;
      index[i] = 0;
    }
  }
  return true;
}

template <class Visit>
bool Slice::walk(const Visit &visit) const {
  return std::ranges::all_of(nests, [&](const Nest &nest) { return walkNest(nest, visit); });
}

void Slice::gather(const TensorView &global, std::byte *local, std::size_t offset) const {
  if (ownBytes != totalBytes)
    std::fill_n(local, totalBytes, std::byte{0});
  walk([&](std::size_t to, std::size_t from, std::size_t bytes) {
    global.copy(offset + from, bytes, local + to);
    return true;
  });
}

void Slice::scatter(const std::byte *local, std::byte *global) const {
  walk([&](std::size_t from, std::size_t to, std::size_t bytes) {
    std::memcpy(global + to, local + from, bytes);
    return true;
  });
}

bool Slice::equals(const std::byte *local, const std::byte *global) const {
  return walk([&](std::size_t mine, std::size_t theirs, std::size_t bytes) {
    return std::memcmp(local + mine, global + theirs, bytes) == 0;
  });
}

void Slice::pad(const std::byte *dense, std::byte *local) const {
  std::fill_n(local, totalBytes, std::byte{0}); // An empty shard may have no memory.
  walk([&](std::size_t to, std::size_t, std::size_t bytes) {
    std::memcpy(local + to, dense, bytes);
    dense += bytes;
    return true;
  });
}

void Slice::forEachRun(const std::function<void(std::size_t, std::size_t, std::size_t)> &visit) const {
  walk([&](std::size_t local, std::size_t global, std::size_t bytes) {
    visit(local, global, bytes);
    return true;
  });
}

} // namespace plumb
