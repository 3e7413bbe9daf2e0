//===- SharedSource.cpp - Inputs from a shared object -------------------------===//

#include "plumb/Runtime/SharedSource.h"

#include "plumb/Runtime/source.h"

#include <dlfcn.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

namespace plumb {
namespace {

class SharedSource : public InputSource {
public:
  SharedSource(const Program &program, std::string file, std::int64_t firstStep)
      : path(std::move(file)), firstStep(firstStep), handles(static_cast<std::size_t>(rankCount(program))) {
    // Without a slash the loader would look in its own folders.
    library.reset(::dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL));
    if (!library)
      throw Failure(path, std::string("cannot load this shared object: ") + ::dlerror());
    interface = static_cast<const plumb_source_interface *>(::dlsym(library.get(), "plumb_source"));
    if (!interface)
      throw Failure(path, "this shared object has no symbol 'plumb_source', see plumb/Runtime/source.h");
    if (interface->version != PLUMB_SOURCE_VERSION)
      throw Failure(path, "the source has version " + std::to_string(interface->version) +
                              " of the interface, but the program " + std::to_string(PLUMB_SOURCE_VERSION) +
                              "; compile it again with the plumb/Runtime/source.h of the program");
    if (!interface->open || !interface->next || !interface->close)
      throw Failure(path, "the source lacks one of the functions open, next and close");
  }

  ~SharedSource() override {
    for (void *handle : handles)
      if (handle)
        interface->close(handle);
  }

  void read(int rank, std::int64_t step, std::span<const InputSlice> slices) override {
    Request request(slices);
    if (!request.slices.empty())
      ask(rank, step, request.slices);
    request.pad(slices);
  }

private:
  using Error = std::array<char, 1024>;

  void ask(int rank, std::int64_t step, std::span<const plumb_slice> slices) {
    // Only its own rank touches a handle.
    void *&handle = handles[static_cast<std::size_t>(rank)];
    Error error{};
    if (!handle) {
      plumb_source_run run{rank, static_cast<int>(handles.size()), firstStep};
      handle = interface->open(&run, error.data(), error.size());
      if (!handle)
        throw failure("cannot be opened", error);
    }
    if (interface->next(handle, step, slices.data(), slices.size(), error.data(), error.size()) != 0)
      throw failure("fails in step " + std::to_string(step + 1), error);
  }

  /// What the shared object is asked for: slices without padding, which goes in afterwards; none that are
  /// nothing but padding.
  struct Request {
    explicit Request(std::span<const InputSlice> wanted) : ranges(wanted.size()), dense(wanted.size()) {
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        const Tensor &input = *wanted[i].input;
        const Slice &slice = wanted[i].slice;
        if (slice.denseBytes() == 0)
          continue;
        for (std::size_t dim = 0; dim < slice.ranges().size(); ++dim) {
          const SliceRange &range = slice.ranges()[dim];
          ranges[i].push_back({input.dims[dim].size, range.begin, range.stride, range.blocks, range.rows});
        }
        if (isPadded(slice))
          dense[i].resize(slice.denseBytes());
        slices.push_back({input.name, input.aliases.empty() ? input.name : input.aliases[0],
                          nameOf(input.dtype), input.rank, ranges[i].data(), wanted[i].microbatch,
                          isPadded(slice) ? dense[i].data() : wanted[i].data, slice.denseBytes()});
      }
    }

    void pad(std::span<const InputSlice> wanted) const {
      for (std::size_t i = 0; i < wanted.size(); ++i)
        if (isPadded(wanted[i].slice))
          wanted[i].slice.pad(dense[i].data(), wanted[i].data);
    }

    static bool isPadded(const Slice &slice) { return slice.bytes() != slice.denseBytes(); }

    std::vector<plumb_slice> slices;
    std::vector<std::vector<plumb_range>> ranges;
    std::vector<std::vector<std::byte>> dense; ///< Of those with padding.
  };

  Failure failure(const std::string &what, const Error &error) const {
    std::string why(error.data(), ::strnlen(error.data(), error.size()));
    return {path, "the source " + what + (why.empty() ? ", and does not say why" : ": " + why)};
  }

  struct Unload {
    void operator()(void *library) const { ::dlclose(library); }
  };

  std::string path;
  std::int64_t firstStep;
  std::unique_ptr<void, Unload> library;
  const plumb_source_interface *interface = nullptr;
  std::vector<void *> handles; ///< By rank; null until it reads.
};

} // namespace

bool isSharedObject(const std::string &path) {
  constexpr std::string_view kMagic = "\x7f"
                                      "ELF";
  char begin[4] = {};
  std::ifstream file(path, std::ios::binary);
  return file.read(begin, sizeof begin) && std::string_view(begin, sizeof begin) == kMagic;
}

std::unique_ptr<InputSource> openSharedSource(const Program &program, const Options &options,
                                              std::int64_t firstStep) {
  return std::make_unique<SharedSource>(program, options.source, firstStep);
}

} // namespace plumb
