//===- IndexSet.cpp - Which elements a rank holds -------------------------===//
#include "plumb/Redistribution/IndexSet.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

using namespace plumb::redistribution;

namespace {

void append(Intervals &intervals, Interval next) {
  if (next.size() <= 0)
    return;
  if (!intervals.empty() && intervals.back().end == next.begin)
    intervals.back().end = next.end;
  else
    intervals.push_back(next);
}

/// The piece of one block that the digits select.
Interval cutBlock(const Mesh &mesh, const DimSharding &dim, Interval block,
                  llvm::ArrayRef<int64_t> coordinates) {
  for (const AxisRef &ref : dim.axes)
    block = cut(block, ref.size, digit(mesh, ref, coordinates), dim.unit);
  return block;
}

} // namespace

int64_t Box::volume() const { return numElements(shape); }

int64_t plumb::redistribution::sizeOf(const Intervals &intervals) {
  int64_t size = 0;
  for (const Interval &interval : intervals)
    size += interval.size();
  return size;
}

int64_t plumb::redistribution::volume(const IndexSet &set) {
  int64_t result = 1;
  for (const Intervals &intervals : set)
    result *= sizeOf(intervals);
  return result;
}

Intervals plumb::redistribution::intersect(const Intervals &a, const Intervals &b) {
  Intervals result;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    append(result, {std::max(a[i].begin, b[j].begin), std::min(a[i].end, b[j].end)});
    (a[i].end < b[j].end) ? ++i : ++j;
  }
  return result;
}

IndexSet plumb::redistribution::intersect(const IndexSet &a, const IndexSet &b) {
  IndexSet result;
  for (auto [x, y] : llvm::zip_equal(a, b))
    result.push_back(intersect(x, y));
  return result;
}

Interval plumb::redistribution::cut(Interval piece, int64_t n, int64_t c, int64_t unit) {
  int64_t size = piece.size();
  int64_t f = ceilDiv(ceilDiv(size, unit), n) * unit;
  return {piece.begin + std::min(size, f * c), piece.begin + std::min(size, f * (c + 1))};
}

IndexSet plumb::redistribution::globalSet(llvm::ArrayRef<int64_t> shape) {
  IndexSet result(shape.size());
  for (auto [intervals, size] : llvm::zip_equal(result, shape))
    append(intervals, {0, size});
  return result;
}

IndexSet plumb::redistribution::localSet(const Mesh &mesh, const Layout &layout,
                                         llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> coordinates) {
  IndexSet result(shape.size());
  for (auto [d, dim] : llvm::enumerate(layout.dims)) {
    int64_t begin = 0;
    for (int64_t size : blocksOf(dim, shape[d])) {
      append(result[d], cutBlock(mesh, dim, {begin, begin + size}, coordinates));
      begin += size;
    }
  }
  return result;
}

Index plumb::redistribution::localShape(const IndexSet &set) {
  Index result;
  for (const Intervals &intervals : set)
    result.push_back(sizeOf(intervals));
  return result;
}

Index plumb::redistribution::localOffset(const Mesh &mesh, const Layout &layout,
                                         llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> coordinates) {
  Index result;
  for (auto [d, dim] : llvm::enumerate(layout.dims)) {
    auto blocks = blocksOf(dim, shape[d]);
    result.push_back(cutBlock(mesh, dim, {0, blocks.empty() ? 0 : blocks.front()}, coordinates).begin);
  }
  return result;
}

Index plumb::redistribution::localShape(const Mesh &mesh, const Layout &layout, llvm::ArrayRef<int64_t> shape,
                                        int64_t rank) {
  return localShape(localSet(mesh, layout, shape, mesh.coordinates(rank)));
}

Index plumb::redistribution::largestLocalShape(const Mesh &mesh, const Layout &layout,
                                               llvm::ArrayRef<int64_t> shape) {
  return localShape(mesh, layout, shape, 0);
}

std::vector<Box> plumb::redistribution::boxesWithin(const IndexSet &part, const IndexSet &whole) {
  // Per dimension: the local position and the size of every run.
  llvm::SmallVector<llvm::SmallVector<std::pair<int64_t, int64_t>, 2>, 4> runs(part.size());
  for (size_t d = 0; d < part.size(); ++d) {
    for (const Interval &run : part[d]) {
      int64_t position = 0;
      for (const Interval &held : whole[d]) {
        int64_t begin = std::max(run.begin, held.begin), end = std::min(run.end, held.end);
        if (begin < end)
          runs[d].push_back({position + begin - held.begin, end - begin});
        position += held.size();
      }
    }
    if (runs[d].empty())
      return {};
  }
  std::vector<Box> boxes;
  llvm::SmallVector<size_t, 4> at(part.size(), 0);
  for (;;) {
    Box box;
    for (size_t d = 0; d < part.size(); ++d) {
      box.offset.push_back(runs[d][at[d]].first);
      box.shape.push_back(runs[d][at[d]].second);
    }
    boxes.push_back(std::move(box));
    size_t d = part.size();
    while (d > 0 && ++at[d - 1] == runs[d - 1].size())
      at[--d] = 0;
    if (d == 0)
      return boxes;
  }
}

int64_t plumb::redistribution::numElements(llvm::ArrayRef<int64_t> shape) {
  int64_t result = 1;
  for (int64_t size : shape)
    result *= size;
  return result;
}
