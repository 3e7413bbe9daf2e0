#include "plumb/Support/Diagnostic.h"

#include <algorithm>
#include <ostream>
#include <sstream>

namespace plumb {

Diagnostic &Diagnostic::note(Place where, std::string text) {
  notes.push_back({Severity::Note, std::move(where), std::move(text), {}});
  return *this;
}

Diagnostic &Diagnostics::add(Diagnostic diagnostic) {
  errors_ += diagnostic.severity == Severity::Error;
  return diagnostics_.emplace_back(std::move(diagnostic));
}

Diagnostic &Diagnostics::error(Place place, std::string message) {
  return add({Severity::Error, std::move(place), std::move(message), {}});
}

Diagnostic &Diagnostics::warning(Place place, std::string message) {
  return add({Severity::Warning, std::move(place), std::move(message), {}});
}

namespace {

struct Style {
  const char *word;
  const char *colour;
};

Style styleOf(Severity severity) {
  switch (severity) {
  case Severity::Error:
    return {"error", "\033[1;31m"};
  case Severity::Warning:
    return {"warning", "\033[1;35m"};
  case Severity::Note:
    break;
  }
  return {"note", "\033[1;36m"};
}

/// Input is quoted in messages: no byte of it may act on the terminal.
std::string printable(std::string text) {
  for (char &c : text)
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n') || c == 0x7F)
      c = ' ';
  return text;
}

/// The line under the text: blanks up to the caret, keeping tabs so that it stays aligned, then `^~~~`. Bytes
/// that continue a UTF-8 character take no column.
void printSnippet(std::ostream &os, const Place &place, bool colour) {
  auto takesColumn = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
  std::string shown = printable(place.text);
  std::string number = std::to_string(place.line);
  std::string margin(std::max<size_t>(number.size(), 4) + 1, ' ');
  os << std::string(margin.size() - 1 - number.size(), ' ') << number << " | " << shown << '\n';
  if (place.column == 0)
    return;

  size_t caret = std::min<size_t>(place.caret, shown.size());
  size_t end = std::min<size_t>(shown.size(), caret + place.width);
  std::string marks;
  for (char c : shown.substr(0, caret))
    if (takesColumn(c))
      marks += c == '\t' ? '\t' : ' ';
  std::string underline = "^";
  for (size_t i = caret + 1; i < end; ++i)
    if (takesColumn(shown[i]))
      underline += '~';
  os << margin << "| " << marks << (colour ? "\033[1;32m" : "") << underline << (colour ? "\033[0m" : "")
     << '\n';
}

void printOne(std::ostream &os, const Diagnostic &diagnostic, bool colour) {
  Style style = styleOf(diagnostic.severity);
  std::string where = printable(diagnostic.place.str());
  if (!where.empty())
    os << (colour ? "\033[1m" : "") << where << ": " << (colour ? "\033[0m" : "");
  os << (colour ? style.colour : "") << style.word << ": " << (colour ? "\033[0m" : "")
     << printable(diagnostic.message) << '\n';
  if (!diagnostic.place.text.empty())
    printSnippet(os, diagnostic.place, colour);
  for (const Diagnostic &note : diagnostic.notes)
    printOne(os, note, colour);
}

} // namespace

void Diagnostics::print(std::ostream &os, bool colour) const {
  for (const Diagnostic &diagnostic : diagnostics_)
    printOne(os, diagnostic, colour);
}

std::string Diagnostics::str() const {
  std::ostringstream os;
  print(os);
  return os.str();
}

} // namespace plumb
