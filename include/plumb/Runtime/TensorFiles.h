//===- TensorFiles.h - The files of one set of tensors ------------------------===//

#ifndef PLUMB_RUNTIME_TENSORFILES_H
#define PLUMB_RUNTIME_TENSORFILES_H

#include "plumb/Runtime/Program.h"
#include "plumb/Runtime/TensorFile.h"

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plumb {

/// The tensors of one file (safetensors, or an archive of torch.export.save); of all safetensors files in a
/// folder; or of those that the index of a sharded checkpoint names, a JSON file with the member
/// "weight_map" from names of tensors to files beside it. The content of a file says what it is.
class TensorFiles {
public:
  /// Throws plumb::Failure.
  explicit TensorFiles(const std::string &path);

  const std::string &path() const { return name; }
  /// By name.
  std::span<const std::unique_ptr<TensorFile>> all() const { return files; }
  /// Null if no file has a tensor of that name. Throws plumb::Failure if several have.
  const TensorView *find(std::string_view tensor) const;
  /// The parameter under its name or one of its aliases.
  const TensorView *find(const Tensor &parameter) const;
  /// Why a tensor that a file names under one of these names cannot be read, after its name; empty otherwise.
  std::string whyUnreadable(const Tensor &parameter) const;

private:
  void openAll(const std::vector<std::string> &paths);
  void openIndex();

  std::string name;
  std::vector<std::unique_ptr<TensorFile>> files;
  std::map<std::string, std::vector<std::pair<const TensorFile *, const TensorView *>>, std::less<>> holders;
};

/// Checks that `view`, found in `files`, is what the program needs as `tensor`; null: it has not been found.
/// `hasSteps`: its first dimension is that of steps. Throws plumb::Failure.
void checkView(const TensorFiles &files, const Tensor &tensor, const TensorView *view, bool hasSteps = false);

} // namespace plumb

#endif // PLUMB_RUNTIME_TENSORFILES_H
