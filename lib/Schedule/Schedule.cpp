#include "plumb/Schedule/Schedule.h"
#include <algorithm>

using namespace plumb::schedule;

bool Schedule::hasTransfers() const {
  return std::any_of(rows.begin(), rows.end(), [](const std::vector<Action> &row) {
    return std::any_of(row.begin(), row.end(), [](const Action &action) { return action.isTransfer(); });
  });
}

size_t Schedule::numActions() const {
  size_t count = 0;
  for (const std::vector<Action> &row : rows)
    count += std::count_if(row.begin(), row.end(), [](const Action &action) { return !action.isIdle(); });
  return count;
}

static std::optional<Diagnostic> parseRow(std::string_view line, int rank, std::vector<Action> &row) {
  while (true) {
    size_t comma = line.find(',');
    Result<Action> action = parseAction(line.substr(0, comma));
    if (!action) {
      Diagnostic diagnostic = action.diagnostic();
      diagnostic.rank = rank;
      diagnostic.cell = static_cast<int>(row.size());
      return diagnostic;
    }
    row.push_back(*action);
    if (comma == std::string_view::npos)
      return std::nullopt;
    line.remove_prefix(comma + 1);
  }
}

Result<Schedule> plumb::schedule::parseCSV(std::string_view text) {
  Diagnostic diagnostic;
  if (text.empty()) {
    diagnostic.violation = Violation::EmptyFile;
    diagnostic.message = "the file is empty; write one row of actions per rank";
    return diagnostic;
  }
  Schedule schedule;
  while (!text.empty()) {
    size_t newline = text.find('\n');
    std::string_view line = text.substr(0, newline);
    text.remove_prefix(newline == std::string_view::npos ? text.size() : newline + 1);
    if (!line.empty() && line.back() == '\r')
      line.remove_suffix(1);
    int rank = static_cast<int>(schedule.rows.size());
    if (std::optional<Diagnostic> error = parseRow(line, rank, schedule.rows.emplace_back()))
      return *error;
  }
  if (schedule.numActions() == 0) {
    diagnostic.violation = Violation::NoActions;
    diagnostic.message = "all " + std::to_string(schedule.rows.size()) + " rows hold idle cells only";
    return diagnostic;
  }
  return schedule;
}

std::string plumb::schedule::toCSV(const Schedule &schedule) {
  std::string text;
  for (const std::vector<Action> &row : schedule.rows) {
    for (size_t cell = 0; cell < row.size(); ++cell) {
      if (cell != 0)
        text += ',';
      text += toString(row[cell]);
    }
    text += '\n';
  }
  return text;
}
