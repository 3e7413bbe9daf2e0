//===- MemoryState.cpp - What lies in an arena, and who may touch it -----------===//

#include "MemoryState.h"
#include "llvm/ADT/STLExtras.h"

using namespace plumb::verification;

void MemoryState::split(int64_t position) {
  auto it = segments.upper_bound(position);
  if (it == segments.begin())
    return;
  --it;
  if (it->first == position || it->second.end <= position)
    return;
  segments.emplace(position, it->second);
  it->second.end = position;
}

void MemoryState::replace(ByteRange range, Segment segment) {
  if (range.bytes == 0)
    return;
  split(range.offset);
  split(range.offset + range.bytes);
  auto begin = segments.lower_bound(range.offset);
  segments.erase(begin, segments.lower_bound(range.offset + range.bytes));
  segments.emplace(range.offset, std::move(segment));
}

void MemoryState::initialize(ByteRange range, int64_t tag) {
  if (isInside(range))
    replace(range, {range.offset + range.bytes, tag, {-1, 0}, {}});
}

Finding MemoryState::scan(ByteRange range, int64_t tag) const {
  if (!isInside(range))
    return {Conflict::OutOfArena};
  int64_t position = range.offset, end = range.offset + range.bytes;
  auto it = segments.upper_bound(position);
  if (it != segments.begin())
    --it;
  for (; position < end; ++it) {
    if (it != segments.end() && it->second.end <= position)
      continue;
    if (it == segments.end() || it->first > position)
      return {Conflict::Unwritten};
    if (tag >= 0 && it->second.tag != tag)
      return {Conflict::Overwritten, it->second.tag};
    tag = it->second.tag;
    position = it->second.end;
  }
  return {Conflict::None, tag};
}

Finding MemoryState::read(int64_t stream, ByteRange range, int64_t tag) {
  if (Finding finding = holds(range, tag))
    return finding;
  if (range.bytes == 0)
    return {};
  split(range.offset);
  split(range.offset + range.bytes);
  Access access = next(stream);
  for (auto it = segments.lower_bound(range.offset);
       it != segments.end() && it->first < range.offset + range.bytes; ++it) {
    if (!isOrdered(it->second.writer, stream))
      return {Conflict::Race, it->second.tag};
    auto mine = llvm::find_if(it->second.readers, [&](const Access &a) { return a.stream == stream; });
    if (mine == it->second.readers.end())
      it->second.readers.push_back(access);
    else
      *mine = access;
  }
  return {};
}

Finding MemoryState::write(int64_t stream, ByteRange range, int64_t tag) {
  if (!isInside(range))
    return {Conflict::OutOfArena};
  if (range.bytes == 0)
    return {};
  split(range.offset);
  split(range.offset + range.bytes);
  for (auto it = segments.lower_bound(range.offset);
       it != segments.end() && it->first < range.offset + range.bytes; ++it) {
    const Segment &segment = it->second;
    if (!isOrdered(segment.writer, stream) ||
        llvm::any_of(segment.readers, [&](const Access &reader) { return !isOrdered(reader, stream); }))
      return {Conflict::Race, segment.tag};
  }
  replace(range, {range.offset + range.bytes, tag, next(stream), {}});
  return {};
}

void MemoryState::wait(int64_t stream, int64_t event) {
  auto it = events.find(event);
  if (it == events.end())
    return;
  for (auto [mine, other] : llvm::zip(clocks[stream], it->second))
    mine = std::max(mine, other);
}

void MemoryState::synchronize() {
  llvm::SmallVector<int64_t> latest(clocks.size());
  for (auto [stream, clock] : llvm::enumerate(clocks))
    latest[stream] = clock[stream];
  llvm::fill(clocks, latest);
}
