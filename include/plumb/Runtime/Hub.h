//===- Hub.h - What the ranks of a run tell each other outside of the program -===//

#ifndef PLUMB_RUNTIME_HUB_H
#define PLUMB_RUNTIME_HUB_H

#include "plumb/Runtime/Collector.h"
#include "plumb/Runtime/Journal.h"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace plumb {

class CheckpointLock;
class Driver;
struct Options;
struct Sources;

/// Every function may throw plumb::Failure, and does when another rank has failed.
class Hub {
public:
  virtual ~Hub() = default;
  virtual void deliver(const Piece &piece) = 0;
  virtual void report(const StepReport &report) = 0;
  /// The proposal of the rank that comes first with this step is what all ranks get.
  virtual bool decide(std::int64_t step, bool proposal) = 0;
  /// Waits until all ranks have come here.
  virtual void wait() = 0;
};

/// The part of a hub that exists once, in the process of rank 0. May be called from several threads.
class Desk {
public:
  /// `firstStep` is that of the checkpoint which is gone on from. Results go to the driver, if there is one.
  Desk(const Program &program, const Options &options, const Sources &sources, std::int64_t firstStep,
       Driver *driver);
  ~Desk();

  void deliver(const Piece &piece);
  void report(const StepReport &report);
  bool decide(std::int64_t step, bool proposal);
  /// The results appear under their name. All ranks are done.
  void commit();

private:
  std::int64_t firstStep;
  Driver *driver;
  std::unique_ptr<CheckpointLock> checkpoints; ///< Null if none are wanted.
  std::unique_ptr<Collector> collector;        ///< Null if no results are wanted.
  Journal journal;
  std::mutex mutex;
  std::map<std::int64_t, bool> decisions;
};

} // namespace plumb

#endif // PLUMB_RUNTIME_HUB_H
