#include "plumb/Schedule/Action.h"
#include <array>
#include <charconv>

using namespace plumb::schedule;

const char *plumb::schedule::toString(ActionKind kind) {
  static constexpr std::array names = {"",        "F",           "B",          "I",      "W",
                                       "SEND_F",  "RECV_F",      "SEND_B",     "RECV_B", "UNSHARD",
                                       "RESHARD", "REDUCE_GRAD", "OVERLAP_F_B"};
  return names[static_cast<size_t>(kind)];
}

/// The stage at the other end of a transfer over a chain.
static int neighbour(ActionKind kind, int stage) {
  return kind == ActionKind::SendForward || kind == ActionKind::RecvBackward ? stage + 1 : stage - 1;
}

static void append(std::string &text, const Action &action) {
  text += std::to_string(action.stage);
  text += toString(action.kind);
  if (action.isSharding())
    return;
  text += std::to_string(action.microbatch);
  if (action.isTransfer() && action.peer != neighbour(action.kind, action.stage)) {
    text += action.isSend() ? '>' : '<';
    text += std::to_string(action.peer);
  }
}

std::string plumb::schedule::toString(const Action &action) {
  std::string text;
  if (action.isIdle())
    return text;
  if (action.kind != ActionKind::Overlap) {
    append(text, action);
    return text;
  }
  text += '(';
  append(text, action.first());
  text += ';';
  append(text, action.second());
  text += ')';
  text += toString(ActionKind::Overlap);
  return text;
}

namespace {

/// A strict reader of one action. Every failure names the column (1-based) and what was expected there.
class ActionParser {
public:
  explicit ActionParser(std::string_view text) : whole(text), rest(text) {}

  Result<Action> parse() {
    Action action;
    bool ok = consume('(') ? parsePair(action) : parseSingle(action);
    if (ok && !rest.empty())
      ok = fail("expected the end of the cell");
    if (ok)
      return action;
    Diagnostic diagnostic;
    diagnostic.violation = Violation::BadActionText;
    diagnostic.action = std::string(whole);
    diagnostic.message = "'" + std::string(whole) + "' is not an action: " + error + " at column " +
                         std::to_string(whole.size() - rest.size() + 1) +
                         "; write [stage][kind][microbatch], for example 2F0";
    return diagnostic;
  }

private:
  bool fail(const char *what) {
    error = what;
    return false;
  }

  bool consume(char c) {
    if (rest.empty() || rest.front() != c)
      return false;
    rest.remove_prefix(1);
    return true;
  }

  bool parseNumber(int32_t &number, const char *what) {
    if (rest.empty() || rest.front() < '0' || rest.front() > '9')
      return fail(what);
    auto [end, status] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (status != std::errc())
      return fail("the number is too large");
    rest.remove_prefix(end - rest.data());
    return true;
  }

  bool parseKind(ActionKind &kind) {
    size_t length = 0;
    while (length < rest.size() && ((rest[length] >= 'A' && rest[length] <= 'Z') || rest[length] == '_'))
      ++length;
    std::string_view name = rest.substr(0, length);
    for (int k = static_cast<int>(ActionKind::Forward); k <= static_cast<int>(ActionKind::ReduceGrad); ++k) {
      if (name != toString(static_cast<ActionKind>(k)))
        continue;
      kind = static_cast<ActionKind>(k);
      rest.remove_prefix(length);
      return true;
    }
    return fail("expected one of F B I W SEND_F RECV_F SEND_B RECV_B UNSHARD RESHARD REDUCE_GRAD");
  }

  bool parseSingle(Action &action) {
    if (!parseNumber(action.stage, "expected a stage number") || !parseKind(action.kind))
      return false;
    if (action.isSharding())
      return true;
    if (!parseNumber(action.microbatch, "expected a microbatch number"))
      return false;
    if (!action.isTransfer())
      return true;
    action.peer = neighbour(action.kind, action.stage);
    return !consume(action.isSend() ? '>' : '<') ||
           parseNumber(action.peer, "expected the peer's stage number");
  }

  bool parsePair(Action &action) {
    Action first, second;
    if (!parseSingle(first))
      return false;
    if (first.kind != ActionKind::Forward)
      return fail("expected a forward in the first half of the pair");
    if (!consume(';'))
      return fail("expected ';' between the halves of the pair");
    if (!parseSingle(second))
      return false;
    if (second.kind != ActionKind::Backward && second.kind != ActionKind::InputGrad)
      return fail("expected a B or I in the second half of the pair");
    if (!consume(')'))
      return fail("expected ')' after the pair");
    std::string_view name = toString(ActionKind::Overlap);
    if (rest.substr(0, name.size()) != name)
      return fail("expected OVERLAP_F_B after the pair");
    rest.remove_prefix(name.size());
    action = Action::overlap(first, second);
    return true;
  }

  std::string_view whole, rest;
  std::string error;
};

} // namespace

Result<Action> plumb::schedule::parseAction(std::string_view text) {
  constexpr std::string_view blanks = " \t";
  size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos)
    return Action{};
  return ActionParser(text.substr(begin, text.find_last_not_of(blanks) - begin + 1)).parse();
}
