//===- SplitLayout.cpp - Layout strings of Megatron --------------------------===//

#include "SplitLayout.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace plumb {

/// No model has more layers; what a string may grow to.
static constexpr size_t kLongestLayout = 100000;
static constexpr int kDeepestNesting = 100;

namespace {

class LayoutReader {
public:
  explicit LayoutReader(StringRef text) : text(text) {}

  /// The string without repetitions, or an error.
  Expected<std::string> expand() {
    Expected<std::string> result = sequence(0);
    if (result && position < text.size())
      return error("has a ')' without its '('");
    return result;
  }

private:
  Error error(const Twine &message) const {
    return createStringError("the layout string \"" + text + "\" " + message + ", at character " +
                             Twine(position + 1));
  }

  void skipBlanks() {
    while (position < text.size() && (text[position] == ',' || isSpace(text[position])))
      ++position;
  }

  Expected<std::string> sequence(int depth) {
    std::string result;
    for (skipBlanks(); position < text.size() && text[position] != ')'; skipBlanks()) {
      Expected<std::string> item = element(depth);
      if (!item)
        return item;
      result += *item;
      if (result.size() > kLongestLayout)
        return error("stands for more than " + Twine(kLongestLayout) + " layers");
    }
    return result;
  }

  Expected<std::string> element(int depth) {
    std::string item;
    if (text[position] == '(') {
      if (depth == kDeepestNesting)
        return error("is nested too deeply");
      ++position;
      Expected<std::string> group = sequence(depth + 1);
      if (!group)
        return group;
      if (position == text.size())
        return error("has a '(' without its ')'");
      item = *group;
    } else if (StringRef("EtmL|").contains(text[position])) {
      item = text[position];
    } else {
      return error(Twine("has '") + text.substr(position, 1) + "'; expected E, t, m, L, |, ( or a comma");
    }
    ++position;
    return repeated(std::move(item));
  }

  Expected<std::string> repeated(std::string item) {
    if (position == text.size() || text[position] != '*')
      return item;
    StringRef digits = text.substr(++position).take_while(isDigit);
    size_t times = 0;
    if (digits.empty() || digits.getAsInteger(10, times) || times == 0)
      return error("has '*' without a number of times");
    if (times * item.size() > kLongestLayout || times > kLongestLayout)
      return error("stands for more than " + Twine(kLongestLayout) + " layers");
    position += digits.size();
    std::string result;
    for (size_t time = 0; time < times; ++time)
      result += item;
    return result;
  }

  StringRef text;
  size_t position = 0;
};

} // namespace

Expected<std::vector<std::string>> parseSplitLayout(StringRef text) {
  Expected<std::string> expanded = LayoutReader(text).expand();
  if (!expanded)
    return expanded.takeError();
  auto error = [&](const Twine &message) {
    return createStringError("the layout string \"" + text + "\" " + message);
  };
  std::string letters = *expanded;
  erase_if(letters, [](char letter) { return letter == '|'; });
  size_t layers = letters.find_first_not_of('t', 1), predictors = letters.find_first_not_of('m', layers);
  if (letters.empty() || letters[0] != 'E' || predictors != letters.size() - 1 || letters.back() != 'L')
    return error("must be one E, then layers t, then layers m, if any, then one L");
  SmallVector<StringRef> stages;
  StringRef(*expanded).split(stages, '|');
  std::vector<std::string> result;
  for (StringRef stage : stages) {
    if (stage.empty())
      return error("has an empty stage, the one with the number " + Twine(result.size()));
    result.push_back(stage.str());
  }
  return result;
}

} // namespace plumb
