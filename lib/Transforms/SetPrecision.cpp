//===- SetPrecision.cpp - Products in a narrow type ------------------------===//

#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Transforms/Passes.h"
#include "plumb/Transforms/Utils.h"
#include <map>

using namespace mlir;

namespace plumb {
#define GEN_PASS_DEF_SETPRECISION
#include "plumb/Transforms/Passes.h.inc"
} // namespace plumb

using namespace plumb;

static Type elementOf(Value value) { return cast<RankedTensorType>(value.getType()).getElementType(); }

static Type withElement(Value value, Type element) {
  return RankedTensorType::get(cast<RankedTensorType>(value.getType()).getShape(), element);
}

/// What takes the type of the values that it is used with: a parameter, or a number that is made, not
/// computed.
static bool isAdaptable(Value value) {
  Operation *def = value.getDefiningOp();
  while (def->hasTrait<nn::Reinterprets>())
    def = def->getOperand(0).getDefiningOp();
  bool isNumber = def->getNumOperands() == 0 && isa<nn::TensorOpInterface>(def) &&
                  cast<RankedTensorType>(value.getType()).getRank() == 0;
  return isNumber || isa<LoadOp>(def);
}

/// A sum over products of two operands.
static bool isProduct(const nn::ShardingRule &rule) {
  return rule.linear.size() >= 2 && llvm::any_of(rule.factors, [](const nn::Factor &factor) {
           return factor.kind == nn::FactorKind::Reduction;
         });
}

/// Whether each element of the result comes of one element of each operand, or is one.
static bool isElementwiseOrMove(const nn::ShardingRule &rule, ArrayRef<unsigned> floats) {
  auto has = [&](nn::FactorKind kind) {
    return llvm::any_of(rule.factors, [&](const nn::Factor &factor) { return factor.kind == kind; });
  };
  if (has(nn::FactorKind::Reduction))
    return false;
  return !has(nn::FactorKind::Replicated) || llvm::all_of(floats, [&](unsigned operand) {
    return llvm::any_of(rule.linear, [&](ArrayRef<int> set) { return llvm::is_contained(set, operand); });
  });
}

namespace {

class PrecisionSetter {
public:
  PrecisionSetter(ProgramOp program, FloatType narrow)
      : body(*program.getBody().begin()), builder(program.getContext()), narrow(narrow),
        wide(builder.getF32Type()) {}

  void run() {
    for (Operation &op : llvm::make_early_inc_range(body)) {
      auto tensorOp = dyn_cast<nn::TensorOpInterface>(op);
      if (!tensorOp || !hasOnlyKnownFloats(&op))
        bring(&op, floatOperands(&op), wide);
      else
        compute(tensorOp);
    }
  }

private:
  static SmallVector<unsigned> floatOperands(Operation *op) {
    SmallVector<unsigned> floats;
    for (OpOperand &operand : op->getOpOperands())
      if (isa<RankedTensorType>(operand.get().getType()) && isa<FloatType>(elementOf(operand.get())))
        floats.push_back(operand.getOperandNumber());
    return floats;
  }

  /// Whether its floats were f32 in the model: an op that the model has in other types stays as it is.
  bool hasOnlyKnownFloats(Operation *op) {
    auto isKnown = [&](Value value) {
      Type element = elementOf(value);
      return !isa<FloatType>(element) || element == wide || narrowed.contains(value);
    };
    return llvm::all_of(op->getOperands(), isKnown) && llvm::all_of(op->getResults(), isKnown);
  }

  void compute(nn::TensorOpInterface op) {
    SmallVector<unsigned> floats = floatOperands(op);
    nn::ShardingRule rule = op.getShardingRule();
    bool isNarrow = isProduct(rule);
    if (!isNarrow && isElementwiseOrMove(rule, floats)) {
      auto isNarrowOrAdaptable = [&](unsigned i) {
        return narrowed.contains(op->getOperand(i)) || isAdaptable(op->getOperand(i));
      };
      isNarrow = llvm::all_of(floats, isNarrowOrAdaptable) &&
                 llvm::any_of(floats, [&](unsigned i) { return narrowed.contains(op->getOperand(i)); });
    }
    bring(op, floats, isNarrow ? Type(narrow) : Type(wide));
    if (!isNarrow)
      return;
    for (Value result : op->getResults())
      if (elementOf(result) == wide) {
        result.setType(withElement(result, narrow));
        narrowed.insert(result);
        widenOutput(result);
      }
  }

  /// Gives the operands in the wanted type.
  void bring(Operation *op, ArrayRef<unsigned> operands, Type wanted) {
    for (unsigned i : operands) {
      Value value = op->getOperand(i);
      if (elementOf(value) != wanted && (elementOf(value) == wide || narrowed.contains(value)))
        op->setOperand(i, convert(value, wanted, op));
    }
  }

  /// What a model gives is f32, and so is what a loss is computed from.
  void widenOutput(Value value) {
    if (llvm::none_of(value.getUsers(), [](Operation *user) { return isa<OutputOp, LossOp>(user); }))
      return;
    Operation *op = value.getDefiningOp();
    builder.setInsertionPointAfter(op);
    ProvenanceScope scope(builder, op, getPhase(op));
    auto output = nn::ConvertOp::create(builder, op->getLoc(), withElement(value, wide), value);
    value.replaceAllUsesExcept(output, output);
  }

  /// Readers of one stage share a conversion.
  Value convert(Value value, Type wanted, Operation *reader) {
    Value &known = conversions[{value.getAsOpaquePointer(), getStage(reader)}];
    if (known)
      return known;
    builder.setInsertionPoint(reader);
    ProvenanceScope scope(builder, reader, getPhase(reader));
    known = nn::ConvertOp::create(builder, reader->getLoc(), withElement(value, wanted), value);
    if (wanted == narrow)
      narrowed.insert(known);
    return known;
  }

  Block &body;
  OpBuilder builder;
  FloatType narrow, wide;
  llvm::DenseSet<Value> narrowed;                          ///< What was f32 in the model.
  std::map<std::pair<void *, int64_t>, Value> conversions; ///< By value, to the other type, and stage.
};

struct SetPrecisionPass : plumb::impl::SetPrecisionBase<SetPrecisionPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto program = findOp<ProgramOp>(module);
    for (PrecisionRuleOp rule : llvm::make_early_inc_range(module.getOps<PrecisionRuleOp>())) {
      if (rule.getCompute() == "bf16" && program) {
        PrecisionSetter(program, BFloat16Type::get(&getContext())).run();
      } else if (rule.getCompute() != "f32") {
        emitError(rule.getLoc()) << "products cannot be computed in \"" << rule.getCompute()
                                 << "\"; expected \"bf16\" or \"f32\"";
        signalPassFailure();
      }
      rule.erase();
    }
  }
};

} // namespace
