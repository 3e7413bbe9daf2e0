//===- Fixtures.h - Published schedule data -------------------------------===//

#ifndef PLUMB_UNIT_SCHEDULE_FIXTURES_H
#define PLUMB_UNIT_SCHEDULE_FIXTURES_H

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace plumb::schedule::fixtures {

inline std::string read(const std::string &name) {
  std::ifstream file(PLUMB_SCHEDULE_FIXTURES + name, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == separator)
      parts.emplace_back();
    else if (c != '\r')
      parts.back() += c;
  }
  return parts;
}

/// The rows of a table with a header, each as column -> text.
inline std::vector<std::map<std::string, std::string>> readTable(const std::string &name) {
  std::vector<std::map<std::string, std::string>> rows;
  std::vector<std::string> lines = split(read(name), '\n'), columns = split(lines.at(0), ',');
  for (size_t i = 1; i < lines.size(); ++i) {
    std::vector<std::string> cells = split(lines[i], ',');
    if (cells.size() < columns.size())
      continue;
    for (size_t column = 0; column < columns.size(); ++column)
      rows.resize(i), rows.back()[columns[column]] = cells[column];
  }
  return rows;
}

} // namespace plumb::schedule::fixtures

#endif // PLUMB_UNIT_SCHEDULE_FIXTURES_H
