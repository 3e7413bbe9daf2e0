//===- ProgramStep.cpp - Action lists, and the step that runs them --------------===//

#include "ProgramWriter.h"
#include "plumb/Transforms/Reductions.h"

using namespace mlir;
using namespace plumb;
using namespace plumb::target;
using llvm::formatv;
using schedule::ActionKind;

static StringRef getKindName(ActionKind kind) {
  switch (kind) {
  case ActionKind::Forward:
    return "F";
  case ActionKind::Backward:
    return "B";
  case ActionKind::InputGrad:
    return "I";
  case ActionKind::WeightGrad:
    return "W";
  default:
    return schedule::toString(kind);
  }
}

static void writeActions(ProgramWriter &writer, const ProgramPlan &plan, size_t coordinate) {
  SmallVector<std::string> entries;
  auto add = [&](const schedule::Action &action) {
    if (!action.isIdle())
      entries.push_back(formatv("{{plumb::{0}, {1}, {2}, {3}}", getKindName(action.kind), action.stage,
                                action.microbatch, action.isTransfer() ? action.peer : -1));
  };
  ArrayRef<schedule::Action> actions = plan.actions.rows[coordinate];
  size_t done = 0;
  auto addUntil = [&](size_t end) {
    for (; done < end; ++done) {
      add(actions[done].first());
      add(actions[done].second());
    }
  };
  for (const Reduction &reduction : getReductions(plan.pipeline, static_cast<int64_t>(coordinate), actions)) {
    addUntil(reduction.after);
    if (plan.hasPart(reduction.stage, {PartKind::Reduce}))
      entries.push_back(formatv("{{plumb::REDUCE, {0}, 0, -1}", reduction.stage));
  }
  addUntil(actions.size());
  writer.writeTable("plumb::Action", formatv("kActions{0}", coordinate).str(), entries, 4);
}

static std::string describeCall(int64_t stage, const Part &part) {
  return formatv("      submod_pp_{0}_{1}(rank{2});\n", stage, part.getName(),
                 part.isPerMicrobatch() ? ", microbatch" : "");
}

/// The calls by which stages of the same rank take over what a phase has made.
static std::string describeHandovers(const ProgramPlan &plan, int64_t stage, PartKind phase) {
  PartKind sends = phase == PartKind::Forward ? PartKind::SendForward : PartKind::SendBackward;
  std::string text;
  if (phase == PartKind::Forward || phase == PartKind::BackwardInput)
    for (const Part &part : plan.pipeline.handovers[stage])
      if (part.kind == sends)
        text += describeCall(part.peer, getCounterpart(part, stage));
  return text;
}

/// The cases of `run` for one kind of action: per stage, and per peer where it has one, the calls of its
/// parts.
static void addCases(const ProgramPlan &plan, StringRef kind, ArrayRef<PartKind> kinds,
                     SmallVectorImpl<std::string> &lines) {
  std::map<std::pair<int64_t, int64_t>, std::string> calls; // by stage and peer
  for (PartKind partKind : kinds)
    for (const auto &[key, ops] : plan.parts)
      if (key.second.kind == partKind && plan.hasPart(key.first, key.second) &&
          !plan.pipeline.isHandover(key.first, key.second)) {
        calls[{key.first, key.second.peer}] +=
            describeCall(key.first, key.second) + describeHandovers(plan, key.first, partKind);
      }
  if (calls.empty())
    return;
  lines.push_back(formatv("  case plumb::{0}:", kind));
  for (const auto &[ends, text] : calls) {
    std::string condition = formatv("action.stage == {0}", ends.first);
    if (ends.second >= 0)
      condition += formatv(" && action.peer == {0}", ends.second);
    lines.push_back(formatv("    if ({0}) {{\n{1}    }", condition, text));
  }
  lines.push_back("    break;");
}

static void writeRun(ProgramWriter &writer, const ProgramPlan &plan) {
  SmallVector<std::string> lines;
  addCases(plan, "F", {PartKind::Forward}, lines);
  addCases(plan, "B", {PartKind::BackwardInput, PartKind::BackwardWeight}, lines);
  addCases(plan, "I", {PartKind::BackwardInput}, lines);
  addCases(plan, "W", {PartKind::BackwardWeight}, lines);
  addCases(plan, "SEND_F", {PartKind::SendForward}, lines);
  addCases(plan, "RECV_F", {PartKind::RecvForward}, lines);
  addCases(plan, "SEND_B", {PartKind::SendBackward}, lines);
  addCases(plan, "RECV_B", {PartKind::RecvBackward}, lines);
  addCases(plan, "REDUCE", {PartKind::Reduce}, lines);
  writer.write(
      "\n// Launches what one action stands for; an action without work launches nothing.\n"
      "void run(plumb::Rank &rank, const plumb::Action &action) {\n"
      "  const auto microbatch = static_cast<std::size_t>(action.microbatch);\n  switch (action.kind) {");
  for (const std::string &text : lines)
    writer.write(text);
  writer.write("  default:\n    break;\n  }\n}");
}

static void addStep(const ProgramPlan &plan, int64_t coordinate, SmallVectorImpl<std::string> &lines) {
  SmallVector<int64_t> stages = plan.pipeline.stagesOf(coordinate);
  auto cleared = plan.module->getAttrOfType<DenseI64ArrayAttr>(kClearedAttr)[coordinate];
  lines.push_back(formatv("case {0}:", coordinate));
  if (cleared)
    lines.push_back(formatv(
        "  PLUMB_CUDA(cudaMemsetAsync(rank.at<void>(0), 0, {0}, rank.stream({1}))); // gradients and sums",
        cleared, plan.streams[0]));
  auto addOnce = [&](PartKind kind, bool perMicrobatch) {
    for (int64_t stage : stages)
      if (plan.hasPart(stage, {kind}) && perMicrobatch)
        lines.push_back(formatv("  for (std::size_t microbatch = 0; microbatch < {0}; ++microbatch)\n"
                                "      submod_pp_{1}_{2}(rank, microbatch);",
                                plan.pipeline.microbatches, stage, Part{kind}.getName()));
      else if (plan.hasPart(stage, {kind}))
        lines.push_back(formatv("  submod_pp_{0}_{1}(rank);", stage, Part{kind}.getName()));
  };
  addOnce(PartKind::Prologue, true);
  addOnce(PartKind::Begin, false);
  lines.push_back(
      formatv("  for (const plumb::Action &action : kActions{0})\n      run(rank, action);", coordinate));
  addOnce(PartKind::Update, false);
  lines.push_back("  break;");
}

void plumb::target::writeStep(ProgramWriter &writer, ProgramPlan &plan) {
  writer.write(
      "\n// What each pipeline coordinate runs: kind, stage, microbatch, the stage at the other end.");
  for (size_t coordinate = 0; coordinate < plan.actions.rows.size(); ++coordinate)
    writeActions(writer, plan, coordinate);
  writeRun(writer, plan);
  SmallVector<std::string> lines{"switch (rank.pipeline()) {"};
  for (int64_t coordinate = 0; coordinate < plan.pipeline.coordinates; ++coordinate)
    addStep(plan, coordinate, lines);
  lines.push_back("default:\n    break;\n  }");
  writer.writeFunction("One step: everything is launched, nothing is waited for.", "step", false, lines);
}
