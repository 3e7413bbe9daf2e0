//===- TokenSource.cpp - Inputs from a stream of tokens -----------------------===//

#include "plumb/Runtime/TokenSource.h"

#include <algorithm>
#include <cstring>

namespace plumb {
namespace {

constexpr const char *kTokens = "tokens", *kShifts = "shifts";

template <class T>
std::int64_t load(const std::byte *from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return static_cast<std::int64_t>(value);
}

template <class T>
bool store(std::byte *to, std::int64_t token) {
  auto value = static_cast<T>(token);
  std::memcpy(to, &value, sizeof value);
  return value == token;
}

struct TokenType {
  const char *name;
  std::size_t bytes;
  std::int64_t (*load)(const std::byte *);
};
constexpr TokenType kTypes[] = {{"U8", 1, load<std::uint8_t>},
                                {"U16", 2, load<std::uint16_t>},
                                {"U32", 4, load<std::uint32_t>},
                                {"I32", 4, load<std::int32_t>},
                                {"I64", 8, load<std::int64_t>}};

/// One file of the stream.
struct Shard {
  const TensorFile *file;
  const TensorView *view;
  const TokenType *type;
  std::int64_t begin, end; ///< Its tokens, in the stream.
};

std::int64_t elementsOf(const Tensor &input) {
  std::int64_t count = 1;
  for (std::int64_t extent : shapeOf(input))
    count *= extent;
  return count;
}

class TokenSource : public InputSource {
public:
  TokenSource(std::unique_ptr<TensorFiles> opened, const Program &program, std::int64_t steps)
      : files(std::move(opened)), inputs(program.inputs) {
    for (const auto &file : files->all())
      addShard(*file);
    checkInputs();
    readShifts();
    checkLength(steps);
  }

  bool isMapped() const override { return true; }
  void read(int, std::int64_t step, std::span<const InputSlice> slices) override {
    checkLength(step + 1);
    for (const InputSlice &slice : slices) {
      if (slice.slice.bytes() != slice.slice.denseBytes())
        std::fill_n(slice.data, slice.slice.bytes(), std::byte{0});
      auto size = static_cast<std::int64_t>(sizeOf(slice.input->dtype));
      std::int64_t first = step * perStep + shifts[static_cast<std::size_t>(slice.input - inputs.data())];
      slice.slice.forEachRun([&](std::size_t local, std::size_t global, std::size_t bytes) {
        copy(first + static_cast<std::int64_t>(global) / size, static_cast<std::int64_t>(bytes) / size,
             slice.input->dtype, slice.data + local);
      });
    }
  }

private:
  void addShard(const TensorFile &file) {
    const TensorView *view = file.find(kTokens);
    const auto *type = view ? std::ranges::find(kTypes, view->dtype, &TokenType::name) : nullptr;
    if (!view || view->shape.size() != 1 || type == std::end(kTypes))
      throw Failure(
          file.path(),
          view ? "'tokens' is " + view->dtype + " " + describeShape(view->shape) +
                     ", but a stream of tokens has one dimension and the type U8, U16, U32, I32 or I64"
               : "there is no tensor 'tokens', which another file of the folder has");
    std::int64_t begin = shards.empty() ? 0 : shards.back().end;
    shards.push_back({&file, view, type, begin, begin + view->shape[0]});
  }

  void checkInputs() {
    for (const Tensor &input : inputs) {
      std::string what = std::string("input '") + input.name + "' is " + nameOf(input.dtype) + " " +
                         describeShape(shapeOf(input));
      if (input.dtype != DType::I64 && input.dtype != DType::I32)
        throw Failure(files->path(), what + ", but a stream of tokens gives integers only");
      if (elementsOf(input) != elementsOf(inputs[0]))
        throw Failure(files->path(), what + " and '" + inputs[0].name + "' " +
                                         describeShape(shapeOf(inputs[0])) +
                                         ", but a stream of tokens gives all inputs equally many");
    }
    perStep = inputs.empty() ? 0 : elementsOf(inputs[0]);
  }

  void readShifts() {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      shifts.push_back(static_cast<std::int64_t>(i));
    const TensorView *view = files->find(std::string_view(kShifts));
    if (!view)
      return;
    if (view->dtype != nameOf(DType::I64) || view->bytes() != shifts.size() * sizeof(std::int64_t))
      throw Failure(files->path(), "'shifts' is " + view->dtype + " " + describeShape(view->shape) +
                                       ", but the program needs I64 [" + std::to_string(shifts.size()) +
                                       "], one for each input");
    view->copy(0, view->bytes(), reinterpret_cast<std::byte *>(shifts.data()));
    constexpr std::int64_t kMost = std::int64_t(1) << 40;
    if (std::ranges::any_of(shifts, [](std::int64_t shift) { return shift < 0 || shift > kMost; }))
      throw Failure(files->path(), "a number of 'shifts' is not between 0 and 2^40");
  }

  void checkLength(std::int64_t steps) const {
    std::int64_t most = shifts.empty() ? 0 : std::ranges::max(shifts), needed = 0;
    bool fits = !__builtin_mul_overflow(steps, perStep, &needed) &&
                !__builtin_add_overflow(needed, most, &needed) && needed <= shards.back().end;
    if (!fits)
      throw Failure(files->path(), "the stream has " + std::to_string(shards.back().end) + " tokens, but " +
                                       std::to_string(steps) + (steps == 1 ? " step" : " steps") + " of " +
                                       std::to_string(perStep) + ", with inputs shifted by up to " +
                                       std::to_string(most) + ", need more");
  }

  /// Copies `count` tokens of the stream from `token` on.
  void copy(std::int64_t token, std::int64_t count, DType type, std::byte *to) const {
    auto shard = std::ranges::upper_bound(shards, token, {}, &Shard::end);
    auto *put = type == DType::I64 ? store<std::int64_t> : store<std::int32_t>;
    for (; count > 0; ++token, --count, to += sizeOf(type)) {
      while (token >= shard->end)
        ++shard;
      std::byte bytes[sizeof(std::int64_t)];
      std::size_t size = shard->type->bytes;
      shard->view->copy(static_cast<std::size_t>(token - shard->begin) * size, size, bytes);
      std::int64_t value = shard->type->load(bytes);
      if (!put(to, value))
        throw Failure(shard->file->path(), "token " + std::to_string(token - shard->begin) + " is " +
                                               std::to_string(value) + ", which an input of type " +
                                               nameOf(type) + " cannot hold");
    }
  }

  std::unique_ptr<TensorFiles> files;
  std::span<const Tensor> inputs;
  std::vector<Shard> shards;
  std::vector<std::int64_t> shifts; ///< By input.
  std::int64_t perStep = 0;
};

} // namespace

bool hasTokens(const TensorFiles &files) {
  return std::ranges::any_of(files.all(), [](const auto &file) { return file->find(kTokens) != nullptr; });
}

std::unique_ptr<InputSource> openTokenSource(std::unique_ptr<TensorFiles> files, const Program &program,
                                             std::int64_t steps) {
  return std::make_unique<TokenSource>(std::move(files), program, steps);
}

} // namespace plumb
