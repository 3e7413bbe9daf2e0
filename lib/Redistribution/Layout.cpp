//===- Layout.cpp - Meshes and the layouts of tensors on them -------------===//
#include "plumb/Redistribution/Layout.h"
#include "plumb/Redistribution/LayoutText.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <numeric>

using namespace plumb::redistribution;

namespace {

constexpr int64_t maxRanks = int64_t(1) << 20;
constexpr int64_t maxBlocks = 4096;

template <typename... Ts>
llvm::Error failure(const char *format, Ts &&...args) {
  return llvm::createStringError(llvm::formatv(format, std::forward<Ts>(args)...).str());
}

/// The digits of one axis must be read from a common factorisation: each ends before the next begins.
llvm::Error checkDigits(const Mesh &mesh, std::vector<AxisRef> used) {
  llvm::sort(used);
  for (size_t i = 1; i < used.size(); ++i) {
    const AxisRef &a = used[i - 1], &b = used[i];
    if (a.axis != b.axis)
      continue;
    if (a == b)
      return failure("axis '{0}' is used twice; an axis shards one dimension or is partial, once",
                     toString(mesh, a));
    if (b.pre % (a.pre * a.size) != 0)
      return failure(
          "'{0}' and '{1}' overlap: they are not digits of one factorisation of axis '{2}' of size {3}",
          toString(mesh, a), toString(mesh, b), mesh.axes[a.axis].name, mesh.axes[a.axis].size);
  }
  return llvm::Error::success();
}

llvm::Error checkAxis(const Mesh &mesh, const AxisRef &ref) {
  if (ref.axis >= mesh.axes.size())
    return failure("axis number {0} is not on the mesh {1}", ref.axis, toString(mesh));
  int64_t size = mesh.axes[ref.axis].size;
  if (ref.pre < 1 || ref.size < 1 || ref.pre > size || ref.size > size || size % (ref.pre * ref.size) != 0)
    return failure("sub-axis '{0}' needs {1}·{2} to divide the size {3} of axis '{0}'",
                   mesh.axes[ref.axis].name, ref.pre, ref.size, size);
  return llvm::Error::success();
}

llvm::Error checkBlocks(const DimSharding &dim, int64_t size, size_t d) {
  if (dim.unit < 1 || (dim.unit > size && dim.unit > 1))
    return failure("dimension {0}: a unit of {1} does not fit its {2} elements", d, dim.unit, size);
  if (dim.blocks > maxBlocks || int64_t(dim.blockSizes.size()) > maxBlocks)
    return failure("dimension {0} has more than {1} blocks", d, maxBlocks);
  if (!dim.blockSizes.empty()) {
    if (llvm::any_of(dim.blockSizes, [&](int64_t block) { return block < 0 || block > size; }))
      return failure("dimension {0}: a block is larger than the {1} elements there are, or negative", d,
                     size);
    int64_t sum = 0;
    for (int64_t block : dim.blockSizes)
      sum = std::min(sum + block, size + 1);
    if (sum != size)
      return failure("dimension {0}: the blocks do not add up to its {1} elements", d, size);
  } else if (dim.blocks < 1 || size % dim.blocks != 0) {
    return failure("dimension {0}: {1} elements are not {2} equal blocks", d, size, dim.blocks);
  }
  return llvm::Error::success();
}

bool commute(Reduction a, Reduction b) {
  auto linear = [](Reduction r) { return r == Reduction::Sum || r == Reduction::Avg; };
  return a == b || (linear(a) && linear(b));
}

} // namespace

int64_t Mesh::numRanks() const {
  int64_t ranks = 1;
  for (const MeshAxis &axis : axes)
    ranks *= axis.size;
  return ranks;
}

Index Mesh::coordinates(int64_t rank) const {
  Index result(axes.size());
  for (size_t i = axes.size(); i-- > 0; rank /= axes[i].size)
    result[i] = rank % axes[i].size;
  return result;
}

int64_t Mesh::rank(llvm::ArrayRef<int64_t> coordinates) const {
  int64_t result = 0;
  for (auto [axis, coordinate] : llvm::zip_equal(axes, coordinates))
    result = result * axis.size + coordinate;
  return result;
}

std::optional<unsigned> Mesh::find(llvm::StringRef name) const {
  for (auto [i, axis] : llvm::enumerate(axes))
    if (axis.name == name)
      return i;
  return std::nullopt;
}

llvm::Error plumb::redistribution::checkMesh(const Mesh &mesh) {
  int64_t ranks = 1;
  for (auto [i, axis] : llvm::enumerate(mesh.axes)) {
    if (axis.name.empty())
      return failure("axis number {0} of the mesh has no name", i);
    if (*mesh.find(axis.name) != i)
      return failure("axis '{0}' is on the mesh twice", axis.name);
    if (axis.size < 1)
      return failure("axis '{0}' has size {1}; an axis has at least one rank", axis.name, axis.size);
    if (axis.size > maxRanks || ranks * axis.size > maxRanks)
      return failure("the mesh has more than {0} ranks", maxRanks);
    ranks *= axis.size;
  }
  return llvm::Error::success();
}

AxisRef plumb::redistribution::wholeAxis(const Mesh &mesh, unsigned axis) {
  return {axis, 1, mesh.axes[axis].size};
}

int64_t plumb::redistribution::digit(const Mesh &mesh, const AxisRef &ref,
                                     llvm::ArrayRef<int64_t> coordinates) {
  int64_t post = mesh.axes[ref.axis].size / (ref.pre * ref.size);
  return coordinates[ref.axis] / post % ref.size;
}

int64_t plumb::redistribution::rankStride(const Mesh &mesh, const AxisRef &ref) {
  int64_t stride = mesh.axes[ref.axis].size / (ref.pre * ref.size);
  for (size_t i = ref.axis + 1; i < mesh.axes.size(); ++i)
    stride *= mesh.axes[i].size;
  return stride;
}

llvm::StringRef plumb::redistribution::reductionName(Reduction reduction) {
  switch (reduction) {
  case Reduction::Sum:
    return "sum";
  case Reduction::Avg:
    return "avg";
  case Reduction::Min:
    return "min";
  case Reduction::Max:
    return "max";
  case Reduction::Product:
    return "product";
  }
  return "sum";
}

std::optional<Reduction> plumb::redistribution::reductionFromName(llvm::StringRef name) {
  for (Reduction r : {Reduction::Sum, Reduction::Avg, Reduction::Min, Reduction::Max, Reduction::Product})
    if (reductionName(r) == name)
      return r;
  return std::nullopt;
}

llvm::Error plumb::redistribution::checkLayout(const Mesh &mesh, const Layout &layout,
                                               llvm::ArrayRef<int64_t> shape) {
  if (layout.dims.size() != shape.size())
    return failure("the layout {0} has {1} dimensions, the tensor has {2}: {3}", toString(mesh, layout),
                   layout.dims.size(), shape.size(), toString(shape));
  std::vector<AxisRef> used;
  for (auto [d, dim] : llvm::enumerate(layout.dims)) {
    if (shape[d] < 0)
      return failure("dimension {0} has the negative size {1}", d, shape[d]);
    for (const AxisRef &ref : dim.axes) {
      if (llvm::Error error = checkAxis(mesh, ref))
        return error;
      if (ref.size > 1)
        used.push_back(ref);
    }
    if (llvm::Error error = checkBlocks(dim, shape[d], d))
      return error;
  }
  for (const PartialAxis &partial : layout.partial) {
    if (llvm::Error error = checkAxis(mesh, partial.axis))
      return error;
    if (llvm::is_contained(used, partial.axis))
      return failure("axis '{0}' both shards a dimension and is partial", toString(mesh, partial.axis));
    if (!commute(partial.reduction, layout.partial.front().reduction))
      return failure(
          "partial({0}) over '{1}' and partial({2}) over '{3}' in one layout: the result would depend on "
          "the order; only sum and avg mix",
          reductionName(layout.partial.front().reduction), toString(mesh, layout.partial.front().axis),
          reductionName(partial.reduction), toString(mesh, partial.axis));
  }
  for (const PartialAxis &partial : layout.partial)
    if (partial.axis.size > 1)
      used.push_back(partial.axis);
  return checkDigits(mesh, std::move(used));
}

std::optional<Reduction> plumb::redistribution::reductionOver(const Layout &layout, const AxisRef &ref) {
  for (const PartialAxis &partial : layout.partial) {
    const AxisRef &axis = partial.axis;
    if (axis.axis == ref.axis && axis.pre <= ref.pre && ref.pre < axis.pre * axis.size)
      return partial.reduction;
  }
  return std::nullopt;
}

llvm::SmallVector<int64_t, 4> plumb::redistribution::blocksOf(const DimSharding &dim, int64_t size) {
  if (!dim.blockSizes.empty())
    return llvm::SmallVector<int64_t, 4>(dim.blockSizes.begin(), dim.blockSizes.end());
  return llvm::SmallVector<int64_t, 4>(dim.blocks, size / dim.blocks);
}

bool plumb::redistribution::cutsEvenly(const DimSharding &dim, int64_t size, unsigned count) {
  int64_t shards = dim.unit;
  for (unsigned i = 0; i < count; ++i)
    shards *= dim.axes[i].size;
  return llvm::all_of(blocksOf(dim, size), [&](int64_t block) { return block % shards == 0; });
}

bool plumb::redistribution::cutsEvenly(const Layout &layout, llvm::ArrayRef<int64_t> shape) {
  return llvm::all_of(llvm::zip_equal(layout.dims, shape), [](auto pair) {
    auto [dim, size] = pair;
    return cutsEvenly(dim, size, dim.axes.size());
  });
}

Layout plumb::redistribution::canonicalize(const Mesh &mesh, const Layout &layout,
                                           llvm::ArrayRef<int64_t> shape) {
  Layout result = Layout::replicated(layout.dims.size());
  for (auto [d, dim] : llvm::enumerate(layout.dims)) {
    DimSharding out = dim;
    llvm::erase_if(out.axes, [](const AxisRef &ref) { return ref.size == 1; });
    for (unsigned i = 0; i + 1 < out.axes.size();) {
      // Cutting by a and then by b is cutting by a·b exactly where nothing is left over.
      if (out.axes[i + 1].follows(out.axes[i]) && cutsEvenly(out, shape[d], i + 2)) {
        out.axes[i].size *= out.axes[i + 1].size;
        out.axes.erase(out.axes.begin() + i + 1);
      } else {
        ++i;
      }
    }
    if (llvm::all_equal(out.blockSizes) && !out.blockSizes.empty()) {
      out.blocks = out.blockSizes.size();
      out.blockSizes.clear();
    }
    if (!out.blockSizes.empty())
      out.blocks = 1;
    if (out.axes.empty())
      out = DimSharding();
    // Units change nothing where all shards are equal and on multiples anyway.
    else if (cutsEvenly(out, shape[d], out.axes.size()))
      out.unit = 1;
    result.dims[d] = std::move(out);
  }
  for (const PartialAxis &partial : layout.partial)
    if (partial.axis.size > 1)
      result.partial.push_back(partial);
  llvm::sort(result.partial, [](const auto &a, const auto &b) { return a.axis < b.axis; });
  for (size_t i = 0; i + 1 < result.partial.size();) {
    auto &a = result.partial[i], &b = result.partial[i + 1];
    if (b.axis.follows(a.axis) && a.reduction == b.reduction) {
      a.axis.size *= b.axis.size;
      result.partial.erase(result.partial.begin() + i + 1);
    } else {
      ++i;
    }
  }
  return result;
}
