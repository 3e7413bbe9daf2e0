#include "plumb/Schedule/Schedule.h"
#include "plumb/Schedule/Location.h"
#include <algorithm>
#include <nlohmann/json.hpp>

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

static std::optional<Diagnostic> parseCell(std::string_view text, int rank, std::vector<Action> &row) {
  Result<Action> action = parseAction(text);
  if (action) {
    row.push_back(*action);
    return std::nullopt;
  }
  Diagnostic diagnostic = action.diagnostic();
  diagnostic.rank = rank;
  diagnostic.cell = static_cast<int>(row.size());
  return diagnostic;
}

static std::optional<Diagnostic> parseRow(std::string_view line, int rank, std::vector<Action> &row) {
  while (true) {
    size_t comma = line.find(',');
    if (std::optional<Diagnostic> error = parseCell(line.substr(0, comma), rank, row))
      return error;
    if (comma == std::string_view::npos)
      return std::nullopt;
    line.remove_prefix(comma + 1);
  }
}

static Result<Schedule> requireActions(Schedule schedule) {
  if (schedule.numActions() > 0)
    return schedule;
  Diagnostic diagnostic;
  diagnostic.violation = Violation::NoActions;
  diagnostic.message = "all " + std::to_string(schedule.rows.size()) + " rows hold idle cells only";
  return diagnostic;
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
  return requireActions(std::move(schedule));
}

static Diagnostic badDocument(const std::string &message) {
  Diagnostic diagnostic;
  diagnostic.violation = Violation::BadActionText;
  diagnostic.message = message;
  return diagnostic;
}

Result<Schedule> plumb::schedule::parseJSON(std::string_view text) {
  nlohmann::json document = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  auto isTexts = [](const nlohmann::json &row) {
    return row.is_array() &&
           std::all_of(row.begin(), row.end(), [](const auto &cell) { return cell.is_string(); });
  };
  if (document.is_discarded())
    return badDocument("this is not JSON; write {\"actions\": [[\"0F0\", ...], ...]}, or CSV");
  if (!document.is_object() || !document.contains("actions") || !document["actions"].is_array() ||
      !std::all_of(document["actions"].begin(), document["actions"].end(), isTexts))
    return badDocument("there is no list of texts per rank called \"actions\"");
  Schedule schedule;
  for (const nlohmann::json &cells : document["actions"]) {
    int rank = static_cast<int>(schedule.rows.size());
    std::vector<Action> &row = schedule.rows.emplace_back();
    for (const nlohmann::json &cell : cells)
      if (std::optional<Diagnostic> error = parseCell(cell.get_ref<const std::string &>(), rank, row))
        return *error;
  }
  return requireActions(std::move(schedule));
}

Result<Schedule> plumb::schedule::parse(std::string_view text) {
  return isJSON(text) ? parseJSON(text) : parseCSV(text);
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
