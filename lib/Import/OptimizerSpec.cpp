//===- OptimizerSpec.cpp - The optimizer of a plan spec --------------------===//

#include "OptimizerSpec.h"

namespace plumb::spec {

static Located<double> toNumber(const json::Value &value) { return {*value.asNumber(), value.range}; }

static std::optional<Located<double>> findNumber(const json::Value &object, std::string_view key) {
  const json::Value *value = object.find(key);
  return value ? std::optional(toNumber(*value)) : std::nullopt;
}

static std::optional<Located<int64_t>> findInteger(const json::Value &object, std::string_view key) {
  const json::Value *value = object.find(key);
  return value ? std::optional(Located<int64_t>{*value->asInteger(), value->range}) : std::nullopt;
}

Optimizer toOptimizer(const json::Value &value) {
  const json::Value &kind = *value.find("kind");
  Optimizer result;
  result.range = value.range;
  result.kind = {*kind.asString(), kind.range};
  result.rate = toNumber(*value.find("lr"));
  result.momentum = findNumber(value, "momentum");
  result.dampening = findNumber(value, "dampening");
  result.decay = findNumber(value, "weight_decay");
  result.epsilon = findNumber(value, "eps");
  result.clip = findNumber(value, "clip_norm");
  if (const json::Value *nesterov = value.find("nesterov"))
    result.nesterov = *nesterov->asBool();
  if (const json::Value *betas = value.find("betas")) {
    // Any other number of them is reported by the check.
    result.betas = {{-1, -1}, betas->range};
    if (betas->asArray()->size() == 2)
      for (size_t i = 0; i < 2; ++i)
        result.betas->value[i] = *(*betas->asArray())[i].asNumber();
  }
  if (const json::Value *schedule = value.find("schedule")) {
    const json::Value &form = *schedule->find("kind");
    result.schedule = {*form.asString(), form.range};
    result.warmup = findInteger(*schedule, "warmup");
    result.steps = findInteger(*schedule, "steps");
    result.final = findNumber(*schedule, "final");
  }
  if (result.kind.value == "adamw" && !result.decay)
    result.decay = {0.01, {}};
  return result;
}

namespace {

class Checker {
public:
  Checker(const PlanSpec &plan, const Optimizer &optimizer, Diagnostics &diagnostics)
      : plan(plan), optimizer(optimizer), diagnostics(diagnostics) {}

  void check() {
    bool isSgd = optimizer.kind.value == "sgd";
    if (isSgd) {
      refuse(optimizer.betas, "betas", "adam and adamw");
      refuse(optimizer.epsilon, "eps", "adam and adamw");
    } else {
      refuse(optimizer.momentum, "momentum", "sgd");
      refuse(optimizer.dampening, "dampening", "sgd");
      if (optimizer.nesterov)
        error(optimizer.range,
              "\"nesterov\" belongs to sgd, but the kind is \"" + optimizer.kind.value + "\"");
    }
    if (isSgd && optimizer.nesterov && (!isPositive(optimizer.momentum) || isPositive(optimizer.dampening)))
      error(optimizer.range, "\"nesterov\" needs a \"momentum\" above 0 and no \"dampening\"");
    if (optimizer.betas)
      for (double beta : optimizer.betas->value)
        if (beta < 0 || beta >= 1)
          return error(optimizer.betas->range, "\"betas\" must be two numbers of at least 0 and below 1");
    if (optimizer.clip && !isPositive(optimizer.clip))
      error(optimizer.clip->range, "\"clip_norm\" must be above 0; leave it out to clip nothing");
    checkSchedule();
  }

private:
  static bool isPositive(const std::optional<Located<double>> &number) { return number && number->value > 0; }

  void error(Range range, std::string message) { diagnostics.error(plan.place(range), std::move(message)); }

  template <typename T>
  void refuse(const std::optional<Located<T>> &value, const std::string &key, const std::string &owner) {
    if (value)
      error(value->range,
            "\"" + key + "\" belongs to " + owner + ", but the kind is \"" + optimizer.kind.value + "\"");
  }

  void checkSchedule() {
    if (!optimizer.schedule)
      return;
    const std::string &kind = optimizer.schedule->value;
    int64_t warmup = optimizer.warmup ? optimizer.warmup->value : 0;
    if (kind == "constant") {
      if (optimizer.steps)
        error(optimizer.steps->range, "\"steps\" has no meaning for a constant rate");
      if (optimizer.final)
        error(optimizer.final->range, "\"final\" has no meaning for a constant rate");
    } else if (!optimizer.steps) {
      error(optimizer.schedule->range, "the schedule \"" + kind + "\" needs the key \"steps\"");
    } else if (optimizer.steps->value <= warmup) {
      error(optimizer.steps->range, std::to_string(optimizer.steps->value) +
                                        " steps leave nothing after the warm-up, which has " +
                                        std::to_string(warmup));
    }
  }

  const PlanSpec &plan;
  const Optimizer &optimizer;
  Diagnostics &diagnostics;
};

} // namespace

void checkOptimizer(const PlanSpec &plan, const Optimizer &optimizer, Diagnostics &diagnostics) {
  Checker(plan, optimizer, diagnostics).check();
}

} // namespace plumb::spec
