//===- Completeness.cpp - Every computation exactly once, on its rank -----===//

#include "Verification.h"
#include <algorithm>

using namespace plumb::schedule;

std::optional<Diagnostic> Verification::checkRows() {
  int rows = static_cast<int>(schedule.rows.size());
  if (rows == static_cast<long long>(problem.ranks) * options.replicas)
    return std::nullopt;
  std::string expected = std::to_string(problem.ranks) + " ranks";
  if (options.replicas > 1)
    expected += " times " + std::to_string(options.replicas) + " replicas";
  return reject(Violation::WrongRankCount, -1,
                "the list has " + std::to_string(rows) + " rows, but there are " + expected +
                    "; write one row a rank");
}

std::optional<Diagnostic> Verification::checkRanges() {
  for (int row = 0; row < static_cast<int>(schedule.rows.size()); ++row)
    for (int cell = 0; cell < static_cast<int>(schedule.rows[row].size()); ++cell) {
      const Action &action = schedule.rows[row][cell];
      if (action.isIdle())
        continue;
      for (const Action &half : {action.first(), action.second()}) {
        if (half.isIdle())
          continue;
        if (half.stage < 0 || half.stage >= problem.stages)
          return reject(Violation::StageOutOfRange, cellId(row, cell),
                        "stage " + std::to_string(half.stage) + ", but there are stages 0 to " +
                            std::to_string(problem.stages - 1) + " only");
        if (!half.isSharding() && (half.microbatch < 0 || half.microbatch >= problem.microbatches))
          return reject(Violation::MicrobatchOutOfRange, cellId(row, cell),
                        "microbatch " + std::to_string(half.microbatch) +
                            ", but there are microbatches 0 to " + std::to_string(problem.microbatches - 1) +
                            " only");
      }
    }
  return std::nullopt;
}

std::optional<Diagnostic> Verification::checkPlacement() {
  bool declared = !problem.placements.empty();
  std::vector<int> firstCell(problem.stages, -1);
  Check error;
  for (int row = 0; row < static_cast<int>(schedule.rows.size()) && !error; ++row)
    forEachHalf(row, [&](int cell, const Action &half) {
      int id = cellId(row, cell), rank = rankOfRow(row);
      int &first = firstCell[half.stage];
      if (first < 0)
        first = id;
      if (error)
        return;
      if (declared && problem.rankOf(half.stage, half.microbatch) != rank)
        error = reject(Violation::StageOnWrongRank, id,
                       "stage " + std::to_string(half.stage) + " runs on rank " + std::to_string(rank) +
                           ", but is placed on rank " +
                           std::to_string(problem.rankOf(half.stage, half.microbatch)));
      else if (!declared && rankOfRow(rowOf(first)) != rank) {
        error = reject(Violation::StageOnTwoRanks, id,
                       "stage " + std::to_string(half.stage) + " runs here on rank " + std::to_string(rank) +
                           " and before on rank " + std::to_string(rankOfRow(rowOf(first))) +
                           "; a stage lives on one rank");
        error->witness = {describe(first), describe(id)};
      }
    });
  if (error)
    return error;
  for (int stage = 0; stage < problem.stages; ++stage)
    if (firstCell[stage] < 0) {
      Diagnostic diagnostic = reject(Violation::MissingStage, -1,
                                     "stage " + std::to_string(stage) + " of " +
                                         std::to_string(problem.stages) + " runs nowhere");
      diagnostic.action = std::to_string(stage);
      return diagnostic;
    }
  if (!declared) {
    problem.placements.emplace_back();
    for (int stage = 0; stage < problem.stages; ++stage)
      problem.placements[0].push_back(rankOfRow(rowOf(firstCell[stage])));
  }
  return std::nullopt;
}

std::optional<Diagnostic> Verification::recordComputations() {
  size_t count = indexOf(options.replicas, 0, 0);
  for (std::vector<int> *table : {&forward, &backward, &inputGrad, &weightGrad})
    table->assign(count, -1);
  Check error;
  for (int row = 0; row < static_cast<int>(schedule.rows.size()) && !error; ++row)
    forEachHalf(row, [&](int cell, const Action &half) {
      std::vector<int> &table = half.kind == ActionKind::Forward     ? forward
                                : half.kind == ActionKind::Backward  ? backward
                                : half.kind == ActionKind::InputGrad ? inputGrad
                                                                     : weightGrad;
      int id = cellId(row, cell);
      int &recorded = table[indexOf(row / problem.ranks, half.stage, half.microbatch)];
      if (recorded >= 0 && !error) {
        error = reject(half.kind == ActionKind::Forward ? Violation::DuplicateForward
                                                        : Violation::DuplicateBackward,
                       id, toString(half) + " runs twice; each action runs once a step");
        error->witness = {describe(recorded), describe(id)};
      }
      recorded = id;
    });
  return error;
}

std::optional<Diagnostic> Verification::checkBackwardForms() {
  for (size_t index = 0; index < backward.size(); ++index) {
    int part = inputGrad[index] >= 0 ? inputGrad[index] : weightGrad[index];
    if (backward[index] < 0 || part < 0)
      continue;
    Diagnostic diagnostic =
        reject(Violation::FullAndSplitBackward, part,
               "this microbatch also has a full backward, which contains I and W; keep one form");
    diagnostic.witness = {describe(backward[index]), describe(part)};
    return diagnostic;
  }
  return std::nullopt;
}

std::optional<Diagnostic> Verification::checkNothingMissing() {
  auto holds = [](int cell) { return cell >= 0; };
  bool training = problem.training || std::any_of(backward.begin(), backward.end(), holds) ||
                  std::any_of(inputGrad.begin(), inputGrad.end(), holds) ||
                  std::any_of(weightGrad.begin(), weightGrad.end(), holds);
  auto missing = [&](Violation violation, int replica, const Action &action, int present) {
    Diagnostic diagnostic = reject(violation, present, toString(action) + " is missing");
    if (present >= 0) {
      diagnostic.message = diagnostic.action + " stands without " + toString(action);
      return diagnostic;
    }
    diagnostic.rank = replica * problem.ranks + problem.rankOf(action.stage, action.microbatch);
    diagnostic.action = toString(action);
    return diagnostic;
  };
  for (int replica = 0; replica < options.replicas; ++replica)
    for (int stage = 0; stage < problem.stages; ++stage)
      for (int m = 0; m < problem.microbatches; ++m) {
        size_t index = indexOf(replica, stage, m);
        if (forward[index] < 0)
          return missing(Violation::MissingForward, replica, Action::forward(stage, m), -1);
        if (!training || backward[index] >= 0)
          continue;
        if (inputGrad[index] < 0 && weightGrad[index] < 0)
          return missing(Violation::MissingBackward, replica, Action::backward(stage, m), -1);
        if (inputGrad[index] < 0)
          return missing(Violation::MissingInputGrad, replica, Action::inputGrad(stage, m),
                         weightGrad[index]);
        if (weightGrad[index] < 0)
          return missing(Violation::MissingWeightGrad, replica, Action::weightGrad(stage, m),
                         inputGrad[index]);
      }
  return std::nullopt;
}

std::optional<Diagnostic> Verification::checkMemory() {
  if (problem.memoryLimit == std::numeric_limits<double>::infinity())
    return std::nullopt;
  // Sums of many changes carry rounding errors.
  double limit = problem.memoryLimit * (1 + 1e-9);
  Check error;
  for (int row = 0; row < static_cast<int>(schedule.rows.size()) && !error; ++row) {
    double live = 0;
    auto change = [&](int cell, double by) {
      live += by;
      if (live > limit && !error)
        error = reject(Violation::MemoryLimit, cellId(row, cell),
                       "activations grow to " + std::to_string(live) + " here, the limit is " +
                           std::to_string(problem.memoryLimit));
    };
    forEachHalf(row, [&](int cell, const Action &half) {
      const ActivationChange &activation = problem.activations[half.stage];
      bool whole = half.kind == ActionKind::Backward;
      if (half.kind == ActionKind::Forward)
        change(cell, activation.forward);
      if (whole || half.kind == ActionKind::InputGrad)
        change(cell, activation.inputGrad);
      if (whole || half.kind == ActionKind::WeightGrad)
        change(cell, activation.weightGrad);
    });
  }
  return error;
}
