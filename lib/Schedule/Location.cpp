#include "plumb/Schedule/Location.h"

std::pair<int, int> plumb::schedule::locateCell(std::string_view text, int rank, int cell) {
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
