//===- SharedSource.cpp - Inputs from a shared object -------------------------===//

#include "plumb/Runtime/SharedSource.h"

#include "plumb/Runtime/source.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <string_view>
#include <thread>
#include <vector>

namespace plumb {
namespace {

/// A loaded source.
struct Library {
  struct Unload {
    void operator()(void *library) const { ::dlclose(library); }
  };
  std::unique_ptr<void, Unload> handle;
  const plumb_source_interface *interface = nullptr;
};

Library load(const std::string &path) {
  Library library;
  // Without a slash the loader would look in its own folders.
  library.handle.reset(::dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!library.handle)
    throw Failure(path, std::string("cannot load this shared object: ") + ::dlerror());
  library.interface =
      static_cast<const plumb_source_interface *>(::dlsym(library.handle.get(), "plumb_source"));
  if (!library.interface)
    throw Failure(path, "this shared object has no symbol 'plumb_source', see plumb/Runtime/source.h");
  if (library.interface->version != PLUMB_SOURCE_VERSION)
    throw Failure(path, "the source has version " + std::to_string(library.interface->version) +
                            " of the interface, but the program " + std::to_string(PLUMB_SOURCE_VERSION) +
                            "; compile it again with the plumb/Runtime/source.h of the program");
  if (!library.interface->open || !library.interface->next || !library.interface->close)
    throw Failure(path, "the source lacks one of the functions open, next and close");
  return library;
}

/// What the functions of a source work on for one rank. It outlives a call that never returns, which has a
/// share in it.
struct Reader {
  std::shared_ptr<const Library> library;
  plumb_source_run run;
  void *source = nullptr; ///< Null until it has been opened.

  /// What is asked for: slices without padding, which goes in afterwards; none that are nothing but padding.
  std::vector<plumb_slice> slices;
  std::vector<std::vector<plumb_range>> ranges;
  std::vector<std::vector<std::byte>> values;

  bool failed = false;
  std::array<char, 1024> error{};

  void prepare(std::span<const InputSlice> wanted) {
    slices.clear();
    ranges.assign(wanted.size(), {});
    values.resize(wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const Tensor &input = *wanted[i].input;
      const Slice &slice = wanted[i].slice;
      values[i].resize(slice.denseBytes());
      if (values[i].empty())
        continue;
      for (std::size_t dim = 0; dim < slice.ranges().size(); ++dim) {
        const SliceRange &range = slice.ranges()[dim];
        ranges[i].push_back({input.dims[dim].size, range.begin, range.stride, range.blocks, range.rows});
      }
      slices.push_back({input.name, input.aliases.empty() ? input.name : input.aliases[0],
                        nameOf(input.dtype), input.rank, ranges[i].data(), wanted[i].microbatch,
                        values[i].data(), values[i].size()});
    }
  }
  void open() {
    source = library->interface->open(&run, error.data(), error.size());
    failed = !source;
  }
  void next(std::int64_t step) {
    failed =
        library->interface->next(source, step, slices.data(), slices.size(), error.data(), error.size()) != 0;
  }
  void close() { library->interface->close(source); }
};

/// Whether a call, which runs on a thread of its own, returns in time. If not it is left to itself.
bool returns(std::function<void()> call, std::chrono::milliseconds time) {
  std::packaged_task<void()> task(std::move(call));
  std::future<void> result = task.get_future();
  std::thread thread(std::move(task));
  if (result.wait_for(time) == std::future_status::timeout) {
    thread.detach();
    return false;
  }
  thread.join();
  result.get();
  return true;
}

class SharedSource : public InputSource {
public:
  /// A call has nine tenths of the time that ranks wait for each other: those that wait for a rank whose
  /// source hangs are to learn that from it.
  SharedSource(const Program &program, std::string file, std::int64_t firstStep, std::chrono::seconds timeout)
      : path(std::move(file)), timeout(timeout), time(std::chrono::milliseconds(timeout) * 9 / 10) {
    auto library = std::make_shared<const Library>(load(path));
    for (int rank = 0; rank < rankCount(program); ++rank)
      readers.push_back(std::make_shared<Reader>(
          Reader{library, {rank, rankCount(program), firstStep}, nullptr, {}, {}, {}}));
  }

  ~SharedSource() override {
    // Where one source hangs, the others may too: a moment must do for them.
    constexpr std::chrono::milliseconds kMoment(100);
    std::chrono::milliseconds left = time;
    for (const auto &reader : readers)
      if (!close(reader, left))
        left = std::min(left, kMoment);
  }

  bool isMapped() const override { return false; }
  void read(int rank, std::int64_t step, std::span<const InputSlice> slices) override {
    // Only its own rank touches a reader.
    std::shared_ptr<Reader> &reader = readers[static_cast<std::size_t>(rank)];
    if (!reader)
      throw Failure(path, "the source has not returned from an earlier call");
    reader->prepare(slices);
    std::string inStep = " in step " + std::to_string(step + 1);
    if (!reader->slices.empty() && !reader->source)
      call(reader, &Reader::open, "'open'" + inStep, "cannot be opened");
    if (!reader->slices.empty())
      call(reader, [step](Reader &self) { self.next(step); }, "'next'" + inStep, "fails" + inStep);
    for (std::size_t i = 0; i < slices.size(); ++i)
      slices[i].slice.pad(reader->values[i].data(), slices[i].data);
  }

private:
  /// Whether it has been closed, if it was open. What goes wrong here changes no result.
  bool close(const std::shared_ptr<Reader> &reader, std::chrono::milliseconds left) const {
    if (!reader || !reader->source)
      return true;
    std::string what = "does not return from 'close'";
    try {
      if (returns([reader] { reader->close(); }, left))
        return true;
    } catch (const std::exception &exception) {
      what = std::string("cannot be closed: ") + exception.what();
    }
    std::fprintf(stderr, "%s: warning: rank %d: the source %s\n", path.c_str(), reader->run.rank,
                 what.c_str());
    return false;
  }

  void call(std::shared_ptr<Reader> &reader, const std::function<void(Reader &)> &function,
            const std::string &what, const std::string &failure) {
    reader->error = {};
    if (!returns([reader, function] { function(*reader); }, time)) {
      reader.reset();
      std::string most = std::to_string(timeout.count()) + " s";
      throw Failure(path, "the source does not return from " + what +
                              "; no call may take longer than nine tenths of --timeout, which is " + most);
    }
    const auto &error = reader->error;
    std::string why(error.data(), ::strnlen(error.data(), error.size()));
    if (reader->failed)
      throw Failure(path, "the source " + failure + (why.empty() ? ", and does not say why" : ": " + why));
  }

  std::string path;
  std::chrono::seconds timeout;
  std::chrono::milliseconds time;               ///< That a call has.
  std::vector<std::shared_ptr<Reader>> readers; ///< By rank; null after a call that has not returned.
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
  return std::make_unique<SharedSource>(program, options.source, firstStep, options.timeout);
}

} // namespace plumb
