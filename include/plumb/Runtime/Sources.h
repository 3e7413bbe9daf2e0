//===- Sources.h - The files that a run reads ---------------------------------===//

#ifndef PLUMB_RUNTIME_SOURCES_H
#define PLUMB_RUNTIME_SOURCES_H

#include "plumb/Runtime/InputSource.h"
#include "plumb/Runtime/Options.h"
#include "plumb/Runtime/Program.h"
#include "plumb/Runtime/TensorFiles.h"

#include <cstdint>
#include <memory>

namespace plumb {

struct Sources {
  // Null where none was given.
  std::unique_ptr<TensorFiles> weights, buffers;
  std::unique_ptr<TensorFiles> checkpoint; ///< That the run goes on from; it is `weights` too.
  std::unique_ptr<InputSource> inputs;
  std::int64_t firstStep = 0; ///< Steps that the checkpoint has behind it.

  /// Where parameters come from.
  const TensorFiles *parameters() const { return checkpoint ? checkpoint.get() : weights.get(); }
  /// Where a buffer or constant that the model does not save comes from: checkpoints have none, and one
  /// among the weights may be an old one. Null: nowhere.
  const TensorFiles *holderOf(const Tensor &nonPersistent) const;
};

/// Opens what the command line names and checks it and the program's tables against each other. A driver may
/// give the inputs instead. Throws plumb::Failure.
Sources openSources(const Program &program, const Options &options, bool needsInputs);

/// How many tokens a step reads: the elements of the first input of whole numbers; without one, the rows of
/// the first.
std::int64_t tokensPerStep(const Program &program);

} // namespace plumb

#endif // PLUMB_RUNTIME_SOURCES_H
