//===- Process.h - A process that is one rank of a run --------------------------===//

#ifndef PLUMB_RUNTIME_PROCESS_H
#define PLUMB_RUNTIME_PROCESS_H

#include "plumb/Runtime/Rendezvous.h"
#include "plumb/Runtime/Session.h"

#include <functional>
#include <memory>

namespace plumb {

/// What differs between the providers that run one rank per process.
struct Backend {
  /// Which of the ranks this process is. Throws UsageError.
  std::function<Place()> place;
  /// Tells all ranks where rank 0 listens, if the launcher has not.
  std::function<void(Place &)> announce;
  std::function<std::unique_ptr<Provider>(const Place &, const Options &, RendezvousClient &)> open;
};

/// Runs this process's rank of a program, see Run.h. An error stops all ranks.
Outcome runProcess(const Program &program, int argc, const char *const *argv, const Backend &backend,
                   Driver *driver);

} // namespace plumb

#endif // PLUMB_RUNTIME_PROCESS_H
