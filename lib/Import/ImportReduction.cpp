//===- ImportReduction.cpp - Sums, extremes, softmax, losses ----------------===//

#include "AtenTargets.h"
#include "ImportSupport.h"

using namespace mlir;

namespace plumb {

//===-- Sums --------------------------------------------------------------===//

// The argument `dtype` says in which type is summed, as does the recorded result.

static void importSum(NodeBuilder &node) {
  node.ignore("dtype");
  Value self = promoted(node, "self");
  node.setResult(sumOver(node, self, dimsOf(node, "dim", rankOf(self)), node.boolean("keepdim", false)));
}

static void importMean(NodeBuilder &node) {
  node.ignore("dtype");
  Value self = promoted(node, "self");
  node.setResult(meanOver(node, self, dimsOf(node, "dim", rankOf(self)), node.boolean("keepdim", false)));
}

static void importCumsum(NodeBuilder &node) {
  node.ignore("dtype");
  Value self = promoted(node, "self");
  if (rankOf(self) == 0)
    return node.setResult(self);
  node.setResult(node.infer<nn::CumsumOp>(self, {{"dim", node.attribute(node.dim("dim", rankOf(self)))}})[0]);
}

/// The sum of squared distances from the mean divided by the count less `correction`.
static Value variance(NodeBuilder &node, Value self, ArrayRef<int64_t> dims, double correction,
                      bool keepdim) {
  double count = 1;
  for (int64_t dim : dims)
    count *= static_cast<double>(shapeOf(self)[dim]);
  if (count <= correction)
    node.refuse("the variance of " + std::to_string(static_cast<int64_t>(count)) +
                " elements is not a number");
  Value distance = subtract(node, self, meanOver(node, self, dims, true));
  return scaled(node, sumOver(node, multiply(node, distance, distance), dims, keepdim),
                1 / (count - correction));
}

static double correctionOf(NodeBuilder &node) {
  if (node.hasValue("unbiased"))
    return node.boolean("unbiased") ? 1 : 0;
  return node.optionalNumber("correction").value_or(1);
}

static void importVar(NodeBuilder &node) {
  Value self = node.tensor("self");
  SmallVector<int64_t> dims = dimsOf(node, "dim", rankOf(self));
  node.setResult(variance(node, self, dims, correctionOf(node), node.boolean("keepdim", false)));
}

static void importStd(NodeBuilder &node) {
  Value self = node.tensor("self");
  SmallVector<int64_t> dims = dimsOf(node, "dim", rankOf(self));
  node.setResult(
      power(node, variance(node, self, dims, correctionOf(node), node.boolean("keepdim", false)), 0.5));
}

static void importVarMean(NodeBuilder &node) {
  Value self = node.tensor("self");
  SmallVector<int64_t> dims = dimsOf(node, "dim", rankOf(self));
  bool keepdim = node.boolean("keepdim", false);
  node.setResults(
      {variance(node, self, dims, correctionOf(node), keepdim), meanOver(node, self, dims, keepdim)});
}

/// The Euclidean norm.
static void importVectorNorm(NodeBuilder &node) {
  node.ignore("dtype");
  Value self = promoted(node, "self");
  double order = node.hasValue("ord") ? node.number("ord") : 2;
  if (order != 2)
    node.refuse("a norm is supported of order 2 only");
  SmallVector<int64_t> dims = dimsOf(node, "dim", rankOf(self));
  Value total = sumOver(node, multiply(node, self, self), dims, node.boolean("keepdim", false));
  node.setResult(power(node, total, 0.5));
}

//===-- Extremes ----------------------------------------------------------===//

static Value greatest(NodeBuilder &node, Value value, ArrayRef<int64_t> dims, bool keepdim) {
  return node.infer<nn::MaxOp>(value, {{"dims", node.attribute(dims)}, {"keepdim", node.flag(keepdim)}})[0];
}

/// The least is the greatest with the sign changed.
template <int Sign>
static void importExtremes(NodeBuilder &node) {
  Value self = scaled(node, node.tensor("self"), Sign);
  SmallVector<int64_t> dims = dimsOf(node, "dim", rankOf(self));
  node.setResult(scaled(node, greatest(node, self, dims, node.boolean("keepdim", false)), Sign));
}

namespace {
/// The greatest elements along a dim, in descending order, and their indices.
struct Ranked {
  Value values, indices;
};
} // namespace

static Ranked topk(NodeBuilder &node, Value self, int64_t dim, int64_t count) {
  int64_t last = rankOf(self) - 1;
  constexpr int64_t most = 256; // Each element of the result is one more pass over the rows.
  if (count < 1 || count > most)
    node.refuse("the " + std::to_string(count) + " greatest elements are not supported, only 1 to " +
                std::to_string(most));
  auto both = node.infer<nn::TopkOp>(swapDims(node, self, dim, last), {{"count", node.attribute(count)}});
  return {swapDims(node, both[0], dim, last), swapDims(node, both[1], dim, last)};
}

static void importTopk(NodeBuilder &node) {
  node.ignore("sorted"); // The order of unsorted results is not specified.
  Value self = node.tensor("self");
  double sign = node.boolean("largest", true) ? 1 : -1;
  Ranked ranked = topk(node, scaled(node, self, sign), node.dim("dim", rankOf(self), -1), node.integer("k"));
  node.setResults({scaled(node, ranked.values, sign), ranked.indices});
}

/// The first extreme along a dim and where it is.
static Ranked extreme(NodeBuilder &node, Value self, int64_t dim, int sign, bool keepdim) {
  Ranked ranked = topk(node, scaled(node, self, sign), dim, 1);
  SmallVector<int64_t> shape(shapeOf(ranked.values));
  if (!keepdim)
    shape.erase(shape.begin() + dim);
  return {viewAs(node, scaled(node, ranked.values, sign), shape), viewAs(node, ranked.indices, shape)};
}

template <int Sign>
static void importExtremeAlong(NodeBuilder &node) {
  Value self = node.tensor("self");
  Ranked ranked = extreme(node, self, node.dim("dim", rankOf(self)), Sign, node.boolean("keepdim", false));
  node.setResults({ranked.values, ranked.indices});
}

template <int Sign>
static void importArgExtreme(NodeBuilder &node) {
  Value self = node.tensor("self");
  bool keepdim = node.boolean("keepdim", false);
  if (node.hasValue("dim"))
    return node.setResult(extreme(node, self, node.dim("dim", rankOf(self)), Sign, keepdim).indices);
  Value flat = viewAs(node, self, typeOf(self).getNumElements());
  Value index = extreme(node, flat, 0, Sign, false).indices;
  node.setResult(viewAs(node, index, node.resultType().getShape()));
}

/// Whether any element is true: the greatest of them as a number. All are true if none is false.
template <bool All>
static void importAny(NodeBuilder &node) {
  Value self = node.tensor("self");
  Value flags = convertTo(node, self, node.builder().getI1Type());
  SmallVector<int64_t> dims;
  if (node.hasValue("dim"))
    dims.push_back(node.dim("dim", rankOf(self)));
  else
    dims = llvm::to_vector(llvm::seq<int64_t>(0, rankOf(self)));
  bool keepdim = node.boolean("keepdim", false);
  Value numbers = convertTo(node, All ? logicalNot(node, flags) : flags, node.builder().getI32Type());
  Value found = convertTo(node, greatest(node, numbers, dims, keepdim), node.builder().getI1Type());
  node.setResult(All ? logicalNot(node, found) : found);
}

//===-- Softmax -----------------------------------------------------------===//

/// An op on rows, which run along the last dim, applied along any dim.
template <typename Op>
static void importAlong(NodeBuilder &node) {
  node.ignore("dtype");
  node.ignore("half_to_float");
  Value self = promoted(node, "self");
  int64_t dim = node.dim("dim", rankOf(self)), last = rankOf(self) - 1;
  node.setResult(swapDims(node, node.infer<Op>(swapDims(node, self, dim, last))[0], dim, last));
}

/// log(sum(exp(x − m))) + m; the greatest element m is a constant of differentiation.
static void importLogSumExp(NodeBuilder &node) {
  Value self = promoted(node, "self");
  SmallVector<int64_t> dims = dimsOf(node, "dim", rankOf(self));
  node.ignore("keepdim"); // The recorded shape says it.
  Value most = greatest(node, self, dims, true);
  most = node.create<nn::DetachOp>(typeOf(most), most)[0];
  Value sums = sumOver(node, node.infer<nn::ExpOp>(subtract(node, self, most))[0], dims, true);
  Value result = add(node, node.infer<nn::LogOp>(sums)[0], most);
  node.setResult(viewAs(node, result, node.resultType().getShape()));
}

//===-- Losses ------------------------------------------------------------===//

static void importMseLoss(NodeBuilder &node) {
  Value distance = subtract(node, promoted(node, "self"), promoted(node, "target"));
  setReducedLoss(node, multiply(node, distance, distance));
}

static void importL1Loss(NodeBuilder &node) {
  Value distance = subtract(node, promoted(node, "self"), promoted(node, "target"));
  setReducedLoss(node, node.infer<nn::MaximumOp>({distance, scaled(node, distance, -1)})[0]);
}

/// max(x, 0) − x·t + log(1 + exp(−|x|)) = softplus(x) − x·t.
static void importBceWithLogits(NodeBuilder &node) {
  if (node.optionalTensor("weight") || node.optionalTensor("pos_weight"))
    node.refuse("weights are not supported");
  Value self = promoted(node, "self"), target = promoted(node, "target");
  setReducedLoss(node, subtract(node, node.infer<nn::SoftplusOp>(self)[0], multiply(node, self, target)));
}

/// Minus the log-probability of the target of each row; 0 and not counted where it is ignored.
static void importNllLoss(NodeBuilder &node) {
  Value self = node.tensor("self"), target = node.tensor("target");
  if (node.optionalTensor("weight"))
    node.refuse("class weights are not supported");
  if (rankOf(self) != 2)
    node.refuse("log-probabilities of rank " + std::to_string(rankOf(self)) +
                " are not supported; flatten them to (rows, classes)");
  int64_t rows = shapeOf(self)[0], reduction = node.integer("reduction", 1);
  Value picked = node.infer<nn::GatherOp>({self, viewAs(node, target, {rows, 1})},
                                          {{"dim", node.attribute(int64_t(1))}})[0];
  auto perRow = RankedTensorType::get({rows}, elementOf(self));
  Value isValid = node.create<nn::IsValidOp>(
      perRow, target, {{"ignore_index", node.attribute(node.integer("ignore_index", -100))}})[0];
  Value losses = scaled(node, multiply(node, viewAs(node, picked, {rows}), isValid), -1);
  if (reduction != 1)
    return setReducedLoss(node, losses);
  node.setResult(divide(node, sumOver(node, losses, {0}, false), sumOver(node, isValid, {0}, false)));
}

ArrayRef<AtenTarget> reductionTargets() {
  static constexpr AtenTarget targets[] = {
      {"torch.ops.aten.sum.default", importSum},
      {"torch.ops.aten.sum.dim_IntList", importSum},
      {"torch.ops.aten.mean.default", importMean},
      {"torch.ops.aten.mean.dim", importMean},
      {"torch.ops.aten.cumsum.default", importCumsum},
      {"torch.ops.aten.var.default", importVar},
      {"torch.ops.aten.var.dim", importVar},
      {"torch.ops.aten.var.correction", importVar},
      {"torch.ops.aten.std.default", importStd},
      {"torch.ops.aten.std.dim", importStd},
      {"torch.ops.aten.std.correction", importStd},
      {"torch.ops.aten.var_mean.correction", importVarMean},
      {"torch.ops.aten.linalg_vector_norm.default", importVectorNorm},
      {"torch.ops.aten.amax.default", importExtremes<1>},
      {"torch.ops.aten.amin.default", importExtremes<-1>},
      {"torch.ops.aten.max.default", importExtremes<1>},
      {"torch.ops.aten.min.default", importExtremes<-1>},
      {"torch.ops.aten.max.dim", importExtremeAlong<1>},
      {"torch.ops.aten.min.dim", importExtremeAlong<-1>},
      {"torch.ops.aten.argmax.default", importArgExtreme<1>},
      {"torch.ops.aten.argmin.default", importArgExtreme<-1>},
      {"torch.ops.aten.topk.default", importTopk},
      {"torch.ops.aten.any.default", importAny<false>},
      {"torch.ops.aten.any.dim", importAny<false>},
      {"torch.ops.aten.all.default", importAny<true>},
      {"torch.ops.aten.all.dim", importAny<true>},
      {"torch.ops.aten.softmax.int", importAlong<nn::SoftmaxOp>},
      {"torch.ops.aten._softmax.default", importAlong<nn::SoftmaxOp>},
      {"torch.ops.aten.log_softmax.int", importAlong<nn::LogSoftmaxOp>},
      {"torch.ops.aten._log_softmax.default", importAlong<nn::LogSoftmaxOp>},
      {"torch.ops.aten.logsumexp.default", importLogSumExp},
      {"torch.ops.aten.mse_loss.default", importMseLoss},
      {"torch.ops.aten.l1_loss.default", importL1Loss},
      {"torch.ops.aten.binary_cross_entropy_with_logits.default", importBceWithLogits},
      {"torch.ops.aten.nll_loss.default", importNllLoss},
      {"torch.ops.aten.nll_loss_nd.default", importNllLoss},
  };
  return targets;
}

} // namespace plumb
