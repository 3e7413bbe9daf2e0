//===- Hub.cpp - What the ranks of a run tell each other outside of the program -===//

#include "plumb/Runtime/Hub.h"

#include "plumb/Runtime/Checkpoint.h"
#include "plumb/Runtime/Driver.h"
#include "plumb/Runtime/Sources.h"

namespace plumb {

Desk::Desk(const Program &program, const Options &options, const Sources &sources, std::int64_t firstStep,
           Driver *driver)
    : firstStep(firstStep), driver(driver), journal(options.log, tokensPerStep(program), /*prints=*/!driver) {
  // What cannot be written is said now, not when the work is done.
  if (!options.checkpoint.empty()) {
    prepareCheckpoints(options.checkpoint);
    checkpoints = std::make_unique<CheckpointLock>(options.checkpoint);
  }
  if (!options.save.empty())
    collector =
        std::make_unique<Collector>(program, options.save, options.steps - firstStep, sources.parameters());
}

Desk::~Desk() = default;

void Desk::deliver(const Piece &piece) {
  if (driver)
    return driver->deliver(piece);
  if (!collector)
    throw Failure("rank 0 does not collect results");
  collector->add(piece);
}

void Desk::report(const StepReport &report) {
  journal.add(report);
  if (driver)
    driver->report(report);
  if (collector)
    collector->addLoss(report.step - firstStep, static_cast<float>(report.loss));
}

bool Desk::decide(std::int64_t step, bool proposal) {
  // Ranks are never more than a few steps apart.
  constexpr std::int64_t kKept = 1000;
  std::lock_guard guard(mutex);
  decisions.erase(decisions.begin(), decisions.lower_bound(step - kKept));
  return decisions.try_emplace(step, proposal).first->second;
}

void Desk::commit() {
  if (collector)
    collector->commit();
}

} // namespace plumb
