//===- Command.h - What `plumbc schedule` does ------------------*- C++ -*-===//
//
// The command-line tool parses options into one of the two requests, prints the output and exits with its
// code.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_SCHEDULE_COMMAND_H
#define PLUMB_SCHEDULE_COMMAND_H

#include "plumb/Schedule/Problem.h"
#include <string>

namespace plumb::schedule {

/// Options as they were typed; an empty text or zero is an option that was not given.
struct GenerateRequest {
  std::string kind;
  int ranks = 0, microbatches = 0;
  /// Default: 2 for kinds on a V, else 1; `auto` then tries 1 to 4, taking the costs as those of all stages
  /// of a rank.
  int stagesPerRank = 0;
  std::string costs;            // "F,I,W,C"; default 1,1,1,0
  std::string activationMemory; // "F,I,W"; default 1,0,-1
  std::string memoryLimit;      // a number
  std::string format;           // csv, text or json; default text
  /// The costs of each stage and of a transfer, instead of `costs`.
  std::vector<StageCost> stageCosts = {};
  double transferCost = 0;
};

struct ValidateRequest {
  std::string fileName; // for messages
  std::string text;     // its contents
  int stages = 0, microbatches = 0;
  int ranks = 0;    // default: the rows of the file divided by the replicas
  int replicas = 0; // default 1
  std::string map;  // "0,1,1,0": the rank of each stage; default: taken from the list
  bool forwardOnly = false;
  std::string transfers; // rendezvous (default), grouped, async or streams
};

/// Exit codes: 0 success, 1 the problem was rejected, 2 wrong usage, 3 the list was rejected.
struct CommandOutput {
  int exitCode = 0;
  std::string output;      // for standard output
  std::string diagnostics; // for standard error
};

CommandOutput runGenerate(const GenerateRequest &request);
CommandOutput runValidate(const ValidateRequest &request);

} // namespace plumb::schedule

#endif // PLUMB_SCHEDULE_COMMAND_H
