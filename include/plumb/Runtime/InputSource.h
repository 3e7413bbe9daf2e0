//===- InputSource.h - Where the inputs of steps come from --------------------===//

#ifndef PLUMB_RUNTIME_INPUTSOURCE_H
#define PLUMB_RUNTIME_INPUTSOURCE_H

#include "plumb/Runtime/Layout.h"
#include "plumb/Runtime/Options.h"
#include "plumb/Runtime/Program.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace plumb {

/// The slice of an input that one rank holds of one microbatch, and where its values go: `slice.bytes()`,
/// padding included.
struct InputSlice {
  const Tensor *input;
  Slice slice;
  std::int64_t microbatch;
  std::byte *data;
};

class InputSource {
public:
  virtual ~InputSource() = default;
  /// Fills the slices of a rank with the values of a step; steps count from 0, those before a checkpoint
  /// included. Several ranks may call this at once; one that reads nothing never does. Throws plumb::Failure.
  virtual void read(int rank, std::int64_t step, std::span<const InputSlice> slices) = 0;
  /// Whether it reads from mapped files, for which one need not fear to wait.
  virtual bool isMapped() const = 0;
};

/// Throws plumb::Failure if a slice of indices names a row that its reader does not have.
void checkIndices(std::int64_t step, std::span<const InputSlice> slices);

/// Opens what `--source` names, and checks that it fits the program. Its content says what it is: safetensors
/// with the inputs' own tensors, or with a stream of tokens, in one file or a folder of them; or a shared
/// object (source.h). `firstStep` is the first one that will be read. Throws plumb::Failure.
std::unique_ptr<InputSource> openInputSource(const Program &program, const Options &options,
                                             std::int64_t firstStep);

} // namespace plumb

#endif // PLUMB_RUNTIME_INPUTSOURCE_H
