//===- Transfer.cpp - From one mesh to another ----------------------------===//
#include "plumb/Redistribution/Transfer.h"
#include "Balance.h"
#include "plumb/Redistribution/LayoutText.h"
#include "plumb/Redistribution/Planner.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <map>
#include <set>

using namespace plumb::redistribution;

namespace {

constexpr unsigned across = 0, relay = 1, share = 2;
constexpr int64_t maxPairs = 1 << 22, maxMessages = 1 << 18;

template <typename... Ts>
llvm::Error failure(const char *format, Ts &&...args) {
  return llvm::createStringError(llvm::formatv(format, std::forward<Ts>(args)...).str());
}

llvm::Error checkPlacement(llvm::StringRef role, const Placement &placement) {
  if (llvm::Error error = checkMesh(placement.mesh))
    return error;
  if (int64_t(placement.devices.size()) != placement.mesh.numRanks())
    return failure("the {0} mesh {1} has {2} ranks and {3} devices", role, toString(placement.mesh),
                   placement.mesh.numRanks(), placement.devices.size());
  std::set<int64_t> seen;
  for (int64_t device : placement.devices)
    if (device < 0 || !seen.insert(device).second)
      return failure("the {0} mesh uses device {1} {2}", role, device, device < 0 ? "" : "twice");
  return llvm::Error::success();
}

/// The places of every rank's elements. Of copies that a partial target counts, only the first is wanted.
std::vector<IndexSet> setsOf(const Placement &placement, const Layout &layout, llvm::ArrayRef<int64_t> shape,
                             std::vector<bool> *neutral) {
  std::vector<IndexSet> result;
  for (int64_t rank = 0; rank < placement.mesh.numRanks(); ++rank) {
    Index coordinates = placement.mesh.coordinates(rank);
    bool copy = llvm::any_of(layout.partial, [&](const PartialAxis &partial) {
      bool repeats = partial.reduction == Reduction::Sum || partial.reduction == Reduction::Product;
      return repeats && digit(placement.mesh, partial.axis, coordinates) != 0;
    });
    result.push_back(localSet(placement.mesh, layout, shape, coordinates));
    if (neutral)
      neutral->push_back(copy);
  }
  return result;
}

class TransferPlanner {
public:
  explicit TransferPlanner(TransferPlan &plan)
      : plan(plan), held(setsOf(plan.source, plan.held, plan.shape, nullptr)),
        wanted(setsOf(plan.target, plan.to, plan.shape, &plan.neutral)), rounds(3) {}

  /// False if it takes too many messages.
  bool run() {
    std::vector<IndexSet> needed;
    for (auto [rank, set] : llvm::enumerate(wanted))
      needed.push_back(plan.neutral[rank] ? IndexSet(plan.shape.size()) : set);
    if (plan.shape.empty()) // a scalar is one element, whose set cannot be empty
      for (size_t rank = 0; rank < needed.size(); ++rank)
        needed[rank] = wanted[rank];
    std::vector<Block> sources = blocksOnDevices(held, plan.source),
                       targets = blocksOnDevices(needed, plan.target);
    if (plan.shape.empty())
      for (Block &block : targets)
        llvm::erase_if(block.holders, [&](int64_t device) { return isNeutral(device); });
    // Tiles with few holders leave no choice, so they are placed first.
    llvm::sort(sources, [](const Block &a, const Block &b) {
      return std::pair(a.holders.size(), a.holders.front()) < std::pair(b.holders.size(), b.holders.front());
    });
    for (const Block &source : sources)
      for (const Block &target : targets)
        if (IndexSet tile = intersect(source.elements, target.elements); volume(tile) > 0 && !isFull())
          route(tile, source.holders, target.holders);
    if (isFull())
      return false;
    for (std::vector<TileMessage> &round : rounds)
      if (!round.empty())
        plan.rounds.push_back(std::move(round));
    tally(sources, targets);
    return true;
  }

private:
  bool isFull() const { return messages > maxMessages; }

  int64_t node(int64_t device) const { return plan.nodeSize ? device / plan.nodeSize : 0; }

  bool isNeutral(int64_t device) const {
    size_t rank = llvm::find(plan.target.devices, device) - plan.target.devices.begin();
    return plan.neutral[rank];
  }

  static std::vector<Block> blocksOnDevices(llvm::ArrayRef<IndexSet> sets, const Placement &placement) {
    std::vector<Block> blocks = distinctBlocks(sets);
    for (Block &block : blocks) {
      for (int64_t &holder : block.holders)
        holder = placement.devices[holder];
      llvm::sort(block.holders);
    }
    return blocks;
  }

  /// Brings one tile from the devices that hold it to those that need it.
  void route(const IndexSet &tile, llvm::ArrayRef<int64_t> holders, llvm::ArrayRef<int64_t> needers) {
    std::map<int64_t, std::vector<int64_t>> sourceNodes, remoteNodes;
    for (int64_t holder : holders)
      sourceNodes[node(holder)].push_back(holder);
    for (int64_t device : needers) {
      if (llvm::is_contained(holders, device))
        continue;
      if (auto local = sourceNodes.find(node(device)); local != sourceNodes.end())
        send(across, pick(local->second, node(device)), device, tile);
      else
        remoteNodes[node(device)].push_back(device);
    }
    if (remoteNodes.size() <= sourceNodes.size()) {
      for (auto &[to, devices] : remoteNodes)
        enter(tile, holders, devices, {});
      return;
    }
    // Every receiving node fetches one part and hands it on.
    std::vector<IndexSet> parts = splitEvenly(tile, remoteNodes.size());
    size_t next = 0;
    for (auto &[to, devices] : remoteNodes) {
      if (next == parts.size())
        break;
      std::vector<llvm::ArrayRef<int64_t>> others;
      for (auto &[other, otherDevices] : remoteNodes)
        if (other != to)
          others.push_back(otherDevices);
      enter(parts[next++], holders, devices, others);
    }
  }

  /// Brings `part` into a node, a piece to each of the `devices` there that need it, on from there to
  /// `others`, and around within each node.
  void enter(const IndexSet &part, llvm::ArrayRef<int64_t> holders, llvm::ArrayRef<int64_t> devices,
             llvm::ArrayRef<llvm::ArrayRef<int64_t>> others) {
    std::vector<IndexSet> pieces = splitEvenly(part, devices.size());
    for (auto [i, piece] : llvm::enumerate(pieces)) {
      if (volume(piece) == 0)
        continue;
      if (isFull())
        return;
      send(across, pick(holders, node(devices[i])), devices[i], piece);
      spread(devices[i], devices, piece);
      for (llvm::ArrayRef<int64_t> other : others) {
        int64_t entry = other[i % other.size()];
        send(relay, devices[i], entry, piece);
        spread(entry, other, piece);
      }
    }
  }

  void spread(int64_t from, llvm::ArrayRef<int64_t> devices, const IndexSet &piece) {
    for (int64_t device : devices)
      if (device != from)
        send(share, from, device, piece);
  }

  /// The least loaded holder: for a way out of its node, by what its node has sent, then by what it has.
  int64_t pick(llvm::ArrayRef<int64_t> holders, int64_t to) {
    return *std::min_element(holders.begin(), holders.end(), [&](int64_t a, int64_t b) {
      auto load = [&](int64_t device) {
        int64_t leaving = node(device) == to ? 0 : nodeOut[node(device)];
        return std::tuple(leaving, deviceOut[device], device);
      };
      return load(a) < load(b);
    });
  }

  void send(unsigned round, int64_t sender, int64_t receiver, const IndexSet &elements) {
    int64_t count = volume(elements);
    deviceOut[sender] += count;
    deviceIn[receiver] += count;
    if (node(sender) != node(receiver)) {
      nodeOut[node(sender)] += count;
      nodeIn[node(receiver)] += count;
      crossing += count;
    }
    rounds[round].push_back({sender, receiver, elements});
    ++messages;
  }

  static int64_t largest(const std::map<int64_t, int64_t> &loads) {
    int64_t most = 0;
    for (auto &[key, load] : loads)
      most = std::max(most, load);
    return most;
  }

  void tally(llvm::ArrayRef<Block> sources, llvm::ArrayRef<Block> targets) {
    plan.crossBytes = crossing * plan.elementBytes;
    plan.busiestNodeBytes = std::max(largest(nodeIn), largest(nodeOut)) * plan.elementBytes;
    plan.busiestDeviceBytes = std::max(largest(deviceIn), largest(deviceOut)) * plan.elementBytes;
    // A tile enters every node that needs it and has none; it leaves the nodes that hold it at least once.
    std::map<int64_t, int64_t> entering;
    std::map<std::set<int64_t>, int64_t> leaving;
    for (const Block &source : sources)
      for (const Block &target : targets) {
        int64_t count = volume(intersect(source.elements, target.elements));
        std::set<int64_t> from, to;
        for (int64_t device : source.holders)
          from.insert(node(device));
        for (int64_t device : target.holders)
          if (!from.contains(node(device)))
            to.insert(node(device));
        for (int64_t at : to)
          entering[at] += count;
        if (!to.empty())
          leaving[from] += count;
      }
    int64_t bound = largest(entering);
    for (auto &[nodes, count] : leaving)
      bound = std::max(bound, ceilDiv(count, nodes.size()));
    plan.nodeBoundBytes = bound * plan.elementBytes;
  }

  TransferPlan &plan;
  std::vector<IndexSet> held, wanted;
  std::vector<std::vector<TileMessage>> rounds;
  std::map<int64_t, int64_t> deviceOut, deviceIn, nodeOut, nodeIn;
  int64_t crossing = 0, messages = 0;
};

/// The ways to resolve a partial source: scattered to the end of each dimension, or reduced everywhere.
std::vector<Layout> resolvedLayouts(const Layout &from) {
  std::vector<Layout> result;
  Layout resolved = from;
  resolved.partial.clear();
  for (size_t d = 0; d < from.dims.size(); ++d) {
    Layout scattered = resolved;
    for (const PartialAxis &partial : from.partial)
      scattered.dims[d].axes.push_back(partial.axis);
    result.push_back(std::move(scattered));
  }
  result.push_back(std::move(resolved));
  return result;
}

} // namespace

llvm::Expected<TransferPlan> plumb::redistribution::planTransfer(const Placement &source, const Layout &from,
                                                                 const Placement &target, const Layout &to,
                                                                 llvm::ArrayRef<int64_t> shape,
                                                                 int64_t elementBytes, int64_t nodeSize,
                                                                 const PlanOptions &options) {
  if (llvm::Error error = checkPlacement("source", source))
    return error;
  if (llvm::Error error = checkPlacement("target", target))
    return error;
  if (llvm::Error error = checkLayout(source.mesh, from, shape))
    return error;
  if (llvm::Error error = checkLayout(target.mesh, to, shape))
    return error;
  for (const Mesh *mesh : {&source.mesh, &target.mesh})
    if (llvm::Error error = checkSizes(*mesh, shape, elementBytes))
      return error;
  if (nodeSize < 0)
    return failure("a node of {0} devices", nodeSize);
  // Every shard is compared with every other.
  if (source.mesh.numRanks() * target.mesh.numRanks() > maxPairs)
    return failure("{0} ranks times {1} are more than {2} pairs", source.mesh.numRanks(),
                   target.mesh.numRanks(), maxPairs);
  std::optional<TransferPlan> best;
  double least = 0;
  for (const Layout &held : resolvedLayouts(from)) {
    TransferPlan plan;
    plan.source = source;
    plan.target = target;
    plan.elementBytes = elementBytes;
    plan.nodeSize = nodeSize;
    plan.shape.assign(shape.begin(), shape.end());
    plan.held = held;
    plan.to = to;
    if (!from.partial.empty()) {
      llvm::Expected<Plan> prepare =
          planRedistribution(source.mesh, shape, elementBytes, from, held, options);
      if (!prepare)
        return prepare.takeError();
      plan.prepare = std::move(*prepare);
    }
    if (!TransferPlanner(plan).run())
      return failure("{0} -> {1} from {2} to {3} takes more than {4} messages", toString(source.mesh, held),
                     toString(target.mesh, to), toString(source.mesh), toString(target.mesh), maxMessages);
    double bytes = (plan.prepare ? plan.prepare->bytes : 0) + double(plan.busiestNodeBytes) +
                   double(plan.busiestDeviceBytes);
    if (!best || bytes < least) {
      best = std::move(plan);
      least = bytes;
    }
    if (from.partial.empty())
      break;
  }
  return std::move(*best);
}

llvm::Error plumb::redistribution::verifyTransfer(const TransferPlan &plan) {
  // What every device holds: disjoint sets.
  std::map<int64_t, std::vector<IndexSet>> holds;
  std::vector<IndexSet> held = setsOf(plan.source, plan.held, plan.shape, nullptr);
  for (auto [rank, set] : llvm::enumerate(held))
    holds[plan.source.devices[rank]].push_back(set);
  auto heldOf = [&](int64_t device, const IndexSet &elements) {
    int64_t count = 0;
    for (const IndexSet &set : holds[device])
      count += volume(intersect(set, elements));
    return count;
  };
  for (auto [number, round] : llvm::enumerate(plan.rounds)) {
    for (const TileMessage &message : round)
      if (heldOf(message.sender, message.elements) != volume(message.elements))
        return failure("round {0}: device {1} sends to device {2} what it does not hold", number,
                       message.sender, message.receiver);
    for (const TileMessage &message : round) {
      if (heldOf(message.receiver, message.elements) != 0)
        return failure("round {0}: device {1} sends to device {2} what that already holds", number,
                       message.sender, message.receiver);
      holds[message.receiver].push_back(message.elements);
    }
  }
  std::vector<IndexSet> wanted = setsOf(plan.target, plan.to, plan.shape, nullptr);
  for (auto [rank, set] : llvm::enumerate(wanted))
    if (!plan.neutral[rank] && heldOf(plan.target.devices[rank], set) != volume(set))
      return failure("target rank {0} on device {1} lacks {2} of its {3} elements", rank,
                     plan.target.devices[rank], volume(set) - heldOf(plan.target.devices[rank], set),
                     volume(set));
  return llvm::Error::success();
}
