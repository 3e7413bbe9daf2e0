#include "plumb/Import/PythonTrace.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace plumb::pt2 {

static std::string_view trim(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos)
    return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

template <typename Visit>
static void forEachPiece(std::string_view text, char separator, Visit visit) {
  while (!text.empty()) {
    size_t end = std::min(text.find(separator), text.size());
    visit(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

/// Reads `File "NAME", line N, in FUNCTION`.
static std::optional<PythonFrame> parseFrame(std::string_view line) {
  constexpr std::string_view opening = "File \"", middle = "\", line ", in = ", in ";
  if (line.substr(0, opening.size()) != opening)
    return std::nullopt;
  line.remove_prefix(opening.size());
  size_t nameEnd = line.rfind(middle);
  if (nameEnd == std::string_view::npos)
    return std::nullopt;
  PythonFrame frame;
  frame.file = line.substr(0, nameEnd);
  line.remove_prefix(nameEnd + middle.size());
  auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), frame.line);
  if (error != std::errc())
    return std::nullopt;
  line.remove_prefix(rest - line.data());
  if (line.substr(0, in.size()) == in)
    frame.function = line.substr(in.size());
  return frame;
}

std::vector<PythonFrame> parseStackTrace(std::string_view text) {
  std::vector<PythonFrame> frames;
  forEachPiece(text, '\n', [&](std::string_view line) {
    line = trim(line);
    if (std::optional<PythonFrame> frame = parseFrame(line))
      frames.push_back(std::move(*frame));
    else if (!frames.empty() && frames.back().code.empty())
      frames.back().code = line;
  });
  return frames;
}

/// An installed torch lies in site-packages or dist-packages; a checkout is told by the folders of its
/// package.
static bool isTorchFile(std::string_view file) {
  if (file.find("-packages/torch/") != std::string_view::npos)
    return true;
  static constexpr std::array<std::string_view, 9> folders = {
      "nn/", "_", "fx/", "export/", "distributed/", "utils/", "autograd/", "ao/", "functional.py"};
  constexpr std::string_view package = "/torch/";
  for (size_t at = file.find(package); at != std::string_view::npos; at = file.find(package, at + 1)) {
    std::string_view rest = file.substr(at + package.size());
    if (std::any_of(folders.begin(), folders.end(),
                    [&](std::string_view folder) { return rest.substr(0, folder.size()) == folder; }))
      return true;
  }
  return false;
}

std::optional<PythonFrame> userFrame(std::string_view stackTrace) {
  std::vector<PythonFrame> frames = parseStackTrace(stackTrace);
  if (frames.empty())
    return std::nullopt;
  auto user =
      std::find_if(frames.rbegin(), frames.rend(), [](const PythonFrame &f) { return !isTorchFile(f.file); });
  return user == frames.rend() ? frames.back() : *user;
}

ModuleCall parseModuleName(std::string_view name) {
  ModuleCall module;
  size_t at = name.rfind('@');
  if (at != std::string_view::npos) {
    const char *end = name.data() + name.size();
    auto [rest, error] = std::from_chars(name.data() + at + 1, end, module.call);
    if (error == std::errc() && rest == end)
      name = name.substr(0, at);
    else
      module.call = 0;
  }
  module.fqn = name;
  return module;
}

std::vector<ModuleCall> parseModuleStack(std::string_view text) {
  std::vector<ModuleCall> stack;
  forEachPiece(text, ';', [&](std::string_view entry) {
    // The type may contain commas; key and path cannot.
    size_t first = std::min(entry.find(','), entry.size());
    std::string_view key = entry.substr(0, first);
    std::string_view rest = entry.substr(std::min(first + 1, entry.size()));
    size_t second = std::min(rest.find(','), rest.size());
    ModuleCall module = parseModuleName(rest.substr(0, second));
    // Depending on the version of torch, the call number stands at the path or only at the key.
    if (module.call == 0)
      module.call = parseModuleName(key).call;
    module.type = rest.substr(std::min(second + 1, rest.size()));
    stack.push_back(std::move(module));
  });
  return stack;
}

} // namespace plumb::pt2
