//===- InputSource.cpp - Where the inputs of steps come from ------------------===//

#include "plumb/Runtime/InputSource.h"

#include "plumb/Runtime/SharedSource.h"
#include "plumb/Runtime/TensorFiles.h"
#include "plumb/Runtime/TokenSource.h"

namespace plumb {
namespace {

/// Each input is a tensor of its own name. With one dimension more than the program's, the first is that of
/// steps; otherwise all steps read the same.
class TensorSource : public InputSource {
public:
  TensorSource(std::unique_ptr<TensorFiles> opened, const Program &program, std::int64_t steps)
      : files(std::move(opened)) {
    for (const Tensor &input : program.inputs) {
      const TensorView *view = files->find(std::string_view(input.name));
      bool hasSteps = view && hasStepDimension(input, *view);
      checkView(*files, input, view, hasSteps);
      if (hasSteps && view->shape[0] < steps)
        throw tooFew(input, view->shape[0], std::to_string(steps) + " are to run");
    }
  }

  void read(int, std::int64_t step, std::span<const InputSlice> slices) override {
    for (const InputSlice &slice : slices)
      slice.slice.gather(find(*slice.input, step), slice.data);
  }

private:
  static bool hasStepDimension(const Tensor &input, const TensorView &view) {
    return view.shape.size() == static_cast<std::size_t>(input.rank) + 1;
  }

  Failure tooFew(const Tensor &input, std::int64_t held, const std::string &wanted) const {
    return {files->path(), std::string("tensor '") + input.name + "' holds " + std::to_string(held) +
                               " steps, but " + wanted};
  }

  const std::byte *find(const Tensor &input, std::int64_t step) const {
    const TensorView &view = *files->find(std::string_view(input.name));
    if (!hasStepDimension(input, view))
      return view.data.data();
    // The loop of a caller of the C library ends where it likes.
    if (step >= view.shape[0])
      throw tooFew(input, view.shape[0], "step " + std::to_string(step + 1) + " is to run");
    return view.data.data() +
           view.data.size() / static_cast<std::size_t>(view.shape[0]) * static_cast<std::size_t>(step);
  }

  std::unique_ptr<TensorFiles> files;
};

} // namespace

std::unique_ptr<InputSource> openInputSource(const Program &program, const Options &options,
                                             std::int64_t firstStep) {
  if (isSharedObject(options.source))
    return openSharedSource(program, options, firstStep);
  auto files = std::make_unique<TensorFiles>(options.source);
  if (hasTokens(*files))
    return openTokenSource(std::move(files), program, options.steps);
  return std::make_unique<TensorSource>(std::move(files), program, options.steps);
}

} // namespace plumb
