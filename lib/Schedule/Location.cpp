#include "plumb/Schedule/Location.h"
#include <algorithm>

bool plumb::schedule::isJSON(std::string_view text) {
  size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

/// In valid JSON: the texts of actions hold no brackets and no quotes.
static std::pair<int, int> locateInJSON(std::string_view text, int rank, int cell) {
  auto next = [&](size_t from, const char *mark) {
    return from == std::string_view::npos ? from : text.find(mark, from);
  };
  size_t at = next(next(0, "\"actions\""), "[");
  at = next(at == std::string_view::npos ? at : at + 1, "[");
  for (int i = 0; i < rank; ++i)
    at = next(at == std::string_view::npos ? at : at + 1, "[");
  for (int i = 0; i < 2 * cell + 1; ++i)
    at = next(at == std::string_view::npos ? at : at + 1, "\"");
  if (at == std::string_view::npos)
    return {1, 0};
  size_t line = text.rfind('\n', at) == std::string_view::npos ? 0 : text.rfind('\n', at) + 1;
  return {static_cast<int>(std::count(text.begin(), text.begin() + static_cast<long>(at), '\n')) + 1,
          cell < 0 ? 0 : static_cast<int>(at - line) + 1};
}

std::pair<int, int> plumb::schedule::locateCell(std::string_view text, int rank, int cell) {
  if (isJSON(text))
    return locateInJSON(text, rank, cell);
  size_t row = 0;
  for (int i = 0; i < rank && row != std::string_view::npos; ++i)
    row = text.find('\n', row) == std::string_view::npos ? std::string_view::npos : text.find('\n', row) + 1;
  if (cell < 0 || row == std::string_view::npos)
    return {rank + 1, 0};
  size_t begin = row;
  for (int i = 0; i < cell && begin != std::string_view::npos; ++i)
    begin =
        text.find(',', begin) == std::string_view::npos ? std::string_view::npos : text.find(',', begin) + 1;
  return {rank + 1, begin == std::string_view::npos ? 0 : static_cast<int>(begin - row) + 1};
}
