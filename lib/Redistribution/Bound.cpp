//===- Bound.cpp - What no plan can avoid ---------------------------------===//
#include "plumb/Redistribution/Bound.h"
#include "Balance.h"
#include "plumb/Redistribution/IndexSet.h"
#include <algorithm>

using namespace plumb::redistribution;

std::vector<int64_t> plumb::redistribution::elementsLacking(const Mesh &mesh, llvm::ArrayRef<int64_t> shape,
                                                            const Layout &from, const Layout &to) {
  std::vector<int64_t> result;
  for (int64_t rank = 0; rank < mesh.numRanks(); ++rank) {
    Index coordinates = mesh.coordinates(rank);
    IndexSet wanted = localSet(mesh, to, shape, coordinates);
    result.push_back(volume(wanted) - volume(intersect(wanted, localSet(mesh, from, shape, coordinates))));
  }
  return result;
}

namespace {

/// What has to leave the holders of some block, shared among them.
int64_t mostLeaving(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, const Layout &from, const Layout &to) {
  std::vector<IndexSet> held, wanted;
  for (int64_t rank = 0; rank < mesh.numRanks(); ++rank) {
    Index coordinates = mesh.coordinates(rank);
    held.push_back(localSet(mesh, from, shape, coordinates));
    wanted.push_back(localSet(mesh, to, shape, coordinates));
  }
  int64_t most = 0;
  for (const Block &block : distinctBlocks(held)) {
    // Shards of the target are equal or disjoint, so the parts that leave are too.
    std::vector<IndexSet> leaving;
    for (int64_t rank = 0; rank < mesh.numRanks(); ++rank)
      if (!std::binary_search(block.holders.begin(), block.holders.end(), rank))
        leaving.push_back(intersect(block.elements, wanted[rank]));
    int64_t elements = 0;
    for (const Block &part : distinctBlocks(leaving))
      elements += volume(part.elements);
    most = std::max(most, ceilDiv(elements, block.holders.size()));
  }
  return most;
}

} // namespace

double plumb::redistribution::lowerBoundBytes(const Mesh &mesh, llvm::ArrayRef<int64_t> shape,
                                              int64_t elementBytes, const Layout &from, const Layout &to) {
  for (const PartialAxis &partial : to.partial)
    if (partial.axis.size > 1)
      return 0;
  double contributions = 1, keepers = mesh.numRanks();
  for (const PartialAxis &partial : from.partial)
    contributions *= partial.axis.size;
  if (contributions == 1) {
    std::vector<int64_t> lacking = elementsLacking(mesh, shape, from, to);
    int64_t most = *std::max_element(lacking.begin(), lacking.end());
    // Where all shards are equal, so is what the ranks have to send, and no more than they have to receive.
    if (!cutsEvenly(from, shape) || !cutsEvenly(to, shape))
      most = std::max(most, mostLeaving(mesh, shape, from, to));
    return double(most) * elementBytes;
  }
  for (const DimSharding &dim : to.dims)
    for (const AxisRef &ref : dim.axes)
      keepers /= ref.size;
  double mean = double(numElements(shape)) * (contributions - 1 + keepers - 1) / mesh.numRanks();
  double most = numElements(largestLocalShape(mesh, to, shape));
  return std::max(mean, most) * elementBytes;
}
