//===- Optimizer.cpp - The update of the parameters as tensor ops ---------===//

#include "Optimizer.h"
#include "plumb/Transforms/PlanAttributes.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>
#include <numbers>
#include <set>

using namespace mlir;
using namespace plumb;

// A small number that keeps a quotient finite: that of torch.nn.utils.clip_grad_norm_.
static constexpr double kLeastNorm = 1e-6;

static constexpr StringLiteral kRate = "optimizer.rate", kNorm = "optimizer.norm";

static double valueOf(std::optional<APFloat> number, double otherwise = 0) {
  return number ? number->convertToDouble() : otherwise;
}

OptimizerBuilder::OptimizerBuilder(ModuleOp module, ProgramOp program, OptimizerOp optimizer)
    : module(module), program(program), optimizer(optimizer), builder(module.getContext()),
      loc(optimizer.getLoc()), beta1(valueOf(optimizer.getBeta1(), 0.9)),
      beta2(valueOf(optimizer.getBeta2(), 0.999)) {
  builder.setInsertionPointToEnd(&*program.getBody().begin());
}

void OptimizerBuilder::build(ArrayRef<Trained> trained) {
  std::map<int64_t, SmallVector<Trained>> updates; // by stage
  for (const Trained &entry : trained)
    for (int64_t stage : entry.stages)
      updates[stage].push_back(entry);
  std::set<int64_t> ranks;
  for (auto &[stage, entries] : updates)
    if (ranks.insert(getPipelineCoordinate(module, stage)).second)
      firstStages.push_back(stage);
  if (optimizer.getClip())
    sumSquares(trained);
  for (auto &[stage, entries] : updates) {
    isFirstOfRank = llvm::is_contained(firstStages, stage);
    setStage(program, stage);            // the origin from which the numbers take their stage
    std::map<unsigned, Numbers> numbers; // by width of the elements
    for (const Trained &entry : entries) {
      Type element = cast<RankedTensorType>(ParameterOp(entry.parameter).getType()).getElementType();
      auto [found, isNew] = numbers.try_emplace(element.getIntOrFloatBitWidth());
      if (isNew) {
        ProvenanceScope scope(builder, program, Phase::Update);
        found->second = makeNumbers(element);
      }
      ParameterOp parameter = entry.parameter;
      setStage(parameter, stage);
      ProvenanceScope scope(builder, parameter, Phase::Update);
      update(entry, found->second);
      isFirstOfRank = false;
      parameter->removeAttr(kStageAttr);
    }
  }
  program->removeAttr(kStageAttr);
}

//===----------------------------------------------------------------------===//
// The global norm
//===----------------------------------------------------------------------===//

/// The axes that cut a parameter: over these, the sum of the squares of a shard is partial.
static std::string namesOfAxes(ParameterOp parameter) {
  std::set<StringRef> names;
  if (LayoutAttr layout = parameter.getUpdated() ? *parameter.getUpdated() : parameter.getLayoutAttr())
    for (DimShardingAttr dim : layout.getDims())
      for (AxisRefAttr axis : dim.getAxes())
        names.insert(axis.getName().getValue());
  return llvm::join(names, "_");
}

/// Adds the square of each gradient's norm to a sum, on the rank that owns the parameter: it counts once,
/// whatever its copies. What is partial over the same axes is one sum, and so one exchange.
void OptimizerBuilder::sumSquares(ArrayRef<Trained> trained) {
  for (const Trained &entry : trained) {
    ParameterOp parameter = entry.parameter;
    StateOp gradient = entry.gradient;
    setStage(parameter, entry.stages.front());
    ProvenanceScope scope(builder, parameter, Phase::Reduce);
    Value square = nn::SquareSumOp::create(
        builder, loc, convert(load(gradient.getSymName(), parameter.getType()), builder.getF32Type()));
    StateOp &sum = squares[namesOfAxes(parameter)];
    if (!sum) {
      std::string axes = namesOfAxes(parameter);
      sum = makeState((kNorm + ".of" + (axes.empty() ? "" : "_" + axes)).str(), "norm", square.getType());
      sum.setHolders(firstStages);
    }
    AccumulateOp::create(builder, loc, FlatSymbolRefAttr::get(sum), square);
    parameter->removeAttr(kStageAttr);
  }
}

/// Completes the sums. They are stored and read again: what is read is whole.
void OptimizerBuilder::measureNorm() {
  Value total;
  for (auto &[axes, sum] : squares) {
    StringRef symbol = sum.getSymName();
    store(symbol, load(symbol, sum.getType()));
    Value whole = load(symbol, sum.getType());
    total = total ? nn::AddOp::create(builder, loc, total, whole).getResult() : whole;
  }
  Value norm = nn::PowerOp::create(builder, loc, total, APFloat(0.5));
  makeState(kNorm, "norm", norm.getType());
  store(kNorm, norm);
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

Value OptimizerBuilder::countUpdates() {
  StateOp counter = getStepCounter(module, program);
  return load(counter.getSymName(), counter.getType());
}

/// The rate of this step, as f64; null if it never changes.
Value OptimizerBuilder::makeRate() {
  StringRef schedule = optimizer.getSchedule().value_or("constant");
  double warmup = static_cast<double>(optimizer.getWarmup().value_or(0));
  if (schedule == "constant" && warmup == 0)
    return {};
  Value updates = countUpdates(), factor;
  if (schedule == "constant") {
    factor = like(updates, 1);
  } else {
    double final = valueOf(optimizer.getFinal());
    double span = static_cast<double>(optimizer.getSteps().value_or(1)) - warmup;
    Value progress = scaled(nn::SubOp::create(builder, loc, updates, like(updates, warmup)), 1 / span);
    progress = nn::MinimumOp::create(builder, loc, progress, like(updates, 1));
    if (schedule == "linear") {
      factor = nn::AddOp::create(builder, loc, scaled(progress, final - 1), like(updates, 1));
    } else {
      Value wave = nn::CosOp::create(builder, loc, scaled(progress, std::numbers::pi));
      factor = nn::AddOp::create(builder, loc, scaled(wave, (1 - final) / 2), like(updates, (1 + final) / 2));
    }
  }
  if (warmup > 0) {
    Value isWarming = nn::LessOp::create(builder, loc, updates, like(updates, warmup));
    factor = nn::WhereOp::create(builder, loc, isWarming, scaled(updates, 1 / warmup), factor);
  }
  return scaled(factor, optimizer.getRate().convertToDouble());
}

/// 1 - beta^n in update n, the first of which is 1, as f64.
Value OptimizerBuilder::makeCorrection(double beta) {
  Value number = countUpdates();
  if (beta == 0)
    return like(number, 1);
  number = nn::AddOp::create(builder, loc, number, like(number, 1));
  Value power = nn::ExpOp::create(builder, loc, scaled(number, std::log(beta)));
  return nn::SubOp::create(builder, loc, like(number, 1), power);
}

OptimizerBuilder::Numbers OptimizerBuilder::makeNumbers(Type element) {
  Numbers numbers;
  if (optimizer.getClip()) {
    if (isFirstOfRank)
      measureNorm();
    Value norm = load(kNorm, squares.begin()->second.getType());
    norm = nn::AddOp::create(builder, loc, norm, like(norm, kLeastNorm));
    Value clip = nn::DivOp::create(builder, loc, like(norm, valueOf(optimizer.getClip())), norm);
    numbers.clip = convert(nn::MinimumOp::create(builder, loc, clip, like(clip, 1)), element);
  }
  Value rate = makeRate();
  if (rate && isFirstOfRank) {
    makeState(kRate, "rate", rate.getType());
    store(kRate, rate);
  }
  if (!rate)
    module->setAttr(kRateAttr, optimizer.getRateAttr());
  numbers.rate = rate ? convert(rate, element) : constant(optimizer.getRate().convertToDouble(), element);
  if (optimizer.getKind() == "sgd")
    return numbers;
  Value first = makeCorrection(beta1), second = makeCorrection(beta2);
  rate = rate ? rate : like(first, optimizer.getRate().convertToDouble());
  numbers.step = convert(nn::DivOp::create(builder, loc, rate, first), element);
  numbers.root = convert(nn::PowerOp::create(builder, loc, second, APFloat(-0.5)), element);
  return numbers;
}

//===----------------------------------------------------------------------===//
// One parameter
//===----------------------------------------------------------------------===//

void OptimizerBuilder::update(const Trained &trained, const Numbers &numbers) {
  ParameterOp parameter = trained.parameter;
  StateOp gradientState = trained.gradient;
  Value gradient = load(gradientState.getSymName(), parameter.getType());
  if (numbers.clip)
    gradient = nn::MulOp::create(builder, loc, gradient, numbers.clip);
  Value value = load(parameter.getSymName(), parameter.getType());
  store(parameter.getSymName(), optimizer.getKind() == "sgd" ? descend(trained, value, gradient, numbers)
                                                             : adapt(trained, value, gradient, numbers));
}

Value OptimizerBuilder::descend(const Trained &trained, Value parameter, Value gradient,
                                const Numbers &numbers) {
  if (double decay = valueOf(optimizer.getDecay()))
    gradient = weightedSum(gradient, 1, parameter, decay);
  if (double momentum = valueOf(optimizer.getMomentum())) {
    ParameterOp of = trained.parameter;
    std::string name = ("optimizer.momentum_buffer." + of.getSymName()).str();
    makeState(name, "moment", of.getType(), of);
    Value moment = load(name, of.getType());
    double dampening = valueOf(optimizer.getDampening());
    if (dampening == 0) {
      moment = weightedSum(moment, momentum, gradient, 1);
    } else {
      // The first gradient is taken whole.
      Value updates = countUpdates();
      Value isFirst = nn::LessOp::create(builder, loc, updates, like(updates, 1));
      Value share =
          nn::WhereOp::create(builder, loc, isFirst, like(updates, 1), like(updates, 1 - dampening));
      share = convert(share, cast<RankedTensorType>(of.getType()).getElementType());
      moment = weightedSum(moment, momentum, nn::MulOp::create(builder, loc, gradient, share), 1);
    }
    store(name, moment);
    gradient = optimizer.getNesterov() ? weightedSum(gradient, 1, moment, momentum) : moment;
  }
  return nn::SgdOp::create(builder, loc, parameter.getType(), parameter, gradient, numbers.rate);
}

Value OptimizerBuilder::adapt(const Trained &trained, Value parameter, Value gradient,
                              const Numbers &numbers) {
  ParameterOp of = trained.parameter;
  double decay = valueOf(optimizer.getDecay());
  bool isDecoupled = optimizer.getKind() == "adamw";
  if (decay != 0 && !isDecoupled)
    gradient = weightedSum(gradient, 1, parameter, decay);
  auto average = [&](StringRef kind, double beta, Value next) {
    std::string name = ("optimizer." + kind + "." + of.getSymName()).str();
    makeState(name, "moment", of.getType(), of);
    Value moment = weightedSum(load(name, of.getType()), beta, next, 1 - beta);
    store(name, moment);
    return moment;
  };
  Value first = average("exp_avg", beta1, gradient);
  Value second = average("exp_avg_sq", beta2, nn::MulOp::create(builder, loc, gradient, gradient));
  return nn::AdamOp::create(builder, loc, parameter.getType(), parameter, first, second, numbers.rate,
                            numbers.step, numbers.root, APFloat(valueOf(optimizer.getEpsilon(), 1e-8)),
                            APFloat(isDecoupled ? decay : 0.0));
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

/// The state of that name, made at its first use.
StateOp OptimizerBuilder::makeState(StringRef name, StringRef kind, Type type, ParameterOp of) {
  if (auto known = module.lookupSymbol<StateOp>(name))
    return known;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(program);
  OpBuilder::Listener *listener = builder.getListener();
  builder.setListener(nullptr);
  auto state = StateOp::create(builder, loc, name, kind, type, of ? of.getSymNameAttr() : StringAttr());
  if (of)
    state.setLayoutAttr(of.getUpdated() ? *of.getUpdated() : of.getLayoutAttr());
  builder.setListener(listener);
  return state;
}

Value OptimizerBuilder::load(StringRef symbol, Type type) {
  return LoadOp::create(builder, loc, type, FlatSymbolRefAttr::get(builder.getContext(), symbol));
}

void OptimizerBuilder::store(StringRef symbol, Value value) {
  StoreOp::create(builder, loc, FlatSymbolRefAttr::get(builder.getContext(), symbol), value);
}

Value OptimizerBuilder::constant(double value, Type element) {
  return nn::FillOp::create(builder, loc, RankedTensorType::get({}, element), builder.getF64FloatAttr(value));
}

Value OptimizerBuilder::like(Value number, double value) {
  return constant(value, cast<RankedTensorType>(number.getType()).getElementType());
}

Value OptimizerBuilder::scaled(Value number, double factor) {
  return nn::ScaleOp::create(builder, loc, number, APFloat(factor));
}

Value OptimizerBuilder::convert(Value number, Type element) {
  auto type = cast<RankedTensorType>(number.getType());
  if (type.getElementType() == element)
    return number;
  return nn::ConvertOp::create(builder, loc, RankedTensorType::get(type.getShape(), element), number);
}

Value OptimizerBuilder::weightedSum(Value lhs, double lhsWeight, Value rhs, double rhsWeight) {
  return nn::WeightedSumOp::create(builder, loc, lhs, APFloat(lhsWeight), rhs, APFloat(rhsWeight));
}
