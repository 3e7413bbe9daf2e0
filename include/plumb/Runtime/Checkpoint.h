//===- Checkpoint.h - Parameters and optimizer state on disk -------------------===//
//
// A checkpoint is one safetensors file, `step-000000010.safetensors`, with the whole parameters under their
// names, what the optimizer keeps (`optimizer.…`), and `checkpoint.step`. Every rank writes its own slices
// into it, so that it fits any other plan for the model. It appears under its name when all of it is on disk:
// a run that is killed leaves the checkpoints before it, and at most a file `….tmp`, which nothing reads and
// the next one overwrites.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_RUNTIME_CHECKPOINT_H
#define PLUMB_RUNTIME_CHECKPOINT_H

#include "plumb/Runtime/Safetensors.h"
#include "plumb/Runtime/Sources.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace plumb {

/// The newest checkpoint of a folder, or the path itself if it is a file. Throws plumb::Failure if there is
/// none.
std::string findCheckpoint(const std::string &path);
/// The number of steps that a checkpoint has behind it. Throws plumb::Failure if the file is none.
std::int64_t readStep(const TensorFiles &checkpoint);
/// Makes the folder of checkpoints, if it is not there. Throws plumb::Failure if no file can be made in it.
void prepareCheckpoints(const std::string &folder);
/// Keeps other runs out of a folder of checkpoints as long as it lives, where the file system can.
class CheckpointLock {
public:
  /// Throws plumb::Failure if another run has the folder.
  explicit CheckpointLock(const std::string &folder);
  ~CheckpointLock();
  CheckpointLock(const CheckpointLock &) = delete;
  CheckpointLock &operator=(const CheckpointLock &) = delete;

private:
  int file;
};
/// "folder/step-000000010.safetensors".
std::string checkpointPath(const std::string &folder, std::int64_t step);

/// What one rank writes of a checkpoint.
class CheckpointWriter {
public:
  /// Rank 0 makes the file, and the folder; the others join it, and must come later.
  CheckpointWriter(const Program &program, const Options &options, const Sources &sources, int rank,
                   std::int64_t step);

  /// The whole tensor number `index` of the parameters, or of the moments, in the file.
  std::byte *parameter(std::size_t index) { return writer->data(index).data(); }
  std::byte *moment(std::size_t index) { return writer->data(parameters + index).data(); }
  void flush() { writer->flush(); }
  void commit() { writer->commit(); }

private:
  std::size_t parameters;
  std::unique_ptr<SafetensorsWriter> writer;
};

/// Whether it is this rank that writes its slice of a tensor, of all that hold a copy: the first one.
bool isFirstHolder(const Program &program, const Tensor &tensor, std::span<const std::int64_t> coordinates);

} // namespace plumb

#endif // PLUMB_RUNTIME_CHECKPOINT_H
