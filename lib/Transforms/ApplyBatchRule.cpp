//===- ApplyBatchRule.cpp - The model for another batch ------------------------===//
//
// An export has the sizes of its example inputs everywhere, also in views, factories and means. When the
// batch changes, the types of all values that hold it are made anew in program order: an op that infers its
// types does so; of any other, such as a view, that result dim grows with which the operand dim begins, as
// its sharding rule says. A factory (zeros of the batch's size) grows where an op needs it to.
//
// With an exported batch of 1 sharding rules have no factor for it; there what broadcasts need not grow. A
// model may have folded the 1 into another dim (a squeeze, a view): S rows of one sample become B * S, sample
// by sample. Every value is then what the export has for each sample, one behind the other, and an op is
// right if its factor of these rows is one of independent rows; what else reads them is repeated for each
// sample. An op that would mix rows of several samples is an error, since the export does not say what is
// meant.
//
//===----------------------------------------------------------------------===//

#include "ApplySpec.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Dialect/NN/NNAttributes.h"
#include "plumb/Support/Bounds.h"
#include "plumb/Transforms/PlanAttributes.h"
#include "plumb/Transforms/Utils.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace plumb;
using nn::ShardingRule;

namespace {

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Whether a dim is led by the given factor: it is the loop that runs over the batch.
bool begins(const ShardingRule::Dim &dim, int factor) { return !dim.empty() && dim.front() == factor; }

class BatchScaler {
public:
  BatchScaler(ModuleOp module, ProgramOp program, BatchRuleOp rule)
      : module(module), program(program), body(*program.getBody().begin()), rule(rule) {}

  /// Answers the rows of the whole batch.
  FailureOr<int64_t> run() {
    if (failed(findBatch()))
      return failure();
    if (batch == exported || inputs.empty())
      return batch;
    for (Operation &op : body) {
      for (Value result : op.getResults())
        exportedTypes[result] = typeOf(result);
      if (auto tensorOp = dyn_cast<nn::TensorOpInterface>(op))
        exportedRules[&op] = tensorOp.getShardingRule();
    }
    for (auto [input, dim] : inputs)
      input.getResult().setType(scaled(typeOf(input), dim));
    for (Operation &op : llvm::make_early_inc_range(body)) {
      if (std::string fault = describeTooLarge(&op); !fault.empty())
        return report(&op, fault);
      if (auto tensorOp = dyn_cast<nn::TensorOpInterface>(op);
          tensorOp && llvm::any_of(op.getOperands(), [&](Value operand) { return isScaled(operand); })) {
        if (failed(rescale(tensorOp)))
          return failure();
        if (std::string fault = describeTooLarge(&op); !fault.empty())
          return report(&op, fault);
      }
      if (isa<BatchNormOp, DropoutOp>(op))
        for (Value result : op.getResults())
          if (exportedTypes.lookup(result).getShape() == exportedTypes.lookup(op.getOperand(0)).getShape())
            result.setType(typeOf(op.getOperand(0)).clone(typeOf(result).getElementType()));
    }
    for (StoreOp store : body.getOps<StoreOp>())
      if (isScaled(store.getValue()))
        return report(store, "sets buffer " + store.getSymbol() +
                                 " to rows of the batch; a buffer keeps the size of the export");
    for (nn::ScaleOp scale : body.getOps<nn::ScaleOp>())
      if (auto correction = scale->getAttrOfType<FloatAttr>(nn::kMeanAttr))
        correctMean(scale, correction.getValueAsDouble());
    return batch;
  }

private:
  //===-- The batch -----------------------------------------------------------===//

  InputRuleOp inputRule(InputOp input) {
    for (InputRuleOp candidate : module.getOps<InputRuleOp>())
      if (candidate.getName() == input.getName())
        return candidate;
    return {};
  }

  /// What the plan says of an input and an axis, if it does: the dim that the axis shards, or -1, none.
  std::optional<int64_t> statedDim(InputOp input, StringRef axis) {
    InputRuleOp stated = inputRule(input);
    auto text = stated ? stated.getPlacements().getAs<StringAttr>(axis) : StringAttr();
    if (!text)
      return {};
    FailureOr<Placement> placement = parsePlacement(stated, text);
    if (failed(placement) || !placement->shardDim)
      return -1; // What is wrong is reported where input rules are applied.
    int64_t rank = typeOf(input).getRank(), dim = *placement->shardDim;
    dim = dim < 0 ? dim + rank : dim;
    return dim < rank ? dim : -1;
  }

  /// The dim of an input that holds the batch: the one that the microbatches or `dp` shard, 0 if nothing else
  /// is said. Other axes may shard other dims, such as the sequence.
  std::optional<int64_t> batchDim(InputOp input) {
    InputRuleOp stated = inputRule(input);
    if ((stated && stated.getPlacements().empty()) || typeOf(input).getRank() == 0)
      return {};
    std::optional<int64_t> time = statedDim(input, kMicrobatchAxis), space = statedDim(input, "dp");
    if (time == -1 && space == -1)
      return {};
    for (std::optional<int64_t> dim : {time, space})
      if (dim && dim != -1)
        return dim;
    return 0;
  }

  /// Whether an axis shards the batch of an input.
  bool shardsBatch(StringRef axis, InputOp input, int64_t dim) {
    return statedDim(input, axis).value_or(axis == "dp" ? dim : -1) == dim;
  }

  LogicalResult findBatch() {
    for (InputOp input : body.getOps<InputOp>())
      if (std::optional<int64_t> dim = batchDim(input)) {
        inputs.push_back({input, *dim});
        int64_t rows = typeOf(input).getDimSize(*dim);
        exported = inputs.size() == 1 ? rows : std::min(exported, rows);
      }
    for (auto [input, dim] : inputs)
      if (exported == 0 || typeOf(input).getDimSize(dim) % exported != 0)
        return emitError(rule.getLoc())
               << "the batch of this export is not known: input \"" << input.getName() << "\" has "
               << typeOf(input).getDimSize(dim) << " rows in dim " << dim << ", another has " << exported
               << "; say in \"inputs\" what is no batch";
    batch = static_cast<int64_t>(rule.getSize());
    bool overflows = false;
    auto multiply = [&](int64_t parts) { overflows |= llvm::MulOverflow(batch, parts, batch) != 0; };
    if (rule.getOf() == "microbatch")
      multiply(getMicrobatches(module));
    if (auto mesh = findOp<MeshOp>(module); rule.getOf() != "global")
      for (StringRef axis : mesh.getAxes().getAsValueRange<StringAttr>())
        if (llvm::any_of(inputs, [&](auto held) { return shardsBatch(axis, held.first, held.second); }))
          multiply(mesh.getAxisSize(axis));
    if (overflows || !bounds::kCount.contains(static_cast<double>(batch)))
      return emitError(rule.getLoc()) << rule.getSize() << " rows for each " << rule.getOf()
                                      << " are more in all than a batch can have, 2147483647";
    return success();
  }

  //===-- Types ---------------------------------------------------------------===//

  RankedTensorType scaled(RankedTensorType type, int64_t dim) const {
    SmallVector<int64_t> shape(type.getShape());
    shape[dim] = shape[dim] / exported * batch;
    return RankedTensorType::get(shape, type.getElementType());
  }

  bool isScaled(Value value, int64_t dim) const {
    return exportedTypes.lookup(value).getDimSize(dim) != typeOf(value).getDimSize(dim);
  }
  bool isScaled(Value value) const { return exportedTypes.lookup(value) != value.getType(); }

  LogicalResult report(Operation *op, const Twine &what) {
    InFlightDiagnostic diagnostic = emitModelError(op);
    diagnostic << what;
    diagnostic.attachNote(rule.getLoc())
        << "the batch is changed from " << exported << " to " << batch << " here";
    return diagnostic;
  }

  /// The op is what it was, but for the sizes.
  static bool isValid(Operation *op) {
    ScopedDiagnosticHandler quiet(op->getContext(), [](Diagnostic &) { return success(); });
    return succeeded(verify(op, /*verifyRecursively=*/false));
  }

  LogicalResult rescale(nn::TensorOpInterface op) {
    if (failed(exported > 1 ? scaleOperands(op) : repeatForSamples(op)))
      return failure();
    if (failed(setTypes(op)))
      return failure();
    return exported > 1 ? success() : checkSamplesApart(op);
  }

  LogicalResult setTypes(nn::TensorOpInterface op) {
    if (auto inferred = dyn_cast<InferTypeOpInterface>(op.getOperation())) {
      SmallVector<Type> types;
      ScopedDiagnosticHandler quiet(op->getContext(), [](Diagnostic &) { return success(); });
      if (failed(inferred.inferReturnTypes(op->getContext(), op->getLoc(), op->getOperands(),
                                           op->getAttrDictionary(), op->getPropertiesStorage(),
                                           op->getRegions(), types)))
        return reportMismatch(op);
      for (auto [result, type] : llvm::zip(op->getResults(), types))
        result.setType(type);
    } else if (!followOperand(op)) {
      return reportMismatch(op);
    }
    return success();
  }

  LogicalResult reportMismatch(nn::TensorOpInterface op) {
    std::string operands;
    llvm::raw_string_ostream stream(operands);
    llvm::interleaveComma(op->getOperandTypes(), stream);
    return report(op, "has no result for operands of the types " + operands);
  }

  /// Of an op that has literal sizes: the first result dim that may hold the batch and that the sharding rule
  /// lets begin with the same loop as the operand's dim.
  bool followOperand(nn::TensorOpInterface op) {
    auto exportedResults = llvm::to_vector_of<Type>(op->getResultTypes());
    for (auto [index, operand] : llvm::enumerate(op->getOperands()))
      for (int64_t dim = 0; dim < typeOf(operand).getRank(); ++dim)
        if (isScaled(operand, dim) && growResults(op, index, dim))
          return true;
    for (auto [result, type] : llvm::zip(op->getResults(), exportedResults))
      result.setType(type);
    return false;
  }

  bool growResults(nn::TensorOpInterface op, unsigned operand, int64_t operandDim) {
    RankedTensorType first = exportedTypes.lookup(op->getResult(0));
    for (int64_t dim = 0; dim < first.getRank(); ++dim) {
      if (first.getDimSize(dim) % exported != 0)
        continue;
      for (Value result : op->getResults())
        if (exportedTypes.lookup(result).getRank() == first.getRank())
          result.setType(scaled(exportedTypes.lookup(result), dim));
      if (!isValid(op))
        continue;
      // A dim of one row has no factor; the op is then what it was.
      ShardingRule grown = batch > 1 ? op.getShardingRule() : exportedRules[op];
      const ShardingRule::Dim &from = grown.operands[operand][operandDim];
      if (!from.empty() && begins(grown.results[0][dim], from.front()))
        return true;
    }
    return false;
  }

  /// A mean over the batch divides by more or fewer terms.
  void correctMean(nn::ScaleOp mean, double correction) {
    Operation *sum = mean->getOperand(0).getDefiningOp();
    if (sum->getNumOperands() != 1 || !isScaled(sum->getOperand(0)))
      return;
    double terms = static_cast<double>(typeOf(sum->getOperand(0)).getNumElements()) /
                   static_cast<double>(typeOf(sum->getResult(0)).getNumElements());
    mean.setFactorAttr(Builder(mean).getF64FloatAttr(1 / (terms - correction)));
  }

  //===-- A batch of 1 --------------------------------------------------------===//

  /// Where an op reads rows of samples in a dim that the export has for one sample, brings its other operands
  /// to the same rows.
  LogicalResult repeatForSamples(nn::TensorOpInterface op) {
    const ShardingRule &rule = exportedRules[op];
    std::optional<int> rows;
    for (auto [index, operand] : llvm::enumerate(op->getOperands()))
      for (auto [dim, members] : llvm::enumerate(rule.operands[index]))
        if (isScaled(operand, dim) && !members.empty()) {
          if (rows && *rows != members.front())
            return reportMixed(op, "combines rows of different samples");
          rows = members.front();
        }
    if (!rows)
      return success();
    for (auto [index, operand] : llvm::enumerate(op->getOpOperands()))
      for (auto [dim, members] : llvm::enumerate(rule.operands[index]))
        if (!isScaled(operand.get(), dim) && llvm::is_contained(members, *rows)) {
          if (!begins(members, *rows))
            return reportMixed(op, "has the rows of samples in the middle of a dim");
          operand.set(repeated(op, operand.get(), dim));
        }
    return success();
  }

  /// The value once for each sample, along `dim`.
  Value repeated(Operation *reader, Value value, int64_t dim) {
    Value &known = grown[{value, dim}];
    if (known)
      return known;
    OpBuilder builder(value.getContext());
    builder.setInsertionPointAfterValue(value);
    ProvenanceScope scope(builder, reader, Phase::Forward);
    RankedTensorType type = typeOf(value);
    auto typed = [&](ArrayRef<int64_t> shape) { return type.clone(shape); };
    SmallVector<int64_t> apart(type.getShape());
    apart.insert(apart.begin() + dim, 1);
    Value one = nn::ViewOp::create(builder, value.getLoc(), typed(apart), value);
    apart[dim] = batch;
    Value all = nn::BroadcastOp::create(builder, value.getLoc(), typed(apart), one);
    known = nn::ViewOp::create(builder, value.getLoc(), scaled(type, dim), all);
    exportedTypes[known] = type;
    return known;
  }

  /// No result depends on the rows of several samples, unless it is a sum over all of them. Of a batch that
  /// is a dim of its own any sum is one over the batch, as in the export; of a folded one only a scalar is.
  LogicalResult checkSamplesApart(nn::TensorOpInterface op) {
    ShardingRule rule = op.getShardingRule();
    for (auto [index, operand] : llvm::enumerate(op->getOperands()))
      for (auto [dim, members] : llvm::enumerate(rule.operands[index])) {
        if (members.empty() || !isScaled(operand, dim))
          continue;
        nn::FactorKind kind = rule.factors[members.front()].kind;
        bool isFolded = exportedTypes.lookup(operand).getDimSize(dim) != 1;
        if (kind == nn::FactorKind::Replicated)
          return reportMixed(op, "needs the rows of all samples at once");
        if (kind == nn::FactorKind::Reduction && isFolded && typeOf(op->getResult(0)).getNumElements() != 1)
          return reportMixed(op, "sums over the rows of all samples");
      }
    return success();
  }

  LogicalResult reportMixed(Operation *op, const Twine &what) {
    return report(op, what +
                          ", and an export of one sample does not say whether each is meant by itself; keep "
                          "the batch as a dim of its own, or export with a batch of 2");
  }

  //===-- Factories -----------------------------------------------------------===//

  /// Lets operands grow that run over the batch together with one that has grown.
  LogicalResult scaleOperands(nn::TensorOpInterface op) {
    const ShardingRule factors = exportedRules[op]; // a copy: the map grows below
    llvm::SmallSetVector<int, 2> overBatch;
    for (auto [index, operand] : llvm::enumerate(op->getOperands()))
      for (auto [dim, members] : llvm::enumerate(factors.operands[index]))
        if (isScaled(operand, dim) && !members.empty())
          overBatch.insert(members.front());
    for (auto [index, operand] : llvm::enumerate(op->getOperands()))
      for (auto [dim, members] : llvm::enumerate(factors.operands[index]))
        if (!isScaled(op->getOperand(index), dim) &&
            llvm::any_of(overBatch, [&](int factor) { return begins(members, factor); })) {
          FailureOr<Value> grown = grow(op, op->getOperand(index), dim);
          if (failed(grown))
            return failure();
          op->setOperand(index, *grown);
        }
    return success();
  }

  /// The value with a larger dim, made anew from constants: other readers may need it as it was.
  FailureOr<Value> grow(Operation *reader, Value value, int64_t dim) {
    auto key = std::make_pair(value, dim);
    if (Value known = grown.lookup(key))
      return known;
    auto maker = dyn_cast<nn::TensorOpInterface>(value.getDefiningOp());
    const ShardingRule factors = maker ? exportedRules[maker] : ShardingRule();
    unsigned number = cast<OpResult>(value).getResultNumber();
    if (!maker || factors.results[number][dim].empty() || typeOf(value).getDimSize(dim) % exported != 0)
      return report(reader, "needs the batch in dim " + Twine(dim) + " of a value that does not hold it (" +
                                describe(value.getDefiningOp()) + ")");
    int factor = factors.results[number][dim].front();
    OpBuilder builder(maker);
    Operation *clone = builder.clone(*maker.getOperation());
    exportedRules[clone] = factors;
    for (auto [index, operand] : llvm::enumerate(maker->getOperands()))
      for (auto [operandDim, members] : llvm::enumerate(factors.operands[index]))
        if (begins(members, factor)) {
          FailureOr<Value> source = grow(reader, operand, operandDim);
          if (failed(source))
            return failure();
          clone->setOperand(index, *source);
        }
    for (auto [result, before] : llvm::zip(clone->getResults(), maker->getResults())) {
      exportedTypes[result] = typeOf(before);
      for (auto [resultDim, members] :
           llvm::enumerate(factors.results[cast<OpResult>(result).getResultNumber()]))
        if (begins(members, factor))
          result.setType(scaled(typeOf(result), resultDim));
    }
    if (!isValid(clone))
      return report(maker, "cannot be made for another batch");
    return grown[key] = clone->getResult(number);
  }

  ModuleOp module;
  ProgramOp program;
  Block &body;
  BatchRuleOp rule;
  SmallVector<std::pair<InputOp, int64_t>> inputs; ///< Those that hold the batch, and in which dim.
  int64_t exported = 1, batch = 1;
  llvm::DenseMap<Value, RankedTensorType> exportedTypes;
  llvm::DenseMap<Operation *, ShardingRule> exportedRules;
  llvm::DenseMap<std::pair<Value, int64_t>, Value> grown;
};

} // namespace

LogicalResult plumb::applyBatchRule(ModuleOp module, ProgramOp program) {
  auto rules = llvm::to_vector(module.getOps<BatchRuleOp>());
  if (rules.empty())
    return success();
  if (rules.size() > 1)
    return emitError(rules[1].getLoc()) << "there can be only one batch";
  BatchRuleOp rule = rules.front();
  if (!llvm::is_contained({"global", "replica", "microbatch"}, rule.getOf()))
    return emitError(rule.getLoc()) << "the batch of \"" << rule.getOf()
                                    << "\" is unknown; there are global, replica and microbatch";
  FailureOr<int64_t> batch = BatchScaler(module, program, rule).run();
  if (failed(batch))
    return failure();
  module->setAttr(kBatchAttr, Builder(module).getI64IntegerAttr(*batch));
  rule.erase();
  return success();
}
