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

namespace {
/// Rows [begin, begin + size) of each block, and how many the largest part has.
struct Range {
  std::int64_t begin, size, padded;
};
} // namespace

static Range cut(const Program &program, const Dim &dim, std::span<const std::int64_t> coordinates,
                 std::int64_t microbatch) {
  Range range{0, dim.size / dim.blocks, dim.size / dim.blocks};
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

Slice::Slice(const Program &program, const Tensor &tensor, std::span<const std::int64_t> coordinates,
             std::int64_t microbatch) {
  std::size_t stride = sizeOf(tensor.dtype);
  runBytes = ownBytes = totalBytes = stride;
  // From the innermost dimension outwards; a loop whose steps are adjacent runs becomes part of the run.
  auto loop = [&](std::int64_t count, std::int64_t padded, std::size_t step) {
    if (loops.empty() && step == runBytes && totalBytes == runBytes)
      runBytes *= static_cast<std::size_t>(count);
    else if (count != 1)
      loops.push_back({count, step, totalBytes});
    ownBytes *= static_cast<std::size_t>(count);
    totalBytes *= static_cast<std::size_t>(padded);
  };
  std::span<const Dim> dims = dimsOf(tensor);
  for (std::size_t i = dims.size(); i-- > 0;) {
    Range range = cut(program, dims[i], coordinates, microbatch);
    loop(range.size, range.padded, stride);
    loop(dims[i].blocks, dims[i].blocks, stride * static_cast<std::size_t>(dims[i].size / dims[i].blocks));
    start += stride * static_cast<std::size_t>(range.begin);
    stride *= static_cast<std::size_t>(dims[i].size);
    localShape.push_back(range.padded * dims[i].blocks);
    rangeOfDim.push_back({range.begin, range.size, dims[i].blocks, dims[i].size / dims[i].blocks});
  }
  std::ranges::reverse(localShape);
  std::ranges::reverse(rangeOfDim);
  std::ranges::reverse(loops);
}

template <class Visit>
bool Slice::walk(const Visit &visit) const {
  if (ownBytes == 0)
    return true;
  std::vector<std::int64_t> index(loops.size(), 0);
  std::size_t global = start, local = 0;
  for (std::size_t done = 0; done < ownBytes; done += runBytes) {
    if (!visit(local, global))
      return false;
    for (std::size_t i = loops.size(); i-- > 0;) {
      global += loops[i].stride;
      local += loops[i].localStride;
      if (++index[i] < loops[i].count)
        break;
      auto count = static_cast<std::size_t>(loops[i].count);
      global -= loops[i].stride * count;
      local -= loops[i].localStride * count;
      index[i] = 0;
    }
  }
  return true;
}

void Slice::gather(const std::byte *global, std::byte *local) const {
  if (ownBytes != totalBytes)
    std::memset(local, 0, totalBytes);
  walk([&](std::size_t to, std::size_t from) {
    std::memcpy(local + to, global + from, runBytes);
    return true;
  });
}

void Slice::scatter(const std::byte *local, std::byte *global) const {
  walk([&](std::size_t from, std::size_t to) {
    std::memcpy(global + to, local + from, runBytes);
    return true;
  });
}

bool Slice::equals(const std::byte *local, const std::byte *global) const {
  return walk([&](std::size_t mine, std::size_t theirs) {
    return std::memcmp(local + mine, global + theirs, runBytes) == 0;
  });
}

void Slice::pad(const std::byte *dense, std::byte *local) const {
  std::memset(local, 0, totalBytes);
  walk([&](std::size_t to, std::size_t) {
    std::memcpy(local + to, dense, runBytes);
    dense += runBytes;
    return true;
  });
}

void Slice::forEachRun(const std::function<void(std::size_t, std::size_t, std::size_t)> &visit) const {
  walk([&](std::size_t local, std::size_t global) {
    visit(local, global, runBytes);
    return true;
  });
}

} // namespace plumb
