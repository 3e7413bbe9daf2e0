// The arena with tags, against one that keeps for every byte all accesses since its last write.

#include "MemoryState.h"
#include "gtest/gtest.h"
#include <optional>
#include <random>
#include <vector>

using namespace plumb::verification;

namespace {

/// Happens-before as a relation between all accesses ever made.
class Model {
public:
  Model(int64_t bytes, int64_t streams) : cells(bytes), last(streams, -1) {}

  std::optional<Conflict> read(int64_t stream, ByteRange range, int64_t tag) {
    for (int64_t i = range.offset; i < range.offset + range.bytes; ++i)
      if (cells[i].tag != tag)
        return cells[i].tag < 0 ? Conflict::Unwritten : Conflict::Overwritten;
    int access = newAccess(stream);
    for (int64_t i = range.offset; i < range.offset + range.bytes; ++i)
      if (!isBefore(cells[i].writer, access))
        return Conflict::Race;
    for (int64_t i = range.offset; i < range.offset + range.bytes; ++i)
      cells[i].readers.push_back(access);
    return std::nullopt;
  }

  std::optional<Conflict> write(int64_t stream, ByteRange range, int64_t tag) {
    int access = newAccess(stream);
    for (int64_t i = range.offset; i < range.offset + range.bytes; ++i) {
      if (cells[i].tag >= 0 && !isBefore(cells[i].writer, access))
        return Conflict::Race;
      for (int reader : cells[i].readers)
        if (!isBefore(reader, access))
          return Conflict::Race;
    }
    for (int64_t i = range.offset; i < range.offset + range.bytes; ++i)
      cells[i] = {tag, access, {}};
    return std::nullopt;
  }

  void record(int64_t stream, int64_t event) { events[event] = pending(stream); }
  void wait(int64_t stream, int64_t event) {
    if (auto it = events.find(event); it != events.end())
      waits[stream].insert(waits[stream].end(), it->second.begin(), it->second.end());
  }

private:
  struct Cell {
    int64_t tag = -1;
    int writer = -1;
    std::vector<int> readers;
  };

  /// What comes directly before whatever the stream does next.
  std::vector<int> pending(int64_t stream) {
    std::vector<int> result = waits[stream];
    if (last[stream] >= 0)
      result.push_back(last[stream]);
    return result;
  }

  int newAccess(int64_t stream) {
    predecessors.push_back(pending(stream));
    waits[stream].clear();
    return last[stream] = static_cast<int>(predecessors.size()) - 1;
  }

  bool isBefore(int earlier, int later) const {
    if (earlier == later)
      return true;
    std::vector<int> stack{later};
    std::vector<bool> seen(predecessors.size());
    while (!stack.empty()) {
      int access = stack.back();
      stack.pop_back();
      for (int before : predecessors[access]) {
        if (before == earlier)
          return true;
        if (!seen[before]) {
          seen[before] = true;
          stack.push_back(before);
        }
      }
    }
    return false;
  }

  std::vector<Cell> cells;
  std::vector<int> last; ///< By stream.
  std::map<int64_t, std::vector<int>> waits, events;
  std::vector<std::vector<int>> predecessors; ///< By access.
};

TEST(MemoryState, AgreesWithTheModel) {
  std::mt19937 random(3);
  int races = 0, accepted = 0, overwritten = 0;
  for (int round = 0; round < 2000; ++round) {
    constexpr int64_t kBytes = 8, kStreams = 3;
    MemoryState state(kBytes, kStreams);
    Model model(kBytes, kStreams);
    for (int step = 0; step < 40; ++step) {
      int64_t stream = random() % kStreams, event = random() % 3, tag = random() % 3;
      ByteRange range{static_cast<int64_t>(random() % kBytes), 0};
      range.bytes = random() % (kBytes - range.offset + 1);
      switch (random() % 4) {
      case 0:
        state.record(stream, event);
        model.record(stream, event);
        continue;
      case 1:
        state.wait(stream, event);
        model.wait(stream, event);
        continue;
      default:
        break;
      }
      bool isRead = random() % 2;
      Finding finding = isRead ? state.read(stream, range, tag) : state.write(stream, range, tag);
      std::optional<Conflict> expected =
          range.bytes == 0 ? std::nullopt
                           : (isRead ? model.read(stream, range, tag) : model.write(stream, range, tag));
      state.advance(stream);
      if (finding.conflict == Conflict::Unwritten || finding.conflict == Conflict::Overwritten) {
        // Both may be true of a range; which one is found first does not matter.
        EXPECT_TRUE(expected == Conflict::Unwritten || expected == Conflict::Overwritten);
        ++overwritten;
        continue;
      }
      EXPECT_EQ(finding.conflict, expected.value_or(Conflict::None));
      accepted += !finding;
      races += finding.conflict == Conflict::Race;
      if (finding)
        break; // A race leaves both in a state without meaning.
    }
  }
  EXPECT_GT(races, 500);
  EXPECT_GT(accepted, 5000);
  EXPECT_GT(overwritten, 1000);
}

TEST(MemoryState, KnowsItsBounds) {
  MemoryState state(64, 1);
  EXPECT_EQ(state.write(0, {60, 8}, 1).conflict, Conflict::OutOfArena);
  EXPECT_EQ(state.write(0, {-4, 4}, 1).conflict, Conflict::OutOfArena);
  EXPECT_EQ(state.read(0, {64, 1}, 1).conflict, Conflict::OutOfArena);
  EXPECT_EQ(state.write(0, {64, 0}, 1).conflict, Conflict::None);
}

TEST(MemoryState, TheHostRacesWithNothing) {
  MemoryState state(64, 2);
  state.initialize({0, 64}, 7);
  EXPECT_FALSE(state.read(1, {0, 32}, 7));
  EXPECT_EQ(state.findTag({0, 64}).tag, 7);
}

} // namespace
