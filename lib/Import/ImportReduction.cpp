//===- ImportReduction.cpp - Sums, products, extremes, softmax -------------===//

#include "AtenTargets.h"
#include "ImportSupport.h"

#include <cmath>

using namespace mlir;

namespace plumb {

static Value greatest(NodeBuilder &node, Value value, ArrayRef<int64_t> dims, bool keepdim) {
  return node.infer<nn::MaxOp>(value, {{"dims", node.attribute(dims)}, {"keepdim", node.flag(keepdim)}})[0];
}

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

/// The elements moved up by `distance` along a dim, `number` below them.
static Value shifted(NodeBuilder &node, Value value, int64_t dim, int64_t distance, double number) {
  SmallVector<int64_t> before(rankOf(value), 0), after(rankOf(value), 0);
  before[dim] = distance;
  Value kept = sliceOf(node, value, dim, 0, shapeOf(value)[dim] - distance);
  return padWith(node, kept, number, before, after);
}

/// Products of all elements up to each one, in a logarithmic number of steps.
static void importCumprod(NodeBuilder &node) {
  node.ignore("dtype");
  Value value = promoted(node, "self");
  if (rankOf(value) == 0)
    return node.setResult(value);
  int64_t dim = node.dim("dim", rankOf(value));
  for (int64_t distance = 1; distance < shapeOf(value)[dim]; distance *= 2)
    value = multiply(node, value, shifted(node, value, dim, distance, 1));
  node.setResult(value);
}

/// Halves are multiplied until one element is left, which is right where elements are 0, too.
static Value product(NodeBuilder &node, Value value, int64_t dim) {
  if (shapeOf(value)[dim] == 0)
    node.refuse("the product of no elements is not supported");
  while (int64_t half = shapeOf(value)[dim] / 2) {
    Value both = multiply(node, sliceOf(node, value, dim, 0, half), sliceOf(node, value, dim, half, half));
    if (shapeOf(value)[dim] % 2) {
      Value odd = sliceOf(node, value, dim, 2 * half, 1);
      both = joined(node, {both, odd}, dim);
    }
    value = both;
  }
  return value;
}

static void importProd(NodeBuilder &node) {
  node.ignore("dtype");
  node.ignore("keepdim"); // The recorded shape says it.
  Value self = promoted(node, "self");
  bool all = !node.hasValue("dim") || rankOf(self) == 0;
  Value value = all ? product(node, viewAs(node, self, typeOf(self).getNumElements()), 0)
                    : product(node, self, node.dim("dim", rankOf(self)));
  node.setResult(viewAs(node, value, node.resultType().getShape()));
}

/// The number of elements that are not 0.
static void importCountNonzero(NodeBuilder &node) {
  Value self = node.tensor("self");
  Value flags = convertTo(node, self, node.builder().getI1Type());
  SmallVector<int64_t> dims = node.hasValue("dim") && !node.isList("dim")
                                  ? SmallVector<int64_t>{node.dim("dim", rankOf(self))}
                                  : dimsOf(node, "dim", rankOf(self));
  node.setResult(sumOver(node, convertTo(node, flags, node.builder().getI64Type()), dims, false));
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
  return dividedByCount(node, sumOver(node, multiply(node, distance, distance), dims, keepdim), count,
                        correction);
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

template <bool Root>
static void importVarMean(NodeBuilder &node) {
  Value self = node.tensor("self");
  SmallVector<int64_t> dims = dimsOf(node, "dim", rankOf(self));
  bool keepdim = node.boolean("keepdim", false);
  Value spread = variance(node, self, dims, correctionOf(node), keepdim);
  node.setResults({Root ? power(node, spread, 0.5) : spread, meanOver(node, self, dims, keepdim)});
}

/// The p-norm: the sum of |x|^p to the power 1/p; the greatest |x| for an infinite p.
static void setNorm(NodeBuilder &node, double order) {
  node.ignore("dtype");
  Value self = promoted(node, "self");
  SmallVector<int64_t> dims = dimsOf(node, "dim", rankOf(self));
  bool keepdim = node.boolean("keepdim", false);
  auto magnitude = [&] { return node.infer<nn::MaximumOp>({self, scaled(node, self, -1)})[0]; };
  if (order == 2)
    return node.setResult(power(node, sumOver(node, multiply(node, self, self), dims, keepdim), 0.5));
  if (order == 1)
    return node.setResult(sumOver(node, magnitude(), dims, keepdim));
  if (std::isinf(order))
    return node.setResult(scaled(node,
                                 greatest(node, scaled(node, magnitude(), order < 0 ? -1 : 1), dims, keepdim),
                                 order < 0 ? -1 : 1));
  if (!(order > 1))
    node.refuse("a norm is supported of order 1 and more, and of infinite order");
  node.setResult(power(node, sumOver(node, power(node, magnitude(), order), dims, keepdim), 1 / order));
}

static void importVectorNorm(NodeBuilder &node) { setNorm(node, node.optionalNumber("ord").value_or(2)); }
static void importNorm(NodeBuilder &node) { setNorm(node, node.optionalNumber("p").value_or(2)); }

/// x · y / (|x| |y|), norms at least eps.
static void importCosineSimilarity(NodeBuilder &node) {
  Value first = promoted(node, "x1"), second = promoted(node, "x2");
  int64_t rank = node.resultType().getRank() + 1, dim = node.dim("dim", rank, 1);
  double eps = node.number("eps", 1e-8);
  auto total = [&](Value a, Value b) {
    Value product = multiply(node, a, b);
    if (rankOf(product) != rank)
      node.refuse("the tensors have different ranks");
    return sumOver(node, product, {dim}, false);
  };
  auto norm = [&](Value value) {
    return clamped(node, power(node, total(value, value), 0.5), numberAs(node, elementOf(value), eps),
                   Value());
  };
  node.setResult(divide(node, total(first, second), multiply(node, norm(first), norm(second))));
}

/// The Euclidean norm of x1 − x2 + eps along the last dim.
static void importPairwiseDistance(NodeBuilder &node) {
  Value distance = subtract(node, promoted(node, "x1"), promoted(node, "x2"));
  if (node.number("p", 2) != 2)
    node.refuse("a distance is supported of order 2 only");
  distance = add(node, distance, numberAs(node, elementOf(distance), node.number("eps", 1e-6)));
  Value total = sumOver(node, multiply(node, distance, distance), {rankOf(distance) - 1},
                        node.boolean("keepdim", false));
  node.setResult(power(node, total, 0.5));
}

//===-- Extremes ----------------------------------------------------------===//

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

/// All elements along a dim, in order, and where each was.
template <bool Values, bool Indices>
static void importSort(NodeBuilder &node) {
  node.ignore("stable"); // The order is always stable.
  Value self = node.tensor("self");
  double sign = node.boolean("descending", false) ? 1 : -1;
  int64_t dim = node.dim("dim", rankOf(self), -1);
  Ranked ranked = topk(node, scaled(node, self, sign), dim, shapeOf(self)[dim]);
  SmallVector<Value> results;
  if (Values)
    results.push_back(scaled(node, ranked.values, sign));
  if (Indices)
    results.push_back(ranked.indices);
  node.setResults(results);
}

/// The least and the greatest.
static void importAminmax(NodeBuilder &node) {
  Value self = node.tensor("self");
  bool keepdim = node.boolean("keepdim", false);
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, rankOf(self)));
  if (node.hasValue("dim"))
    dims = {node.dim("dim", rankOf(self))};
  Value least = scaled(node, greatest(node, scaled(node, self, -1), dims, keepdim), -1);
  node.setResults({least, greatest(node, self, dims, keepdim)});
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
      {"torch.ops.aten.var_mean.default", importVarMean<false>},
      {"torch.ops.aten.var_mean.dim", importVarMean<false>},
      {"torch.ops.aten.var_mean.correction", importVarMean<false>},
      {"torch.ops.aten.std_mean.default", importVarMean<true>},
      {"torch.ops.aten.std_mean.dim", importVarMean<true>},
      {"torch.ops.aten.std_mean.correction", importVarMean<true>},
      {"torch.ops.aten.prod.default", importProd},
      {"torch.ops.aten.prod.dim_int", importProd},
      {"torch.ops.aten.cumprod.default", importCumprod},
      {"torch.ops.aten.count_nonzero.default", importCountNonzero},
      {"torch.ops.aten.count_nonzero.dim_IntList", importCountNonzero},
      {"torch.ops.aten.cosine_similarity.default", importCosineSimilarity},
      {"torch.ops.aten.pairwise_distance.default", importPairwiseDistance},
      {"torch.ops.aten.norm.Scalar", importNorm},
      {"torch.ops.aten.norm.ScalarOpt_dim", importNorm},
      {"torch.ops.aten.sort.default", importSort<true, true>},
      {"torch.ops.aten.sort.stable", importSort<true, true>},
      {"torch.ops.aten.argsort.default", importSort<false, true>},
      {"torch.ops.aten.argsort.stable", importSort<false, true>},
      {"torch.ops.aten.aminmax.default", importAminmax},
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
  };
  return targets;
}

} // namespace plumb
