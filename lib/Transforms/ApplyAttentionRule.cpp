//===- ApplyAttentionRule.cpp - Keys and values walk around the ranks ---------===//
//
// A sequence of n blocks, one per rank of the axis: in step s each rank computes with the block of keys and
// values of the rank s before it, and merges what it gets with what it has. With S the scores of a step and
// m, l, o the greatest score, the sum of exponentials and the weighted values so far:
//
//   m' = max(m, max S)   l' = l exp(m - m') + sum exp(S - m')   o' = o exp(m - m') + exp(S - m') V
//
// and o / l in the end. m is a constant to the derivative, since o / l does not depend on it. (Liu, Zaharia,
// Abbeel: Ring Attention with Blockwise Transformers; Milakov, Gimelshein: Online normalizer calculation.)
//
//===----------------------------------------------------------------------===//

#include "ApplySpec.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Dialect/Plumb/PipelineAttributes.h"
#include "plumb/Transforms/LayoutCosts.h"
#include "plumb/Transforms/RedistributionPlans.h"
#include "plumb/Transforms/Utils.h"
#include <limits>

using namespace mlir;
using namespace plumb;

namespace {

/// softmax(query keysᵀ · scale) values, over the last two dims.
struct Attention {
  Value query, keys, values;
  double scale = 1;
  bool isCausal = false;
  nn::EinsumOp result;
  std::string batch; ///< Letters of the leading dims.
};

class RingBuilder {
public:
  RingBuilder(OpBuilder &builder, Attention given, int64_t blocks)
      : builder(given.result.getLoc(), builder), attention(std::move(given)), blocks(blocks) {
    ArrayRef<int64_t> shape = shapeOf(attention.query);
    blockDim = static_cast<int64_t>(shape.size()) - 2;
    length = shape[blockDim] / blocks;
    for (char letter = 'a'; letter <= 'z' && fresh.size() < 4; ++letter)
      if (!StringRef(attention.batch).contains(letter))
        fresh += letter;
  }

  Value build() {
    Value query = inBlocks(attention.query), keys = inBlocks(attention.keys),
          values = inBlocks(attention.values);
    for (int64_t step = 0; step < blocks; ++step) {
      if (step > 0) {
        keys = rotate(keys);
        values = rotate(values);
      }
      merge(scores(query, keys, step), values, step == 0);
    }
    Value result = make<nn::DivOp>(weighted, sum);
    return make<nn::ViewOp>(attention.result.getType(), result);
  }

private:
  static ArrayRef<int64_t> shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }
  template <typename OpT, typename... Args>
  Value make(Args &&...args) {
    return OpT::create(builder, std::forward<Args>(args)...)->getResult(0);
  }
  Value view(Value value, ArrayRef<int64_t> shape) {
    return make<nn::ViewOp>(cast<RankedTensorType>(value.getType()).clone(shape), value);
  }
  Value number(Value like, double value) {
    Type element = cast<RankedTensorType>(like.getType()).getElementType();
    return make<nn::FillOp>(RankedTensorType::get({}, element), APFloat(value));
  }

  Value inBlocks(Value value) {
    SmallVector<int64_t> shape(shapeOf(value));
    shape.insert(shape.begin() + blockDim, blocks);
    shape[blockDim + 1] = length;
    return view(value, shape);
  }
  Value rotate(Value value) {
    return make<ccl::RotateOp>(value.getType(), value, builder.getI64IntegerAttr(blockDim),
                               builder.getI64IntegerAttr(1));
  }

  /// Of the letters n, i, j, d: blocks, queries and keys of a block, features.
  std::string dims(std::initializer_list<int> which) const {
    std::string text = attention.batch;
    for (int letter : which)
      text += fresh[letter];
    return text;
  }
  Value einsum(Value lhs, Value rhs, const std::string &equation) {
    return make<nn::EinsumOp>(lhs, rhs, equation);
  }

  Value scores(Value query, Value keys, int64_t step) {
    Value product = einsum(query, keys, dims({0, 1, 3}) + "," + dims({0, 2, 3}) + "->" + dims({0, 1, 2}));
    if (attention.scale != 1)
      product = make<nn::ScaleOp>(product, APFloat(attention.scale));
    if (!attention.isCausal)
      return product;
    return make<nn::WhereOp>(isVisible(step), product,
                             number(product, -std::numeric_limits<double>::infinity()));
  }

  Value positions(int64_t count, int64_t step) {
    auto type = RankedTensorType::get({count}, builder.getI64Type());
    return make<nn::IotaOp>(type, builder.getI64IntegerAttr(0), builder.getI64IntegerAttr(step));
  }

  /// Whether a key, which lies `step` blocks before the query's in the ring, comes no later than the query.
  Value isVisible(int64_t step) {
    Value own = positions(blocks, length), from = own;
    if (step > 0) {
      double distance = static_cast<double>(step * length), around = static_cast<double>(blocks * length);
      Value before = make<nn::SubOp>(own, number(own, distance));
      Value wrapped = make<nn::AddOp>(before, number(own, around));
      from = make<nn::WhereOp>(make<nn::LessOp>(own, number(own, distance)), wrapped, before);
    }
    Value queries = make<nn::AddOp>(view(own, {blocks, 1, 1}), view(positions(length, 1), {length, 1}));
    Value keys = make<nn::AddOp>(view(from, {blocks, 1, 1}), view(positions(length, 1), {1, length}));
    return make<nn::LessEqualOp>(keys, queries);
  }

  void merge(Value scores, Value values, bool isFirst) {
    auto last = builder.getDenseI64ArrayAttr({blockDim + 2});
    Value most = make<nn::MaxOp>(make<nn::DetachOp>(scores), last, builder.getUnitAttr());
    Value next = isFirst ? most : make<nn::MaximumOp>(greatest, most);
    Value weights = make<nn::ExpOp>(make<nn::SubOp>(scores, next));
    Value added = make<nn::SumOp>(weights, last, builder.getUnitAttr());
    Value product = einsum(weights, values, dims({0, 1, 2}) + "," + dims({0, 2, 3}) + "->" + dims({0, 1, 3}));
    if (!isFirst) {
      Value kept = make<nn::ExpOp>(make<nn::SubOp>(greatest, next));
      added = make<nn::AddOp>(make<nn::MulOp>(sum, kept), added);
      product = make<nn::AddOp>(make<nn::MulOp>(weighted, kept), product);
    }
    greatest = next;
    sum = added;
    weighted = product;
  }

  ImplicitLocOpBuilder builder;
  Attention attention;
  int64_t blocks, length, blockDim;
  std::string fresh;
  Value greatest, sum, weighted; ///< So far.
};

} // namespace

/// The letters in front of the last two, if `letters` ends in `ends`.
static bool hasForm(StringRef letters, StringRef batch, std::initializer_list<char> ends) {
  return letters.size() == batch.size() + 2 && letters.starts_with(batch) &&
         std::equal(ends.begin(), ends.end(), letters.end() - 2);
}

/// What a softmax is a part of, if that is attention without a mask of its own.
static std::optional<Attention> findAttention(nn::SoftmaxOp softmax) {
  Attention attention;
  Operation *def = softmax.getInput().getDefiningOp();
  if (auto scale = dyn_cast<nn::ScaleOp>(def)) {
    attention.scale = scale.getFactor().convertToDouble();
    def = scale.getInput().getDefiningOp();
  }
  auto product = dyn_cast<nn::EinsumOp>(def);
  if (!product || !softmax->hasOneUse())
    return std::nullopt;
  attention.result = dyn_cast<nn::EinsumOp>(*softmax->user_begin());
  if (!attention.result || attention.result.getLhs() != softmax.getResult())
    return std::nullopt;
  auto letters = [](nn::EinsumOp op) {
    auto [operands, result] = op.getEquation().split("->");
    auto [lhs, rhs] = operands.split(',');
    return std::array{lhs, rhs, result};
  };
  auto [query, key, score] = letters(product);
  auto [weight, value, result] = letters(attention.result);
  if (query.size() < 2 || score.size() != query.size() || weight.size() != query.size())
    return std::nullopt;
  StringRef batch = query.drop_back(2), others = weight.drop_back(2);
  char i = query.end()[-2], d = query.back(), j = score.back();
  char from = weight.end()[-2], to = weight.back(), feature = value.empty() ? '?' : value.back();
  if (!hasForm(key, batch, {j, d}) || !hasForm(score, batch, {i, j}) ||
      !hasForm(value, others, {to, feature}) || !hasForm(result, others, {from, feature}))
    return std::nullopt;
  attention.query = product.getLhs();
  attention.keys = product.getRhs();
  attention.values = attention.result.getRhs();
  attention.isCausal = softmax.getCausal();
  attention.batch = batch.str();
  return attention;
}

static int64_t lengthOf(Value value) {
  auto shape = cast<RankedTensorType>(value.getType()).getShape();
  return shape[shape.size() - 2];
}

/// Writes one attention anew; what it was made of goes.
static void walkAround(nn::SoftmaxOp softmax, Attention attention, int64_t blocks) {
  OpBuilder builder(attention.result);
  ProvenanceScope scope(builder, softmax, getPhase(softmax));
  Value result = RingBuilder(builder, attention, blocks).build();
  attention.result.getResult().replaceAllUsesWith(result);
  attention.result.erase();
  Operation *scores = softmax.getInput().getDefiningOp();
  softmax.erase();
  while (scores && scores->use_empty() && isa<nn::ScaleOp, nn::EinsumOp>(scores)) {
    Operation *next = isa<nn::ScaleOp>(scores) ? scores->getOperand(0).getDefiningOp() : nullptr;
    scores->erase();
    scores = next;
  }
}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

namespace {

/// Seconds of one attention on one rank, in a step. Products and exponentials are the same either way. A ring
/// computes with a block while the next one is on its way, but merges its results and, in the backward pass,
/// has keys and values walk anew besides their gradients; gathered ones are kept, and their gradients
/// scattered.
class AttentionCosts {
public:
  AttentionCosts(ModuleOp module, StringAttr axis, bool isTrained)
      : plans(module), mesh(findOp<MeshOp>(module)), axis(axis), isTrained(isTrained) {
    // Whatever else the mesh has shares out the batch or the heads.
    for (const redistribution::MeshAxis &other : plans.getMesh().axes)
      if (other.name != axis && other.name != findOp<PipelineOp>(module).getAxis())
        others *= other.size;
    others *= getMicrobatches(module);
  }

  bool isRingFaster(const Attention &attention) {
    int64_t blocks = mesh.getAxisSize(axis);
    RankedTensorType keys = blocksOf(attention.keys, blocks), values = blocksOf(attention.values, blocks);
    std::optional<double> gathered = all({keys, values}, false), scattered = all({keys, values}, true);
    if (!gathered || !scattered)
      return false;
    double pair = send(keys) + send(values), merge = mergeOf(attention);
    double block = productsOf(attention) / static_cast<double>(blocks),
           steps = static_cast<double>(blocks - 1);
    double gather = *gathered, ring = steps * (std::max(pair - block, 0.0) + merge);
    if (isTrained) {
      gather += *scattered;
      ring += steps * (std::max(2 * pair - 2 * block, 0.0) + 2 * merge);
    }
    return ring < gather;
  }

private:
  /// What a rank holds of keys or values, in `blocks` rows, one for each rank of the axis.
  RankedTensorType blocksOf(Value value, int64_t blocks) const {
    auto type = cast<RankedTensorType>(value.getType());
    int64_t elements = std::max<int64_t>(type.getNumElements() / (blocks * others), 1);
    return RankedTensorType::get({blocks, elements}, type.getElementType());
  }

  LayoutAttr layout(bool isSharded, bool isPartial) const {
    MLIRContext *context = axis.getContext();
    auto ref = AxisRefAttr::get(axis);
    auto none = DimShardingAttr::get(context, {}, {});
    SmallVector<PartialAttr> partial;
    if (isPartial)
      partial.push_back(PartialAttr::get(context, ref, StringAttr::get(context, "sum")));
    return LayoutAttr::get(context, FlatSymbolRefAttr::get(mesh.getSymNameAttr()),
                           {isSharded ? DimShardingAttr::get(context, {ref}, {}) : none, none}, partial);
  }

  std::optional<double> all(ArrayRef<RankedTensorType> types, bool scattered) const {
    double seconds = 0;
    for (RankedTensorType type : types) {
      std::optional<double> cost = scattered ? plans.cost(type, layout(false, true), layout(true, false))
                                             : plans.cost(type, layout(true, false), layout(false, false));
      if (!cost)
        return std::nullopt;
      seconds += *cost;
    }
    return seconds;
  }

  double send(RankedTensorType type) const {
    return plans.transferCost(RankedTensorType::get({type.getDimSize(1)}, type.getElementType()), axis);
  }

  double productsOf(const Attention &attention) const {
    auto queries = cast<RankedTensorType>(attention.query.getType());
    double rows = static_cast<double>(queries.getNumElements()) / static_cast<double>(others);
    return 4 * rows * static_cast<double>(lengthOf(attention.keys)) /
           static_cast<double>(mesh.getAxisSize(axis)) / kOperationsPerSecond;
  }

  /// A step reads and writes the weighted values so far.
  double mergeOf(Attention attention) const {
    auto type = cast<RankedTensorType>(attention.result.getType());
    double elements =
        static_cast<double>(type.getNumElements()) / static_cast<double>(others * mesh.getAxisSize(axis));
    return 3 * elements * type.getElementTypeBitWidth() / 8 / kBytesPerSecond;
  }

  RedistributionPlans plans;
  mutable MeshOp mesh; ///< A handle; asking it is not const in MLIR.
  StringAttr axis;
  bool isTrained;
  int64_t others = 1; ///< Ranks and microbatches that have other batches or heads.
};

/// How attention gets at keys and values, and over which axis.
struct ContextRule {
  StringAttr axis; ///< Null: no sequence is sharded.
  StringRef attention;
};

} // namespace

/// The rule of the plan; without one, whatever takes less time over the axis that shards sequences.
static ContextRule findRule(PipelineOp pipeline, ProgramOp program) {
  if (auto rule = pipeline->getAttrOfType<DictionaryAttr>(kContextParallelAttr))
    return {rule.getAs<StringAttr>("axis"), rule.getAs<StringAttr>("attention").getValue()};
  ContextRule rule{{}, "auto"};
  for (auto input : program.getBody().getOps<InputOp>())
    if (LayoutAttr layout = getLayout(input.getResult()))
      for (DimShardingAttr dim : layout.getDims().drop_front(layout.getDims().empty() ? 0 : 1))
        for (AxisRefAttr axis : dim.getAxes())
          if (!rule.axis && axis.getName() != kMicrobatchAxis)
            rule.axis = axis.getName();
  return rule;
}

LogicalResult plumb::applyAttentionRule(ModuleOp module, ProgramOp program) {
  auto pipeline = findOp<PipelineOp>(module);
  ContextRule rule = findRule(pipeline, program);
  if (!rule.axis || rule.attention == "gather")
    return success();
  bool mustWalk = rule.attention == "ring";
  int64_t blocks = findOp<MeshOp>(module).getAxisSize(rule.axis), found = 0;
  AttentionCosts costs(module, rule.axis, findOp<LossOp>(module) != nullptr);
  for (auto softmax : llvm::to_vector(program.getBody().getOps<nn::SoftmaxOp>())) {
    std::optional<Attention> attention = findAttention(softmax);
    if (!attention || lengthOf(attention->query) != lengthOf(attention->keys) ||
        lengthOf(attention->query) % blocks)
      continue;
    ++found;
    if (blocks > 1 && (mustWalk || costs.isRingFaster(*attention)))
      walkAround(softmax, *attention, blocks);
  }
  if (found || !mustWalk)
    return success();
  return pipeline.emitError("no attention of this model can walk around the ranks of \"")
         << rule.axis.getValue()
         << "\": that takes a softmax between two products, with no mask but a causal one, of as many "
            "queries "
            "as keys, a multiple of "
         << blocks;
}
