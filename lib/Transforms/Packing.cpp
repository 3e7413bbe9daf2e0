//===- Packing.cpp - Places in memory for what lives for a while -------------===//

#include "Packing.h"
#include <iterator>

using namespace plumb;

void Packing::addHole(int64_t offset, int64_t bytes) {
  holes[offset] = bytes;
  bySize.insert({bytes, offset});
}

void Packing::removeHole(std::map<int64_t, int64_t>::iterator hole) {
  bySize.erase({hole->second, hole->first});
  holes.erase(hole);
}

int64_t Packing::allocate(int64_t bytes) {
  bytes = alignUp(bytes);
  used += bytes;
  if (bytes == 0)
    return 0;
  auto fit = bySize.lower_bound({bytes, 0});
  if (fit != bySize.end()) {
    auto [size, offset] = *fit;
    removeHole(holes.find(offset));
    if (size > bytes)
      addHole(offset + bytes, size - bytes);
    return offset;
  }
  // A hole at the end is made longer.
  int64_t offset = end;
  if (!holes.empty() && std::prev(holes.end())->first + std::prev(holes.end())->second == end) {
    offset = std::prev(holes.end())->first;
    removeHole(std::prev(holes.end()));
  }
  end = offset + bytes;
  return offset;
}

void Packing::release(int64_t offset, int64_t bytes) {
  bytes = alignUp(bytes);
  used -= bytes;
  if (bytes == 0)
    return;
  auto next = holes.lower_bound(offset);
  if (next != holes.end() && next->first == offset + bytes) {
    bytes += next->second;
    removeHole(next);
  }
  next = holes.lower_bound(offset);
  if (next != holes.begin())
    if (auto previous = std::prev(next); previous->first + previous->second == offset) {
      offset = previous->first;
      bytes += previous->second;
      removeHole(previous);
    }
  addHole(offset, bytes);
}
