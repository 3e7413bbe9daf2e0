//===- ImportLinear.cpp - Products and attention ----------------------------===//

#include "AtenTargets.h"
#include "ImportSupport.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace plumb {

/// Letters for `count` leading dims: `abc`. Letters from `i` on are left for the dims of a product.
static std::string leadingLetters(NodeBuilder &node, int64_t count) {
  if (count > 8)
    node.refuse("tensors of more than 10 dimensions are not supported");
  return std::string("abcdefgh").substr(0, count);
}

static void needRank(NodeBuilder &node, Value value, const char *name, int64_t least, int64_t most) {
  if (rankOf(value) < least || rankOf(value) > most)
    node.refuse(std::string("the argument \"") + name + "\" has rank " + std::to_string(rankOf(value)) +
                ", which is not supported");
}

static void importLinear(NodeBuilder &node) {
  Value input = node.tensor("input"), weight = node.tensor("weight"), bias = node.optionalTensor("bias");
  needRank(node, input, "input", 1, 10);
  needRank(node, weight, "weight", 2, 2);
  std::string leading = leadingLetters(node, rankOf(input) - 1);
  Value result = einsum(node, leading + "i,oi->" + leading + "o", input, weight);
  if (bias)
    result = node.infer<nn::AddOp>({result, bias})[0];
  node.setResult(result);
}

/// The common shape of leading dims, where a size of 1 stands for any.
static SmallVector<int64_t> commonBatch(NodeBuilder &node, ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  SmallVector<int64_t> common(std::max(a.size(), b.size()), 1);
  for (ArrayRef<int64_t> shape : {a, b})
    for (auto [i, size] : llvm::enumerate(shape)) {
      int64_t &all = common[common.size() - shape.size() + i];
      if (all != 1 && size != 1 && all != size)
        node.refuse("batches of " + std::to_string(all) + " and " + std::to_string(size) + " do not fit");
      all = size == 1 ? all : size;
    }
  return common;
}

/// Products of matrices. A vector is a row on the left and a column on the right; leading dims broadcast.
static Value matrixProduct(NodeBuilder &node, Value lhs, Value rhs) {
  needRank(node, lhs, "self", 1, 10);
  needRank(node, rhs, "other", 1, 10);
  std::string leading = leadingLetters(node, rankOf(lhs) - 1);
  if (rankOf(rhs) == 1)
    return einsum(node, leading + "i,i->" + leading, lhs, rhs);
  if (rankOf(rhs) == 2)
    return einsum(node, leading + "i,io->" + leading + "o", lhs, rhs);
  std::string batch = leadingLetters(node, rankOf(rhs) - 2);
  if (rankOf(lhs) == 1)
    return einsum(node, "i," + batch + "io->" + batch + "o", lhs, rhs);
  SmallVector<int64_t> common = commonBatch(node, shapeOf(lhs).drop_back(2), shapeOf(rhs).drop_back(2));
  auto spread = [&](Value value) {
    SmallVector<int64_t> shape(common);
    llvm::append_range(shape, shapeOf(value).take_back(2));
    return broadcastTo(node, value, shape);
  };
  batch = leadingLetters(node, static_cast<int64_t>(common.size()));
  return einsum(node, batch + "mi," + batch + "io->" + batch + "mo", spread(lhs), spread(rhs));
}

static void importMatmul(NodeBuilder &node) {
  node.setResult(matrixProduct(node, node.tensor("self"), node.tensor("other")));
}

static void importMatrixProduct(NodeBuilder &node, const std::string &equation) {
  Value lhs = node.tensor("self"), rhs = node.tensor("mat2");
  node.setResult(einsum(node, equation, lhs, rhs));
}

static void importMm(NodeBuilder &node) { importMatrixProduct(node, "ai,io->ao"); }
static void importBmm(NodeBuilder &node) { importMatrixProduct(node, "abi,aio->abo"); }

/// beta · self + alpha · a product of the two named tensors.
static void setSumWithProduct(NodeBuilder &node, const std::string &equation, StringRef first,
                              StringRef second) {
  Value self = scaled(node, node.tensor("self"), node.number("beta", 1));
  Value product = einsum(node, equation, node.tensor(first), node.tensor(second));
  node.setResult(add(node, scaled(node, product, node.number("alpha", 1)), self));
}

static void importAddmm(NodeBuilder &node) { setSumWithProduct(node, "ai,io->ao", "mat1", "mat2"); }
static void importAddmv(NodeBuilder &node) { setSumWithProduct(node, "ai,i->a", "mat", "vec"); }
static void importAddr(NodeBuilder &node) { setSumWithProduct(node, "a,o->ao", "vec1", "vec2"); }
static void importAddbmm(NodeBuilder &node) { setSumWithProduct(node, "bai,bio->ao", "batch1", "batch2"); }
static void importBaddbmm(NodeBuilder &node) { setSumWithProduct(node, "bai,bio->bao", "batch1", "batch2"); }

template <bool IsOuter>
static void importVectors(NodeBuilder &node) {
  Value self = node.tensor("self"), other = node.tensor(IsOuter ? "vec2" : "tensor");
  node.setResult(einsum(node, IsOuter ? "i,j->ij" : "i,i->", self, other));
}

static void importMv(NodeBuilder &node) {
  node.setResult(einsum(node, "ij,j->i", node.tensor("self"), node.tensor("vec")));
}

/// The product summed over the named dims; what is left of both stands in order.
static void importTensordot(NodeBuilder &node) {
  Value self = node.tensor("self"), other = node.tensor("other");
  SmallVector<int64_t> first = node.integers("dims_self"), second = node.integers("dims_other");
  if (first.size() != second.size() || rankOf(self) + rankOf(other) > 26)
    node.refuse("the dimensions to sum over do not come in pairs");
  std::string left, right, result;
  for (int64_t dim = 0; dim < rankOf(self); ++dim)
    left += static_cast<char>('a' + dim);
  for (int64_t dim = 0; dim < rankOf(other); ++dim)
    right += static_cast<char>('a' + rankOf(self) + dim);
  std::string summed;
  for (auto [i, j] : llvm::zip_equal(first, second)) {
    int64_t a = i < 0 ? i + rankOf(self) : i, b = j < 0 ? j + rankOf(other) : j;
    if (a < 0 || a >= rankOf(self) || b < 0 || b >= rankOf(other))
      node.refuse("the tensors do not have all dimensions that are named");
    right[b] = left[a];
    summed += left[a];
  }
  for (char letter : left + right)
    if (!StringRef(summed).contains(letter))
      result += letter;
  node.setResult(einsum(node, left + "," + right + "->" + result, self, other));
}

/// Each element of the left matrix times the whole right one, as blocks.
static void importKron(NodeBuilder &node) {
  Value self = node.tensor("self"), other = node.tensor("other");
  if (rankOf(self) != rankOf(other))
    node.refuse("a Kronecker product is supported of tensors of the same rank only");
  SmallVector<int64_t> outer, inner, joined;
  for (auto [a, b] : llvm::zip_equal(shapeOf(self), shapeOf(other))) {
    outer.append({a, 1});
    inner.append({1, b});
    joined.push_back(a * b);
  }
  node.setResult(viewAs(node, multiply(node, viewAs(node, self, outer), viewAs(node, other, inner)), joined));
}

/// x1 weight x2 for each of the outputs, plus bias.
static void importBilinear(NodeBuilder &node) {
  Value first = node.tensor("input1"), second = node.tensor("input2"), bias = node.optionalTensor("bias");
  needRank(node, first, "input1", 1, 8);
  std::string leading = leadingLetters(node, rankOf(first) - 1);
  Value half = einsum(node, leading + "i,oij->" + leading + "oj", first, node.tensor("weight"));
  Value result = einsum(node, leading + "oj," + leading + "j->" + leading + "o", half, second);
  node.setResult(bias ? add(node, result, bias) : result);
}

/// The scores where the mask is true, −∞ elsewhere; a mask of numbers is added.
static Value masked(NodeBuilder &node, Value scores, Value mask) {
  if (elementOf(mask).isInteger(1)) {
    Value never = numberAs(node, elementOf(scores), -std::numeric_limits<double>::infinity());
    return where(node, mask, scores, never);
  }
  return add(node, scores, convertTo(node, mask, elementOf(scores)));
}

/// softmax(q kᵀ · scale) v over the last two dims; with `is_causal`, a query sees the keys up to its own
/// position. With `enable_gqa`, a group of query heads shares one head of keys and values.
static void importAttention(NodeBuilder &node) {
  Value query = node.tensor("query"), key = node.tensor("key"), value = node.tensor("value");
  Value mask = node.optionalTensor("attn_mask");
  bool isCausal = node.boolean("is_causal", false), isGrouped = node.boolean("enable_gqa", false);
  needRank(node, query, "query", isGrouped ? 3 : 2, 5);
  needRank(node, key, "key", rankOf(query), rankOf(query));
  needRank(node, value, "value", rankOf(query), rankOf(query));
  if (isGrouped) {
    int64_t heads = rankOf(query) - 3;
    for (Value *shared : {&key, &value}) {
      int64_t have = shapeOf(*shared)[heads], need = shapeOf(query)[heads];
      if (have < 1 || need % have)
        node.refuse(std::to_string(need) + " query heads cannot share " + std::to_string(have) + " heads");
      *shared = repeatInterleaved(node, *shared, heads, need / have);
    }
  }
  double headSize = static_cast<double>(shapeOf(query).back());
  double scale = node.optionalNumber("scale").value_or(1 / std::sqrt(headSize));

  std::string batch = leadingLetters(node, rankOf(query) - 2);
  Value scores = einsum(node, batch + "id," + batch + "jd->" + batch + "ij", query, key);
  scores = node.infer<nn::ScaleOp>(scores, {{"factor", node.attribute(scale)}})[0];
  if (mask)
    scores = masked(node, scores, mask);
  Value weights = node.infer<nn::SoftmaxOp>(scores, {{"causal", node.flag(isCausal)}})[0];
  weights = dropped(node, weights, node.number("dropout_p", 0)).value;
  node.setResult(einsum(node, batch + "ij," + batch + "jd->" + batch + "id", weights, value));
}

ArrayRef<AtenTarget> linearTargets() {
  static constexpr AtenTarget targets[] = {
      {"torch.ops.aten.linear.default", importLinear},
      {"torch.ops.aten.matmul.default", importMatmul},
      {"torch.ops.aten.mm.default", importMm},
      {"torch.ops.aten.bmm.default", importBmm},
      {"torch.ops.aten.addmm.default", importAddmm},
      {"torch.ops.aten.addmv.default", importAddmv},
      {"torch.ops.aten.addr.default", importAddr},
      {"torch.ops.aten.addbmm.default", importAddbmm},
      {"torch.ops.aten.baddbmm.default", importBaddbmm},
      {"torch.ops.aten.outer.default", importVectors<true>},
      {"torch.ops.aten.dot.default", importVectors<false>},
      {"torch.ops.aten.mv.default", importMv},
      {"torch.ops.aten.bilinear.default", importBilinear},
      {"torch.ops.aten.tensordot.default", importTensordot},
      {"torch.ops.aten.kron.default", importKron},
      {"torch.ops.aten.scaled_dot_product_attention.default", importAttention},
  };
  return targets;
}

} // namespace plumb
