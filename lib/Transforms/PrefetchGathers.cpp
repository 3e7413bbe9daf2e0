//===- PrefetchGathers.cpp - Parameters are gathered while the layer before computes -===//

#include "LayerGathers.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Dialect/Plumb/PlanOptions.h"
#include "plumb/Transforms/Passes.h"
#include "plumb/Transforms/Utils.h"
#include <map>

namespace plumb {
#define GEN_PASS_DEF_PREFETCHGATHERS
#include "plumb/Transforms/Passes.h.inc"
} // namespace plumb

using namespace mlir;
using namespace plumb;

namespace {

/// The layers of one phase in the order in which they compute, and the gathers in front of them.
class PhaseLayers {
public:
  explicit PhaseLayers(const SymbolTable &symbols) : symbols(symbols) {}

  void add(Operation *op);
  /// Moves gathers to the start of earlier layers.
  void prefetch() const;

private:
  struct Gather {
    Operation *op;
    int64_t ahead;
  };
  struct Layer {
    StringRef name;
    Operation *first; ///< That computes.
    SmallVector<Gather> gathers;
  };

  /// How many layers ahead an op gathers parameters; -1 if it does something else.
  int64_t getDistance(Operation *op) const;

  const SymbolTable &symbols;
  SmallVector<Layer> layers;
  SmallVector<Gather> pending; ///< Those since the last op that computes.
};

} // namespace

int64_t PhaseLayers::getDistance(Operation *op) const {
  if (!isa<ccl::AllGatherOp>(op))
    return -1;
  int64_t distance = 0;
  for (Value operand : op->getOperands()) {
    ParameterOp parameter = findGatheredParameter(operand, symbols);
    if (!parameter || !parameter.getGather())
      return -1;
    auto given = parameter->getAttrOfType<IntegerAttr>(kPrefetchAttr);
    distance = std::max(distance, given ? given.getInt() : kDefaultPrefetch);
  }
  return distance;
}

void PhaseLayers::add(Operation *op) {
  if (int64_t ahead = getDistance(op); ahead >= 0) {
    pending.push_back({op, ahead});
    return;
  }
  // Views and loads belong to what reads them.
  if (isa<LoadOp, InputOp>(op) || op->hasTrait<nn::Reinterprets>())
    return;
  StringRef name = getLayer(op);
  if (layers.empty() || (!name.empty() && name != layers.back().name))
    layers.push_back({name, op, {}});
  llvm::append_range(layers.back().gathers, pending);
  pending.clear();
}

void PhaseLayers::prefetch() const {
  for (auto [index, layer] : llvm::enumerate(layers))
    for (const Gather &gather : layer.gathers) {
      size_t ahead = std::min<size_t>(index, static_cast<size_t>(gather.ahead));
      if (ahead)
        hoistGather(gather.op, layers[index - ahead].first);
    }
}

namespace {
struct PrefetchGathersPass : plumb::impl::PrefetchGathersBase<PrefetchGathersPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    for (StageOp stage : module.getOps<StageOp>()) {
      std::map<Phase, PhaseLayers> phases;
      for (Operation &op : stage.getBody().front())
        if (Phase phase = getPhase(&op); phase == Phase::Forward || phase == Phase::BackwardInput)
          phases.try_emplace(phase, symbols).first->second.add(&op);
      for (const auto &[phase, layers] : phases)
        layers.prefetch();
    }
  }
};
} // namespace
