//===- TensorFiles.h - Tensors in safetensors files ---------------------------===//

#ifndef PLUMB_RUNTIME_TENSORFILES_H
#define PLUMB_RUNTIME_TENSORFILES_H

#include "plumb/Runtime/Program.h"
#include "plumb/Runtime/Safetensors.h"

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plumb {

/// The tensors of one safetensors file, or of all in a folder.
class TensorFiles {
public:
  /// Throws plumb::Failure.
  explicit TensorFiles(const std::string &path);

  const std::string &path() const { return name; }
  /// By name.
  std::span<const std::unique_ptr<SafetensorsFile>> all() const { return files; }
  /// Null if no file has a tensor of that name.
  const TensorView *find(std::string_view tensor) const;
  /// The parameter under its name or one of its aliases.
  const TensorView *find(const Tensor &parameter) const;

private:
  std::string name;
  std::vector<std::unique_ptr<SafetensorsFile>> files;
};

/// Checks that `view`, found in `files`, is what the program needs as `tensor`; null: it has not been found.
/// `hasSteps`: its first dimension is that of steps. Throws plumb::Failure.
void checkView(const TensorFiles &files, const Tensor &tensor, const TensorView *view, bool hasSteps = false);

} // namespace plumb

#endif // PLUMB_RUNTIME_TENSORFILES_H
