//===- Process.cpp - A process that is one rank of a run ------------------------===//

#include "plumb/Runtime/Process.h"

#include <exception>
#include <optional>
#include <string>

namespace plumb {
namespace {

/// What all ranks must agree on.
std::string signatureOf(const Program &program, const Options &options, std::int64_t firstStep) {
  std::string text = std::string("program '") + program.name + "' (" + program.signature + ") on mesh";
  for (const Axis &axis : program.mesh)
    text += std::string(" ") + axis.name + "=" + std::to_string(axis.size);
  return text + ", " + std::to_string(program.microbatches) + " microbatches, to step " +
         std::to_string(options.steps) + (options.save.empty() ? "" : ", results saved") +
         (options.resume.empty() ? "" : ", resumed after step " + std::to_string(firstStep)) +
         (options.checkpoint.empty() ? "" : ", checkpoints every " + std::to_string(options.every));
}

std::string nameOfRank(int rank) { return "rank " + std::to_string(rank) + ": "; }

Outcome runRank(const Program &program, const Options &options, Place place, const Backend &backend,
                Driver *driver) {
  if (place.size != rankCount(program))
    throw Failure("the launcher starts " + std::to_string(place.size) +
                  " ranks, but the mesh of the program has " + std::to_string(rankCount(program)));
  if (!driver)
    handleTermination();
  Sources sources = openSources(program, options, /*needsInputs=*/!driver);
  std::string signature = signatureOf(program, options, sources.firstStep);
  std::optional<Desk> desk;
  std::optional<RendezvousServer> server;
  if (place.rank == 0) {
    desk.emplace(program, options, sources, sources.firstStep, driver);
    server.emplace(place, signature, *desk, options.timeout);
    place.port = server->port();
  }
  backend.announce(place);
  RendezvousClient client(place, signature, options.timeout);
  std::unique_ptr<Provider> provider;
  try {
    provider = backend.open(place, options, client);
    if (driver)
      driver->begin(1);
    Session(program, place.rank, options, sources, *provider, client, driver).run();
    client.finish();
  } catch (const std::exception &) {
    Outcome outcome = outcomeOfException(nameOfRank(place.rank));
    if (const Outcome *known = provider ? provider->explain() : nullptr)
      outcome = {known->code, nameOfRank(place.rank) + known->error, known->file};
    try {
      client.fail(outcome.file.empty() ? outcome.error : outcome.file + ": " + outcome.error);
    } catch (const Failure &) {
      // Rank 0 is gone; the first error is the one to report.
    }
    return outcome;
  }
  if (desk)
    desk->commit();
  return {};
}

} // namespace

Outcome runProcess(const Program &program, int argc, const char *const *argv, const Backend &backend,
                   Driver *driver) {
  std::optional<Place> place;
  try {
    Options options = parseOptions(argc, argv);
    place = backend.place();
    return runRank(program, options, *place, backend, driver);
  } catch (const std::exception &) {
    return outcomeOfException(nameOfRank(place ? place->rank : 0));
  }
}

} // namespace plumb
