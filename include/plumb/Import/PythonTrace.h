//===- PythonTrace.h - Where in the Python model a node comes from -*- C++ -*-===//

#ifndef PLUMB_IMPORT_PYTHONTRACE_H
#define PLUMB_IMPORT_PYTHONTRACE_H

#include "plumb/Support/Source.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plumb::pt2 {

struct PythonFrame {
  std::string file;
  unsigned line = 0;
  std::string function;
  std::string code; ///< The text of the line, trimmed; may be empty.

  /// `model.py:21`, with the directory as recorded.
  std::string str() const { return file + ":" + std::to_string(line); }
  Place place() const { return {file, line, 0, code}; }
};

/// One level of a module stack.
struct ModuleCall {
  std::string fqn;   ///< Empty for the root.
  unsigned call = 0; ///< 0 for the first call of the module, then 1, 2, ...
  std::string type;  ///< `torch.nn.modules.linear.Linear`.

  /// `h.0.attn`, or `h.0.attn@1` for the second call.
  std::string str() const { return call ? fqn + "@" + std::to_string(call) : fqn; }
};

/// The frames of a Python stack trace, outermost first. Lines that are no frame are skipped.
std::vector<PythonFrame> parseStackTrace(std::string_view text);

/// The innermost frame outside torch's own packages, which is the line that the model's author wrote; the
/// innermost one if all are torch's; none if there is no frame.
std::optional<PythonFrame> userFrame(std::string_view stackTrace);

/// Splits `fqn@k` into its name and call number.
ModuleCall parseModuleName(std::string_view name);

/// Reads a `;`-joined `nn_module_stack` of `key,path,type` entries, outermost first.
std::vector<ModuleCall> parseModuleStack(std::string_view text);

} // namespace plumb::pt2

#endif // PLUMB_IMPORT_PYTHONTRACE_H
