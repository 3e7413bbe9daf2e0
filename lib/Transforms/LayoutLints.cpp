//===- LayoutLints.cpp - Layouts that are legal and hardly meant ------------===//

#include "StyledLayouts.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Transforms/Utils.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace plumb;
using nn::FactorKind;
using nn::ShardingRule;

namespace {
/// A dim of the weight whose product a bias is added to.
struct Features {
  ParameterOp weight;
  size_t dim;
};
} // namespace

static bool contracts(const ShardingRule &rule) {
  return llvm::any_of(rule.factors,
                      [](const nn::Factor &factor) { return factor.kind == FactorKind::Reduction; });
}

/// The weight's dim from which the factors `members` of the product's result come.
static std::optional<Features> findFeatures(nn::TensorOpInterface product, const ShardingRule::Dim &members,
                                            const SymbolTable &symbols) {
  ShardingRule rule = product.getShardingRule();
  for (auto [operand, dims] : llvm::zip(product->getOperands(), rule.operands)) {
    auto load = operand.getDefiningOp<LoadOp>();
    auto weight = load ? symbols.lookup<ParameterOp>(load.getSymbol()) : ParameterOp();
    for (size_t dim = 0; weight && dim < dims.size(); ++dim)
      if (dims[dim] == members)
        return Features{weight, dim};
  }
  return std::nullopt;
}

/// Follows a bias through the op that adds it to the product beside it, factor by factor.
static std::optional<Features> findFeatures(OpOperand &bias, const SymbolTable &symbols) {
  auto sum = dyn_cast<nn::TensorOpInterface>(bias.getOwner());
  if (!sum)
    return std::nullopt;
  ShardingRule rule = sum.getShardingRule();
  const ShardingRule::Tensor &own = rule.operands[bias.getOperandNumber()];
  for (auto [operand, dims] : llvm::zip(sum->getOperands(), rule.operands)) {
    auto product = operand.getDefiningOp<nn::TensorOpInterface>();
    if (!product || own.size() != 1 || !contracts(product.getShardingRule()))
      continue;
    ShardingRule from = product.getShardingRule();
    unsigned result = cast<OpResult>(operand).getResultNumber();
    for (auto [dim, members] : llvm::enumerate(dims))
      if (members == own[0])
        if (auto features = findFeatures(product, from.results[result][dim], symbols))
          return features;
  }
  return std::nullopt;
}

void plumb::lintBiases(ModuleOp module, ProgramOp program,
                       llvm::function_ref<LayoutRuleOp(ParameterOp)> providerOf) {
  SymbolTable symbols(module);
  struct Finding {
    ParameterOp bias;
    Features features;
    int64_t count = 0; ///< Of biases.
  };
  // The same layouts by the same entry, in every layer, are one cause.
  llvm::MapVector<std::pair<Operation *, StringAttr>, Finding> findings;
  for (LoadOp load : program.getBody().getOps<LoadOp>()) {
    auto bias = symbols.lookup<ParameterOp>(load.getSymbol());
    LayoutRuleOp rule = bias ? providerOf(bias) : LayoutRuleOp();
    if (!rule || !rule.getParams() || cast<RankedTensorType>(bias.getType()).getRank() != 1)
      continue;
    for (OpOperand &use : load->getUses()) {
      std::optional<Features> features = findFeatures(use, symbols);
      if (!features ||
          features->weight.getLayoutAttr().getDims()[features->dim] == bias.getLayoutAttr().getDims()[0])
        continue;
      std::string layouts = toPlanText(bias.getLayoutAttr()) + ", which does not follow dim " +
                            std::to_string(features->dim) + " of its weight, " +
                            toPlanText(features->weight.getLayoutAttr());
      auto cause = std::make_pair(rule.getOperation(), StringAttr::get(module.getContext(), layouts));
      ++findings.try_emplace(cause, Finding{bias, *features}).first->second.count;
      break;
    }
  }
  for (auto &[cause, finding] : findings) {
    InFlightDiagnostic diagnostic = emitWarning(cause.first->getLoc());
    diagnostic << "bias " << finding.bias.getSymName() << " is laid out as " << cause.second.getValue()
               << " of " << finding.features.weight.getSymName();
    if (finding.count > 1)
      diagnostic << "; so are " << finding.count - 1 << " more of this entry";
    LayoutRuleOp other = providerOf(finding.features.weight);
    diagnostic.attachNote(other ? other.getLoc() : finding.features.weight.getLoc())
        << "the layout of the weight";
  }
}
