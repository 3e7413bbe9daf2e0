//===- ImportLinear.cpp - Products, layer normalisation, attention ----------===//

#include "AtenTargets.h"
#include "ImportSupport.h"

#include <cmath>

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

/// Products of matrices, with the same leading dims or with none on the right.
static void importMatmul(NodeBuilder &node) {
  Value lhs = node.tensor("self"), rhs = node.tensor("other");
  needRank(node, lhs, "self", 1, 10);
  needRank(node, rhs, "other", 2, 10);
  std::string leading = leadingLetters(node, rankOf(lhs) - 1);
  if (rankOf(rhs) == 2)
    return node.setResult(einsum(node, leading + "i,io->" + leading + "o", lhs, rhs));
  if (rankOf(lhs) != rankOf(rhs))
    node.refuse("a product of tensors of rank " + std::to_string(rankOf(lhs)) + " and " +
                std::to_string(rankOf(rhs)) + " is not supported");
  std::string batch = leading.substr(0, leading.size() - 1);
  node.setResult(einsum(node, leading + "i," + batch + "io->" + leading + "o", lhs, rhs));
}

static void importMatrixProduct(NodeBuilder &node, const std::string &equation) {
  Value lhs = node.tensor("self"), rhs = node.tensor("mat2");
  node.setResult(einsum(node, equation, lhs, rhs));
}

static void importMm(NodeBuilder &node) { importMatrixProduct(node, "ai,io->ao"); }
static void importBmm(NodeBuilder &node) { importMatrixProduct(node, "abi,aio->abo"); }

static void importAddmm(NodeBuilder &node) {
  Value bias = node.tensor("self"), lhs = node.tensor("mat1"), rhs = node.tensor("mat2");
  if (node.number("alpha", 1) != 1 || node.number("beta", 1) != 1)
    node.refuse("values of alpha and beta other than 1 are not supported");
  Value product = einsum(node, "ai,io->ao", lhs, rhs);
  node.setResult(node.infer<nn::AddOp>({product, bias})[0]);
}

static void importLayerNorm(NodeBuilder &node) {
  Value input = node.tensor("input"), weight = node.optionalTensor("weight"),
        bias = node.optionalTensor("bias");
  SmallVector<int64_t> shape = node.integers("normalized_shape");
  double eps = node.number("eps", 1e-5);
  node.ignore("cudnn_enable");
  if (shape.empty() || shapeOf(input).size() < shape.size() ||
      shapeOf(input).take_back(shape.size()) != ArrayRef<int64_t>(shape))
    node.refuse("\"normalized_shape\" is not the shape of the input's last dimensions");
  Value result =
      node.infer<nn::NormalizeOp>(input, {{"count", node.attribute(static_cast<int64_t>(shape.size()))},
                                          {"eps", node.attribute(eps)}})[0];
  if (weight)
    result = node.infer<nn::MulOp>({result, weight})[0];
  if (bias)
    result = node.infer<nn::AddOp>({result, bias})[0];
  node.setResult(result);
}

/// softmax(q kᵀ · scale) v over the last two dims; with `is_causal`, a query sees the keys up to its own
/// position.
static void importAttention(NodeBuilder &node) {
  Value query = node.tensor("query"), key = node.tensor("key"), value = node.tensor("value");
  if (node.optionalTensor("attn_mask"))
    node.refuse("an attention mask is not supported, only is_causal");
  if (node.number("dropout_p", 0) != 0)
    node.refuse("dropout in attention is not supported; export with dropout_p=0 or after model.eval()");
  if (node.boolean("enable_gqa", false))
    node.refuse("enable_gqa is not supported; repeat the key and value heads in the model");
  bool isCausal = node.boolean("is_causal", false);
  needRank(node, query, "query", 2, 5);
  double headSize = static_cast<double>(shapeOf(query).back());
  double scale = node.optionalNumber("scale").value_or(1 / std::sqrt(headSize));

  std::string batch = leadingLetters(node, rankOf(query) - 2);
  Value scores = einsum(node, batch + "id," + batch + "jd->" + batch + "ij", query, key);
  scores = node.infer<nn::ScaleOp>(scores, {{"factor", node.attribute(scale)}})[0];
  Value weights = node.infer<nn::SoftmaxOp>(scores, {{"causal", node.flag(isCausal)}})[0];
  node.setResult(einsum(node, batch + "ij," + batch + "jd->" + batch + "id", weights, value));
}

ArrayRef<AtenTarget> linearTargets() {
  static constexpr AtenTarget targets[] = {
      {"torch.ops.aten.linear.default", importLinear},
      {"torch.ops.aten.matmul.default", importMatmul},
      {"torch.ops.aten.mm.default", importMm},
      {"torch.ops.aten.bmm.default", importBmm},
      {"torch.ops.aten.addmm.default", importAddmm},
      {"torch.ops.aten.layer_norm.default", importLayerNorm},
      {"torch.ops.aten.scaled_dot_product_attention.default", importAttention},
  };
  return targets;
}

} // namespace plumb
