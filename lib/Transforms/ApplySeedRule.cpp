//===- ApplySeedRule.cpp - Dropout that is the same under every plan ----------===//
//
// Whether an element is kept depends on the seed, the step, the number of the dropout in the program and the
// element's own number in the whole tensor. That number is computed from positions along each dim, which are
// sharded like the tensor: constants where ranks cut them, and where microbatches do, the numbers of the rows
// that a microbatch has, which the program gets as an input.
//
//===----------------------------------------------------------------------===//

#include "ApplySpec.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Transforms/PlanAttributes.h"
#include "plumb/Transforms/Utils.h"

using namespace mlir;
using namespace plumb;
using nn::ShardingRule;

namespace {

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Where values have the rows that microbatches cut.
class RowDims {
public:
  explicit RowDims(Block &body) {
    for (Operation &op : body)
      if (auto input = dyn_cast<InputOp>(op))
        addInput(input);
      else
        follow(&op, op.getResults());
    // What depends on no input has rows where its readers need them.
    for (Operation &op : llvm::reverse(body))
      follow(&op, op.getOperands());
  }

  /// The number of rows and how they are cut; no rows: microbatches cut nothing.
  int64_t rows = 0;
  DimShardingAttr cut;

  /// The dim of a value that begins with the rows, if it has one.
  std::optional<int64_t> find(Value value) const {
    auto found = dims.find(value);
    return found == dims.end() ? std::nullopt : std::optional(found->second);
  }

private:
  void addInput(InputOp input) {
    LayoutAttr layout = getLayout(input.getResult());
    for (auto [dim, sharding] : llvm::enumerate(layout.getDims()))
      if (llvm::any_of(sharding.getAxes(),
                       [](AxisRefAttr axis) { return axis.getName() == kMicrobatchAxis; })) {
        dims[input.getResult()] = static_cast<int64_t>(dim);
        rows = typeOf(input.getResult()).getDimSize(dim);
        cut = sharding;
      }
  }

  /// Finds the rows of `unknown` values of an op by those of its others.
  void follow(Operation *op, ValueRange unknown) {
    auto tensorOp = dyn_cast<nn::TensorOpInterface>(op);
    bool isAlike = isa<BatchNormOp, DropoutOp>(op);
    if (!tensorOp && !isAlike)
      return;
    SmallVector<Value> values(op->getOperands());
    llvm::append_range(values, op->getResults());
    if (llvm::none_of(values, [&](Value value) { return dims.contains(value); }))
      return;
    if (isAlike) {
      if (auto known = find(op->getOperand(0)))
        dims.try_emplace(op->getResult(0), *known);
      else if (auto needed = find(op->getResult(0)))
        dims.try_emplace(op->getOperand(0), *needed);
      return;
    }
    ShardingRule rule = tensorOp.getShardingRule();
    SmallVector<ShardingRule::Tensor> tensors(rule.operands.begin(), rule.operands.end());
    llvm::append_range(tensors, rule.results);
    llvm::SmallDenseSet<int> factors;
    for (auto [value, tensor] : llvm::zip_equal(values, tensors))
      if (auto known = find(value); known && !tensor[*known].empty())
        factors.insert(tensor[*known].front());
    for (auto [value, tensor] : llvm::zip_equal(values, tensors))
      if (llvm::is_contained(unknown, value))
        for (auto [dim, members] : llvm::enumerate(tensor))
          if (!members.empty() && factors.contains(members.front()))
            dims.try_emplace(value, dim);
  }

  llvm::DenseMap<Value, int64_t> dims;
};

class Dropping {
public:
  Dropping(ModuleOp module, ProgramOp program, DropoutOp op, const RowDims &rowDims, int64_t seed,
           int64_t stream)
      : module(module), program(program), op(op), rowDims(rowDims), builder(op), loc(op.getLoc()),
        scope(builder, op, Phase::Forward), seed(seed), stream(stream) {}

  void expand() {
    Value input = op.getInput();
    double probability = op.getProbability().convertToDouble();
    Value uniform = makeUniform(), limit = number(uniform, probability);
    Value kept = nn::LessEqualOp::create(builder, loc, limit, uniform);
    // A product, so that gradients that are parts of sums pass.
    Value mask = nn::ConvertOp::create(builder, loc, input.getType(), kept);
    Value scaled = nn::ScaleOp::create(builder, loc, nn::MulOp::create(builder, loc, input, mask),
                                       APFloat(probability < 1 ? 1 / (1 - probability) : 0.0));
    op.getResult().replaceAllUsesWith(scaled);
    op.getKept().replaceAllUsesWith(kept);
    op.erase();
  }

private:
  Value makeUniform() {
    auto type = RankedTensorType::get({}, builder.getF64Type());
    Value step = LoadOp::create(builder, loc, type, FlatSymbolRefAttr::get(getStepCounter(module, program)));
    ArrayRef<int64_t> shape = typeOf(op.getInput()).getShape();
    SmallVector<Value> positions;
    std::optional<int64_t> rowDim = rowDims.find(op.getResult());
    for (int64_t dim = 0; dim < static_cast<int64_t>(shape.size()); ++dim)
      positions.push_back(rowDim == dim ? positionsOfRows(shape[dim]) : count(shape[dim]));
    return nn::UniformOp::create(builder, loc, step, positions, builder.getDenseI64ArrayAttr(shape),
                                 builder.getI64IntegerAttr(seed), builder.getI64IntegerAttr(stream));
  }

  Value number(Value like, double value) {
    return nn::FillOp::create(builder, loc, RankedTensorType::get({}, typeOf(like).getElementType()),
                              builder.getF64FloatAttr(value));
  }
  RankedTensorType integers(ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, builder.getI64Type());
  }
  Value count(int64_t size) {
    return nn::IotaOp::create(builder, loc, integers(size), builder.getI64IntegerAttr(0),
                              builder.getI64IntegerAttr(1));
  }

  /// Positions along a dim that has `size / rows` elements for each row.
  Value positionsOfRows(int64_t size) {
    int64_t each = size / rowDims.rows;
    Value rows = getNumbers(program, "row", rowDims.rows, rowDims.cut);
    if (each == 1)
      return rows;
    Value first =
        nn::MulOp::create(builder, loc, nn::ViewOp::create(builder, loc, integers({rowDims.rows, 1}), rows),
                          number(rows, static_cast<double>(each)));
    Value all = nn::AddOp::create(builder, loc, first, count(each));
    return nn::ViewOp::create(builder, loc, integers(size), all);
  }

  ModuleOp module;
  ProgramOp program;
  DropoutOp op;
  const RowDims &rowDims;
  OpBuilder builder;
  Location loc;
  ProvenanceScope scope;
  int64_t seed, stream;
};

} // namespace

LogicalResult plumb::applySeedRule(ModuleOp module, ProgramOp program) {
  int64_t seed = 0, stream = 0;
  for (SeedRuleOp rule : llvm::make_early_inc_range(module.getOps<SeedRuleOp>())) {
    seed = static_cast<int64_t>(rule.getSeed());
    rule.erase();
  }
  auto ops = llvm::to_vector(program.getBody().getOps<DropoutOp>());
  if (ops.empty())
    return success();
  RowDims rowDims(*program.getBody().begin());
  for (DropoutOp op : ops)
    Dropping(module, program, op, rowDims, seed, stream++).expand();
  return success();
}
