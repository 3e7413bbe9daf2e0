//===- Location.h - Where a cell stands in a file of actions ----*- C++ -*-===//

#ifndef PLUMB_SCHEDULE_LOCATION_H
#define PLUMB_SCHEDULE_LOCATION_H

#include <string_view>
#include <utility>

namespace plumb::schedule {

/// Whether the text of a list is read as JSON, not as CSV: its first mark is a brace.
bool isJSON(std::string_view text);

/// Line and column, from 1, of a cell in the text that the list was read from. The column is 0 if the cell is
/// -1 or not there.
std::pair<int, int> locateCell(std::string_view text, int rank, int cell);

} // namespace plumb::schedule

#endif // PLUMB_SCHEDULE_LOCATION_H
