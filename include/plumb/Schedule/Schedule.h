//===- Schedule.h - The solution: a list of actions per rank ----*- C++ -*-===//

#ifndef PLUMB_SCHEDULE_SCHEDULE_H
#define PLUMB_SCHEDULE_SCHEDULE_H

#include "plumb/Schedule/Action.h"
#include <string>
#include <string_view>
#include <vector>

namespace plumb::schedule {

/// `rows[rank][cell]`. A compute-only schedule holds F, B, I, W and pairs, its transfers are implied; a
/// lowered one
/// (`placeCommunication`) holds every transfer too. Rows may differ in length; idle cells mean nothing but
/// keep cell numbers equal to those of the file that was read.
struct Schedule {
  std::vector<std::vector<Action>> rows;

  bool hasTransfers() const;
  size_t numActions() const;
  bool operator==(const Schedule &) const = default;
};

/// One row a rank, cells separated by commas; lines end in \n or \r\n. The Diagnostic names rank and cell.
/// A file without a byte is EmptyFile, one with idle cells only NoActions.
Result<Schedule> parseCSV(std::string_view text);
std::string toCSV(const Schedule &schedule);

/// An object whose `actions` is a list of texts per rank, as `toJSON` of Report.h writes it; errors as those
/// of `parseCSV`, and BadActionText for what is no such object.
Result<Schedule> parseJSON(std::string_view text);
/// JSON if it begins with a brace, else CSV.
Result<Schedule> parse(std::string_view text);

} // namespace plumb::schedule

#endif // PLUMB_SCHEDULE_SCHEDULE_H
