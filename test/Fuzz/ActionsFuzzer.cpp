//===- ActionsFuzzer.cpp - libFuzzer target for lists of actions -------------===//

#include "plumb/Schedule/Location.h"
#include "plumb/Schedule/Schedule.h"
#include "plumb/Schedule/Verifier.h"

using namespace plumb::schedule;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string text(reinterpret_cast<const char *>(data), size);
  Result<Schedule> schedule = parse(text);
  if (!schedule) {
    locateCell(text, schedule.diagnostic().rank, schedule.diagnostic().cell);
    schedule.diagnostic().toString();
    return 0;
  }
  // What was read is written and read again; and it is judged, whatever it holds.
  if (!(*parse(toCSV(*schedule)) == *schedule))
    __builtin_trap();
  int rows = static_cast<int>(schedule->rows.size());
  for (Transfers transfers :
       {Transfers::Rendezvous, Transfers::Grouped, Transfers::Async, Transfers::Streams}) {
    Problem problem = Problem::chain(rows, rows, 2);
    problem.placements.clear();
    VerifyOptions options;
    options.transfers = transfers;
    if (auto diagnostic = verify(problem, *schedule, options))
      diagnostic->toString();
  }
  return 0;
}
