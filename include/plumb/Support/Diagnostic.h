//===- Diagnostic.h - Errors, warnings and notes with places ----*- C++ -*-===//
//
// Everything that Plumb says about its input goes through `Diagnostics`: functions report into it and return
// an empty result; the tool prints it once. The printed form is that of clang:
//
//   plan.json:3:14: error: unknown axis "tpp"; did you mean "tp"?
//      3 |   "layouts": [{"match": "*", "axis": "tpp"}]
//        |                                      ^~~~~
//   plan.json:1:2: note: the mesh is declared here
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_SUPPORT_DIAGNOSTIC_H
#define PLUMB_SUPPORT_DIAGNOSTIC_H

#include "plumb/Support/Source.h"

#include <deque>
#include <iosfwd>
#include <string>
#include <vector>

namespace plumb {

enum class Severity { Error, Warning, Note };

struct Diagnostic {
  Severity severity = Severity::Error;
  Place place;
  std::string message;
  std::vector<Diagnostic> notes;

  /// Adds a note that points at another place (or, with an empty place, at none) and returns this diagnostic.
  Diagnostic &note(Place where, std::string text);
  Diagnostic &note(std::string text) { return note({}, std::move(text)); }
};

/// An ordered collection of diagnostics. References that it returns stay valid while it lives.
class Diagnostics {
public:
  Diagnostic &error(Place place, std::string message);
  Diagnostic &warning(Place place, std::string message);
  Diagnostic &add(Diagnostic diagnostic);

  bool hasErrors() const { return errors_ != 0; }
  size_t errorCount() const { return errors_; }
  const std::deque<Diagnostic> &all() const { return diagnostics_; }

  /// Prints all diagnostics in the order they were reported.
  void print(std::ostream &os, bool colour = false) const;
  std::string str() const;

private:
  std::deque<Diagnostic> diagnostics_;
  size_t errors_ = 0;
};

} // namespace plumb

#endif // PLUMB_SUPPORT_DIAGNOSTIC_H
