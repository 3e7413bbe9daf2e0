//===- Sources.h - The files that a run reads ---------------------------------===//

#ifndef PLUMB_RUNTIME_SOURCES_H
#define PLUMB_RUNTIME_SOURCES_H

#include "plumb/Runtime/Options.h"
#include "plumb/Runtime/Program.h"
#include "plumb/Runtime/Safetensors.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plumb {

/// The tensors of one safetensors file, or of all in a folder.
class TensorFiles {
public:
  explicit TensorFiles(const std::string &path);

  const std::string &path() const { return name; }
  /// Null if no file has a tensor of that name.
  const TensorView *find(std::string_view tensor) const;
  /// The parameter under its name or one of its aliases.
  const TensorView *find(const Tensor &parameter) const;

private:
  std::string name;
  std::vector<std::unique_ptr<SafetensorsFile>> files; ///< By name.
};

struct Sources {
  std::unique_ptr<TensorFiles> weights, buffers, inputs; ///< Null where none was given.
  std::unique_ptr<TensorFiles> checkpoint;               ///< That the run goes on from; it is `weights` too.
  std::int64_t firstStep = 0;                            ///< Steps that the checkpoint has behind it.

  /// Where parameters come from.
  const TensorFiles *parameters() const { return checkpoint ? checkpoint.get() : weights.get(); }
  /// Where a buffer or constant that the model does not save comes from: checkpoints have none, and one
  /// among the weights may be an old one. Null: nowhere.
  const TensorFiles *holderOf(const Tensor &nonPersistent) const;
  /// The values of input `tensor` in a step. With one dimension more than the program's, the first is that of
  /// steps.
  const std::byte *input(const Tensor &tensor, std::int64_t step) const;
};

/// Opens the files and checks the program's tables and the files against each other. A driver may give the
/// inputs instead of a file. Throws plumb::Failure.
Sources openSources(const Program &program, const Options &options, bool needsInputs);

/// How many tokens a step reads: the elements of the first input of whole numbers; without one, the rows of
/// the first.
std::int64_t tokensPerStep(const Program &program);

} // namespace plumb

#endif // PLUMB_RUNTIME_SOURCES_H
