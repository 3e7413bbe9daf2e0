//===- Checkpoint.cpp - Parameters and optimizer state on disk -----------------===//

#include "plumb/Runtime/Checkpoint.h"

#include "plumb/Runtime/Collector.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <system_error>
#include <unistd.h>

namespace plumb {

static constexpr const char *kStep = "checkpoint.step", *kPrefix = "step-", *kSuffix = ".safetensors";

std::string checkpointPath(const std::string &folder, std::int64_t step) {
  char name[40];
  std::snprintf(name, sizeof name, "%s%09lld%s", kPrefix, static_cast<long long>(step), kSuffix);
  return folder + "/" + name;
}

void prepareCheckpoints(const std::string &folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw Failure(folder, "cannot make the folder: " + error.message());
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    throw Failure(folder, std::string("no file can be made in the folder: ") + std::strerror(errno));
}

CheckpointLock::CheckpointLock(const std::string &folder)
    : file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (file < 0 || ::flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
    return;
  ::close(file);
  throw Failure(folder, "another run writes its checkpoints into this folder");
}

CheckpointLock::~CheckpointLock() {
  if (file >= 0)
    ::close(file);
}

std::string findCheckpoint(const std::string &path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error))
    return path;
  std::string newest;
  for (const auto &entry : std::filesystem::directory_iterator(path, error))
    if (std::string name = entry.path().filename().string();
        name.starts_with(kPrefix) && name.ends_with(kSuffix))
      newest = std::max(newest, name);
  if (newest.empty())
    throw Failure(path, std::string("there is no checkpoint (") + kPrefix + "…" + kSuffix + ")");
  return path + "/" + newest;
}

std::int64_t readStep(const TensorFiles &checkpoint) {
  const TensorView *view = checkpoint.find(std::string_view(kStep));
  std::int64_t step = -1;
  if (view && view->dtype == nameOf(DType::I64) && view->shape.empty())
    view->copy(0, sizeof step, reinterpret_cast<std::byte *>(&step));
  if (step < 0)
    throw Failure(checkpoint.path(), std::string("this is no checkpoint: it has no '") + kStep +
                                         "'; give weights with --weights");
  return step;
}

bool isFirstHolder(const Program &program, const Tensor &tensor, std::span<const std::int64_t> coordinates) {
  for (std::size_t axis = 0; axis < program.mesh.size(); ++axis) {
    // What is left of the coordinate without the digits that cut the tensor.
    std::int64_t rest = coordinates[axis], whole = program.mesh[axis].size, first = 0;
    for (int dim = 0; dim < tensor.rank; ++dim)
      for (const AxisFactor &factor : tensor.dims[dim].axes)
        if (factor.axis == static_cast<int>(axis)) {
          std::int64_t size = factor.size ? factor.size : whole, stride = whole / (factor.pre * size);
          rest -= coordinates[axis] / stride % size * stride;
        }
    if (static_cast<int>(axis) == program.pipelineAxis)
      first = std::ranges::find_if(tensor.offsets, [](std::size_t offset) { return offset != kAbsent; }) -
              tensor.offsets.begin();
    if (rest != first)
      return false;
  }
  return true;
}

CheckpointWriter::CheckpointWriter(const Program &program, const Options &options, const Sources &sources,
                                   int rank, std::int64_t step)
    : parameters(program.parameters.size()) {
  if (rank == 0)
    prepareCheckpoints(options.checkpoint);
  std::vector<SafetensorsWriter::Entry> entries;
  for (std::span<const Tensor> tensors : {program.parameters, program.moments})
    for (const Tensor &tensor : tensors)
      entries.push_back({tensor.name, nameOf(tensor.dtype), shapeOf(tensor)});
  entries.push_back({kStep, nameOf(DType::I64), {}});
  std::size_t last = entries.size() - 1;
  writer =
      std::make_unique<SafetensorsWriter>(checkpointPath(options.checkpoint, step), std::move(entries),
                                          rank == 0 ? SafetensorsWriter::First : SafetensorsWriter::Other);
  if (rank != 0)
    return;
  std::memcpy(writer->data(last).data(), &step, sizeof step);
  // What the model never reads is on no rank.
  for (std::size_t i = 0; i < parameters; ++i)
    if (isUnused(program.parameters[i]))
      if (const TensorView *view = sources.parameters()->find(program.parameters[i]))
        view->copy(0, view->bytes(), parameter(i));
}

} // namespace plumb
