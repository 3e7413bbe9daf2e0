//===- ImportLoss.cpp - Losses ------------------------------------------------===//
//
// A mean is a sum divided by a global count, so that it does not change when the batch is cut.
//
//===----------------------------------------------------------------------===//

#include "AtenTargets.h"
#include "ImportSupport.h"

using namespace mlir;

namespace plumb {

//===-- Of numbers --------------------------------------------------------===//

static Value difference(NodeBuilder &node) {
  return subtract(node, promoted(node, "self"), promoted(node, "target"));
}

static Value magnitude(NodeBuilder &node, Value value) {
  return node.infer<nn::MaximumOp>({value, scaled(node, value, -1)})[0];
}

static void importMseLoss(NodeBuilder &node) {
  Value distance = difference(node);
  setReducedLoss(node, multiply(node, distance, distance));
}

static void importL1Loss(NodeBuilder &node) { setReducedLoss(node, magnitude(node, difference(node))); }

/// d² / 2 up to `width`, then width · (|d| − width / 2); all times `factor`.
static void setBentLoss(NodeBuilder &node, double width, double factor) {
  Value distance = difference(node), far = magnitude(node, distance);
  Value limit = numberAs(node, elementOf(distance), width),
        half = numberAs(node, elementOf(distance), width / 2);
  Value near = scaled(node, multiply(node, distance, distance), 0.5);
  Value straight = scaled(node, subtract(node, far, half), width);
  setReducedLoss(node, scaled(node, where(node, less(node, far, limit), near, straight), factor));
}

static void importHuberLoss(NodeBuilder &node) { setBentLoss(node, node.number("delta", 1), 1); }

static void importSmoothL1Loss(NodeBuilder &node) {
  double beta = node.number("beta", 1);
  if (beta == 0)
    return importL1Loss(node);
  setBentLoss(node, beta, 1 / beta);
}

/// target · (log target − self), where self and, with log_target, the target are logarithms.
static void importKlDiv(NodeBuilder &node) {
  Value self = promoted(node, "self"), target = promoted(node, "target");
  bool isLog = node.boolean("log_target", false);
  Value weight = isLog ? apply<nn::ExpOp>(node, target) : target, log = target,
        zero = numberAs(node, elementOf(self), 0);
  if (!isLog) { // A target of 0 counts 0; the logarithm must not see it, or its gradient would be no number.
    Value isZero = node.infer<nn::EqualOp>({target, zero})[0];
    log = apply<nn::LogOp>(node, where(node, isZero, numberAs(node, elementOf(self), 1), target));
  }
  setReducedLoss(node, multiply(node, weight, subtract(node, log, self)));
}

/// −(t · log x + (1 − t) · log(1 − x)), logarithms at least −100.
static void importBinaryCrossEntropy(NodeBuilder &node) {
  Value self = promoted(node, "self"), target = promoted(node, "target");
  Type element = elementOf(self);
  Value one = numberAs(node, element, 1), least = numberAs(node, element, -100);
  auto log = [&](Value value) { return clamped(node, apply<nn::LogOp>(node, value), least, Value()); };
  Value yes = multiply(node, target, log(self));
  Value no = multiply(node, subtract(node, one, target), log(subtract(node, one, self)));
  Value losses = scaled(node, add(node, yes, no), -1);
  if (node.hasValue("weight"))
    losses = multiply(node, losses, promoted(node, "weight"));
  setReducedLoss(node, losses);
}

/// p · t · softplus(−x) + (1 − t) · softplus(x), with p the weight of positive targets.
static void importBceWithLogits(NodeBuilder &node) {
  Value self = promoted(node, "self"), target = promoted(node, "target");
  Value losses;
  if (node.hasValue("pos_weight")) {
    Value one = numberAs(node, elementOf(self), 1);
    Value yes = multiply(node, target, apply<nn::SoftplusOp>(node, scaled(node, self, -1)));
    Value no = multiply(node, subtract(node, one, target), apply<nn::SoftplusOp>(node, self));
    losses = add(node, multiply(node, yes, promoted(node, "pos_weight")), no);
  } else {
    losses = subtract(node, apply<nn::SoftplusOp>(node, self), multiply(node, self, target));
  }
  if (node.hasValue("weight"))
    losses = multiply(node, losses, promoted(node, "weight"));
  setReducedLoss(node, losses);
}

static void importSoftMarginLoss(NodeBuilder &node) {
  Value product = multiply(node, promoted(node, "self"), promoted(node, "target"));
  setReducedLoss(node, apply<nn::SoftplusOp>(node, scaled(node, product, -1)));
}

/// exp(x) − t x, or x − t log(x + eps) where the input is no logarithm.
static void importPoissonLoss(NodeBuilder &node) {
  Value input = promoted(node, "input"), target = promoted(node, "target");
  double eps = node.number("eps", 1e-8);
  if (node.boolean("full", false))
    node.refuse("the term of Stirling is not supported");
  Value rate = input, log = input;
  if (node.boolean("log_input"))
    rate = apply<nn::ExpOp>(node, input);
  else
    log = apply<nn::LogOp>(node, add(node, input, numberAs(node, elementOf(input), eps)));
  setReducedLoss(node, subtract(node, rate, multiply(node, target, log)));
}

//===-- Of classes --------------------------------------------------------===//

namespace {
/// Logits or log-probabilities as (rows, classes), and targets as (rows).
struct Classification {
  Value scores, targets;
  SmallVector<int64_t> targetShape;
};
} // namespace

/// Classes are dim 1, or the only dim.
static Classification readClassification(NodeBuilder &node) {
  Value scores = node.tensor("self"), targets = node.tensor("target");
  if (isFloat(targets))
    node.refuse("targets that are probabilities are not supported, only class indices");
  int64_t rank = rankOf(scores);
  if (rank < 1)
    node.refuse("a tensor of rank 0 has no classes");
  int64_t classDim = rank == 1 ? 0 : 1, classes = shapeOf(scores)[classDim];
  SmallVector<int64_t> order, shape(shapeOf(targets));
  for (int64_t dim = 0; dim < rank; ++dim)
    if (dim != classDim)
      order.push_back(dim);
  order.push_back(classDim);
  int64_t rows = typeOf(targets).getNumElements();
  if (classes < 1 || typeOf(scores).getNumElements() != rows * classes)
    node.refuse("there is not one target for each row of scores");
  return {viewAs(node, permuted(node, scores, order), {rows, classes}), viewAs(node, targets, {rows}), shape};
}

/// The weight of each row: that of its class, 0 for an ignored one. `picked` is a class that exists.
struct RowWeights {
  Value weights, picked;
};

static RowWeights rowWeights(NodeBuilder &node, const Classification &rows, bool needsPicked) {
  int64_t ignored = node.integer("ignore_index", -100);
  auto type = RankedTensorType::get(shapeOf(rows.targets), elementOf(rows.scores));
  Value isValid =
      node.create<nn::IsValidOp>(type, rows.targets, {{"ignore_index", node.attribute(ignored)}})[0];
  Value classWeights = node.hasValue("weight") ? node.tensor("weight") : Value();
  if (!classWeights && !needsPicked)
    return {isValid, Value()};
  Value number = numberAs(node, elementOf(rows.targets), static_cast<double>(ignored));
  Value isIgnored = node.infer<nn::EqualOp>({rows.targets, number})[0];
  Value picked = where(node, isIgnored, numberAs(node, elementOf(rows.targets), 0), rows.targets);
  if (!classWeights)
    return {isValid, picked};
  Attribute dim = node.attribute(int64_t(0));
  Value weights = node.infer<nn::GatherOp>({convertTo(node, classWeights, elementOf(rows.scores)), picked},
                                           {{"dim", dim}})[0];
  return {multiply(node, isValid, weights), picked};
}

/// The result from the loss of each row: in the shape of the targets, or the sum divided by that of the
/// weights.
static void setRowLoss(NodeBuilder &node, Value losses, llvm::function_ref<Value()> weights,
                       ArrayRef<int64_t> shape) {
  enum Reduction { None = 0, Mean = 1, Sum = 2 };
  int64_t reduction = node.integer("reduction", Mean);
  if (reduction < None || reduction > Sum)
    node.refuse("the reduction " + std::to_string(reduction) + " is unknown");
  if (reduction == None)
    return node.setResult(viewAs(node, losses, shape));
  Value total = sumOver(node, losses, {0}, false);
  node.setResult(reduction == Sum ? total : divide(node, total, sumOver(node, weights(), {0}, false)));
}

static void importCrossEntropy(NodeBuilder &node) {
  Classification rows = readClassification(node);
  double smoothing = node.number("label_smoothing", 0);
  bool isWeighted = node.hasValue("weight");
  if (smoothing != 0 && isWeighted)
    node.refuse("label smoothing together with class weights is not supported");
  Attribute ignored = node.attribute(node.integer("ignore_index", -100));
  Value losses = node.infer<nn::CrossEntropyOp>({rows.scores, rows.targets}, {{"ignore_index", ignored}})[0];
  Value weights;
  auto weightsOnce = [&] {
    return weights = weights ? weights : rowWeights(node, rows, /*needsPicked=*/false).weights;
  };
  if (isWeighted)
    losses = multiply(node, losses, weightsOnce());
  if (smoothing != 0) { // The mean over all classes of minus the log-probability, of rows that count.
    Value all = meanOver(node, apply<nn::LogSoftmaxOp>(node, rows.scores), {1}, false);
    all = multiply(node, scaled(node, all, -smoothing), weightsOnce());
    losses = add(node, scaled(node, losses, 1 - smoothing), all);
  }
  setRowLoss(node, losses, weightsOnce, rows.targetShape);
}

/// Minus the log-probability of the target of each row.
static void importNllLoss(NodeBuilder &node) {
  Classification rows = readClassification(node);
  RowWeights weights = rowWeights(node, rows, /*needsPicked=*/true);
  int64_t count = shapeOf(rows.targets)[0];
  Value logs = node.infer<nn::GatherOp>({rows.scores, viewAs(node, weights.picked, {count, 1})},
                                        {{"dim", node.attribute(int64_t(1))}})[0];
  Value losses = scaled(node, multiply(node, viewAs(node, logs, {count}), weights.weights), -1);
  setRowLoss(node, losses, [&] { return weights.weights; }, rows.targetShape);
}

ArrayRef<AtenTarget> lossTargets() {
  static constexpr AtenTarget targets[] = {
      {"torch.ops.aten.mse_loss.default", importMseLoss},
      {"torch.ops.aten.l1_loss.default", importL1Loss},
      {"torch.ops.aten.huber_loss.default", importHuberLoss},
      {"torch.ops.aten.smooth_l1_loss.default", importSmoothL1Loss},
      {"torch.ops.aten.kl_div.default", importKlDiv},
      {"torch.ops.aten.binary_cross_entropy.default", importBinaryCrossEntropy},
      {"torch.ops.aten.binary_cross_entropy_with_logits.default", importBceWithLogits},
      {"torch.ops.aten.soft_margin_loss.default", importSoftMarginLoss},
      {"torch.ops.aten.poisson_nll_loss.default", importPoissonLoss},
      {"torch.ops.aten.cross_entropy_loss.default", importCrossEntropy},
      {"torch.ops.aten.nll_loss.default", importNllLoss},
      {"torch.ops.aten.nll_loss_nd.default", importNllLoss},
  };
  return targets;
}

} // namespace plumb
