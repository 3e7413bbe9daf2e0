//===- InputSource.cpp - Where the inputs of steps come from ------------------===//

#include "plumb/Runtime/InputSource.h"

#include "plumb/Runtime/SharedSource.h"
#include "plumb/Runtime/TensorFiles.h"
#include "plumb/Runtime/TokenSource.h"

#include <cstring>
#include <ranges>
#include <utility>

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

  bool isMapped() const override { return true; }
  void read(int, std::int64_t step, std::span<const InputSlice> slices) override {
    for (const InputSlice &slice : slices) {
      const TensorView &view = *files->find(std::string_view(slice.input->name));
      slice.slice.gather(view, slice.data, offsetOf(*slice.input, view, step));
    }
  }

private:
  static bool hasStepDimension(const Tensor &input, const TensorView &view) {
    return view.shape.size() == static_cast<std::size_t>(input.rank) + 1;
  }

  Failure tooFew(const Tensor &input, std::int64_t held, const std::string &wanted) const {
    return {files->path(), std::string("tensor '") + input.name + "' holds " + std::to_string(held) +
                               " steps, but " + wanted};
  }

  /// Where the values of a step begin.
  std::size_t offsetOf(const Tensor &input, const TensorView &view, std::int64_t step) const {
    if (!hasStepDimension(input, view))
      return 0;
    // The loop of a caller of the C library ends where it likes.
    if (step >= view.shape[0])
      throw tooFew(input, view.shape[0], "step " + std::to_string(step + 1) + " is to run");
    return view.bytes() / static_cast<std::size_t>(view.shape[0]) * static_cast<std::size_t>(step);
  }

  std::unique_ptr<TensorFiles> files;
};

template <class T>
std::int64_t valueAt(const std::byte *at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<std::int64_t>(value);
}

/// "[3, 17]": the place of an element by its number in the global tensor.
std::string describePlace(const Tensor &tensor, std::size_t element) {
  std::vector<std::int64_t> place = shapeOf(tensor);
  for (std::int64_t &number : std::views::reverse(place)) {
    std::int64_t size = std::exchange(number, static_cast<std::int64_t>(element) % number);
    element /= static_cast<std::size_t>(size);
  }
  return describeShape(place);
}

[[noreturn]] void refuse(std::int64_t step, const Tensor &input, std::size_t element, std::int64_t value) {
  const IndexRange &range = *input.indices;
  std::string name = input.aliases.empty() ? "" : std::string(" '") + input.aliases.front() + "'";
  throw Failure("step " + std::to_string(step + 1) + ": " + input.name + name + " is " +
                std::to_string(value) + " at " + describePlace(input, element) + ", which " + range.reader +
                " takes as an index: it must be 0 to " + std::to_string(range.count - 1) +
                (range.ignores ? ", or " + std::to_string(range.ignored) + ", which is ignored" : ""));
}

template <class T>
void checkIndicesOf(std::int64_t step, const InputSlice &slice) {
  const IndexRange range = *slice.input->indices;
  slice.slice.forEachRun([&](std::size_t local, std::size_t global, std::size_t bytes) {
    for (std::size_t at = 0; at < bytes; at += sizeof(T)) {
      std::int64_t value = valueAt<T>(slice.data + local + at);
      bool isFine = (value >= 0 && value < range.count) || (range.ignores && value == range.ignored);
      if (!isFine) [[unlikely]]
        refuse(step, *slice.input, (global + at) / sizeof(T), value);
    }
  });
}

} // namespace

void checkIndices(std::int64_t step, std::span<const InputSlice> slices) {
  for (const InputSlice &slice : slices)
    if (slice.input->indices && slice.input->dtype == DType::I64)
      checkIndicesOf<std::int64_t>(step, slice);
    else if (slice.input->indices && slice.input->dtype == DType::I32)
      checkIndicesOf<std::int32_t>(step, slice);
}

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
