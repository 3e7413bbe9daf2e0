//===- Launches.cpp - What a rank launches in one step, stream by stream ------===//

#include "plumb/Transforms/Launches.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include <deque>
#include <map>

using namespace mlir;
using namespace plumb;

static bool launchesNothing(Operation *op, const Buffers &buffers) {
  if (auto store = dyn_cast<StoreOp>(op))
    return !buffers.isCopied(store);
  return isa<LoadOp, InputOp, ccl::SliceOp>(op) || op->hasTrait<nn::Reinterprets>();
}

SmallVector<Launch, 0> plumb::getLaunches(const Pipeline &pipeline, ArrayRef<Step> steps,
                                          ArrayRef<const Buffers *> buffers) {
  SmallVector<std::map<Part, SmallVector<Operation *>>> parts(pipeline.stages.size());
  for (auto [index, stage] : llvm::enumerate(pipeline.stages))
    if (buffers[index])
      for (Operation &op : stage->getRegion(0).front())
        if (!launchesNothing(&op, *buffers[index]))
          parts[index][getPart(&op)].push_back(&op);
  SmallVector<Launch, 0> launches;
  for (const Step &step : steps) {
    auto ops = parts[step.stage].find(step.part);
    if (ops == parts[step.stage].end())
      continue;
    if (step.part.isTransfer() && !pipeline.isHandover(step.stage, step.part)) {
      launches.push_back({step, {ops->second.begin(), ops->second.end()}});
      continue;
    }
    for (Operation *op : ops->second)
      launches.push_back({step, {op}});
  }
  return launches;
}

//===----------------------------------------------------------------------===//
// Clocks
//===----------------------------------------------------------------------===//

StreamClocks::StreamClocks(ArrayRef<Launch> launches) {
  int64_t count = 1;
  for (const Launch &launch : launches) {
    streams.push_back(launch.stream());
    count = std::max(count, streams.back() + 1);
  }
  pool.emplace_back(count, -1);
  current.assign(count, 0);
}

bool StreamClocks::isAfter(int64_t stream, int64_t launch) const {
  return streams[launch] == stream || reached(stream, streams[launch]) >= launch;
}

void StreamClocks::wait(int64_t stream, int64_t launch) {
  if (isAfter(stream, launch))
    return;
  Clock clock = pool[current[stream]];
  for (auto [mine, other] : llvm::zip(clock, pool[clocks[launch]]))
    mine = std::max(mine, other);
  clock[streams[launch]] = launch;
  current[stream] = pool.size();
  pool.push_back(std::move(clock));
}

void StreamClocks::advance() { clocks.push_back(current[streams[clocks.size()]]); }

//===----------------------------------------------------------------------===//
// Times
//===----------------------------------------------------------------------===//

SmallVector<Span, 0> plumb::getSpans(ArrayRef<Launch> launches, ArrayRef<SmallVector<SlotClass>> classes) {
  auto count = static_cast<int64_t>(launches.size());
  SmallVector<Span, 0> spans(launches.size(), {-1, 2 * count});
  StreamClocks clocks(launches);
  std::map<int64_t, int64_t> recorded;               // the launch by event
  std::map<int64_t, std::deque<int64_t>> unfinished; // by stream: what the compute stream is not after yet
  for (int64_t index = 0; index < count; ++index) {
    const Launch &launch = launches[index];
    ArrayRef<SlotClass> slots = classes[launch.step.stage];
    int64_t stream = launch.stream();
    for (const EventRef &event : readEvents(launch.head(), kWaitsAttr))
      if (auto source = recorded.find(event.find(slots, launch.step.microbatch)); source != recorded.end())
        clocks.wait(stream, source->second);
    if (stream == 0) {
      spans[index] = {2 * index, 2 * index};
      for (auto &[other, waiting] : unfinished)
        for (; !waiting.empty() && clocks.isAfter(0, waiting.front()); waiting.pop_front())
          spans[waiting.front()].end = 2 * index - 1;
    } else {
      spans[index].begin = 2 * clocks.reached(stream, 0) + 1;
      unfinished[stream].push_back(index);
    }
    clocks.advance();
    for (const EventRef &event : readEvents(launch.head(), kRecordsAttr))
      recorded[event.find(slots, launch.step.microbatch)] = index;
  }
  return spans;
}
