//===- BuildBackward.cpp - Appends the gradients of the loss ---------------===//

#include "mlir/IR/IRMapping.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Transforms/Passes.h"
#include "plumb/Transforms/Utils.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace plumb {
#define GEN_PASS_DEF_BUILDBACKWARD
#include "plumb/Transforms/Passes.h.inc"
} // namespace plumb

using namespace plumb;

namespace {

/// Reverse-mode differentiation of one flat block.
class Differentiator {
public:
  Differentiator(ModuleOp module, ProgramOp program, LossOp loss)
      : module(module), body(*program.getBody().begin()), loss(loss), builder(module.getContext()) {
    for (ParameterOp parameter : module.getOps<ParameterOp>())
      parameters[parameter.getSymName()] = parameter;
    // What is read of a copy that the owner sent is read of the parameter.
    for (StateOp state : module.getOps<StateOp>())
      if (state.getKind() == "copy")
        parameters[state.getSymName()] = parameters.lookup(*state.getOf());
  }

  LogicalResult run() {
    findActiveValues();
    Operation *lastForward = &body.back();
    builder.setInsertionPointToEnd(&body);
    {
      ProvenanceScope scope(builder, loss.getValue().getDefiningOp(), Phase::BackwardInput);
      addCotangent(loss.getValue(), nn::FillOp::create(builder, loss.getLoc(), loss.getValue().getType(),
                                                       builder.getF64FloatAttr(1.0)));
    }
    SmallVector<Operation *> forward;
    for (Operation &op : body) {
      forward.push_back(&op);
      if (&op == lastForward)
        break;
    }
    for (Operation *op : llvm::reverse(forward))
      if (failed(differentiate(op)))
        return failure();
    rotateAgain(lastForward);
    separateWeightGradients(lastForward);
    return success();
  }

private:
  /// A value is active when a trainable parameter reaches it through derivatives, and batched when a model
  /// input reaches it.
  void findActiveValues() {
    for (Operation &op : body) {
      bool isActive = llvm::any_of(op.getOperands(), [&](Value operand) { return active.contains(operand); });
      bool isBatched =
          llvm::any_of(op.getOperands(), [&](Value operand) { return batched.contains(operand); });
      if (auto load = dyn_cast<LoadOp>(op))
        if (ParameterOp parameter = parameters.lookup(load.getSymbol()))
          isActive = parameter.getTrainable();
      isActive &= !op.hasTrait<nn::Detaches>();
      for (Value result : op.getResults()) {
        if (isActive && cast<RankedTensorType>(result.getType()).getElementType().isFloat())
          active.insert(result);
        if (isBatched || isa<InputOp>(op))
          batched.insert(result);
      }
    }
  }

  void addCotangent(Value value, Value cotangent) { contributions[value].push_back(cotangent); }

  /// The sum of what the readers of `value` contributed, or null: first within each stage that reads it, so
  /// that a stage sends one gradient, then in the producer's stage, in ascending order. Readers are visited
  /// last to first, hence the reversal.
  Value sumCotangents(Value value) {
    auto found = contributions.find(value);
    if (found == contributions.end())
      return {};
    SmallVector<Value> perStage;
    for (Value contribution : llvm::reverse(found->second)) {
      int64_t stage = getStage(contribution.getDefiningOp());
      if (!perStage.empty() && getStage(perStage.back().getDefiningOp()) == stage)
        perStage.back() = add(value, perStage.back(), contribution, stage);
      else
        perStage.push_back(contribution);
    }
    Value sum = perStage.front();
    for (Value next : llvm::drop_begin(perStage))
      sum = add(value, sum, next, getStage(value.getDefiningOp()));
    if (batched.contains(value))
      activationGradients.push_back(sum);
    return sum;
  }

  /// Adds two cotangents of `value` in the given stage.
  Value add(Value value, Value lhs, Value rhs, int64_t stage) {
    ProvenanceScope scope(builder, value.getDefiningOp(), Phase::BackwardInput);
    auto sum = nn::AddOp::create(builder, value.getLoc(), lhs, rhs);
    setStage(sum, stage);
    return sum;
  }

  LogicalResult differentiate(Operation *op) {
    if (auto load = dyn_cast<LoadOp>(op)) {
      if (Value gradient = sumCotangents(load.getResult()))
        accumulate(load, gradient);
      return success();
    }
    auto tensorOp = dyn_cast<nn::TensorOpInterface>(op);
    if (!tensorOp)
      return success();
    SmallVector<Value> cotangents;
    for (Value result : op->getResults())
      cotangents.push_back(active.contains(result) ? sumCotangents(result) : Value());
    if (llvm::none_of(cotangents, [](Value cotangent) { return cotangent != nullptr; }))
      return success();

    SmallVector<bool> wanted;
    for (Value operand : op->getOperands())
      wanted.push_back(active.contains(operand));
    ProvenanceScope scope(builder, op, Phase::BackwardInput);
    SmallVector<Value> gradients = tensorOp.backward(builder, cotangents, wanted);
    for (auto [operand, gradient, isWanted] : llvm::zip(op->getOperands(), gradients, wanted)) {
      if (isWanted && !gradient)
        return emitModelError(op) << "has no gradient for an operand that a trainable parameter reaches";
      if (isWanted)
        addCotangent(operand, gradient);
    }
    return success();
  }

  /// Adds a gradient to the state of its parameter, which is made at the first gradient.
  void accumulate(LoadOp load, Value gradient) {
    ParameterOp parameter = parameters.lookup(load.getSymbol());
    std::string name = "grad." + parameter.getSymName().str();
    if (!states.contains(name)) {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPoint(body.getParentOp());
      StateOp::create(builder, parameter.getLoc(), name, "gradient", parameter.getType(),
                      parameter.getSymNameAttr(), IntegerAttr(), StringAttr(), LayoutAttr());
      states.insert(name);
    }
    ProvenanceScope scope(builder, load, Phase::BackwardWeight);
    AccumulateOp::create(builder, load.getLoc(), FlatSymbolRefAttr::get(builder.getContext(), name),
                         gradient);
  }

  /// What walks around the ranks is not kept for the backward pass but walks again, so that a rank keeps what
  /// is its own.
  void rotateAgain(Operation *lastForward) {
    llvm::DenseMap<Value, Value> again;
    for (Operation *op = lastForward->getNextNode(); op; op = op->getNextNode())
      for (OpOperand &operand : op->getOpOperands())
        if (Value made = rotateAgain(operand.get(), op, lastForward, again))
          operand.set(made);
  }

  /// The value made anew in front of `reader`, or null if it is no rotated one of the forward pass of its
  /// stage.
  Value rotateAgain(Value value, Operation *reader, Operation *lastForward,
                    llvm::DenseMap<Value, Value> &again) {
    auto rotation = value.getDefiningOp<ccl::RotateOp>();
    if (!rotation || lastForward->isBeforeInBlock(rotation) || getStage(rotation) != getStage(reader))
      return {};
    if (Value made = again.lookup(value))
      return made;
    Value input = rotateAgain(rotation.getInput(), reader, lastForward, again);
    builder.setInsertionPoint(reader);
    ProvenanceScope scope(builder, rotation, Phase::BackwardInput);
    IRMapping mapping;
    if (input)
      mapping.map(rotation.getInput(), input);
    return again[value] = builder.clone(*rotation, mapping)->getResult(0);
  }

  /// What the gradients of batched values are computed from belongs to `backward_input`, everything else that
  /// was appended ends in a parameter gradient alone: `backward_weight`.
  void separateWeightGradients(Operation *lastForward) {
    llvm::DenseSet<Operation *> appended, needed;
    for (Operation *op = lastForward->getNextNode(); op; op = op->getNextNode())
      appended.insert(op);
    SmallVector<Value> worklist(activationGradients);
    while (!worklist.empty()) {
      Operation *op = worklist.pop_back_val().getDefiningOp();
      if (appended.contains(op) && needed.insert(op).second)
        llvm::append_range(worklist, op->getOperands());
    }
    for (Operation *op = lastForward->getNextNode(); op; op = op->getNextNode())
      setPhase(op, needed.contains(op) ? Phase::BackwardInput : Phase::BackwardWeight);
  }

  ModuleOp module;
  Block &body;
  LossOp loss;
  OpBuilder builder;
  llvm::StringMap<ParameterOp> parameters;
  llvm::StringSet<> states;
  llvm::DenseSet<Value> active, batched;
  llvm::DenseMap<Value, SmallVector<Value, 2>> contributions;
  SmallVector<Value> activationGradients;
};

struct BuildBackwardPass : plumb::impl::BuildBackwardBase<BuildBackwardPass> {
  void runOnOperation() override {
    auto program = findOp<ProgramOp>(getOperation());
    if (!program)
      return;
    auto losses = program.getBody().getOps<LossOp>();
    if (losses.empty())
      return;
    if (failed(Differentiator(getOperation(), program, *losses.begin()).run()))
      signalPassFailure();
  }
};

} // namespace
