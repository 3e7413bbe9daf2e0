//===- Collector.h - Gathering results to full tensors -----------------------===//

#ifndef PLUMB_RUNTIME_COLLECTOR_H
#define PLUMB_RUNTIME_COLLECTOR_H

#include "plumb/Runtime/Layout.h"
#include "plumb/Runtime/Safetensors.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace plumb {

class TensorFiles;

/// A tensor that `--save` writes. Outputs and gradients are taken after the first step, parameters after the
/// last.
struct Result {
  enum Kind { Output, Gradient, Parameter } kind;
  const Tensor *tensor;
  std::vector<std::string> names; ///< In the file; the first is the canonical one.
};

/// All results, in an order that every rank agrees on.
std::vector<Result> resultsOf(const Program &program);
/// No rank holds the tensor.
bool isUnused(const Tensor &tensor);

/// The local slice of one rank (of one microbatch).
struct Piece {
  std::size_t result; ///< Index in resultsOf().
  int rank;
  std::int64_t microbatch;
  std::span<const std::byte> data;
};

/// Puts the pieces of all ranks into one file. May be called from several threads.
class Collector {
public:
  /// `weights` may be null; unused parameters are copied from it.
  Collector(const Program &program, std::string path, std::int64_t steps, const TensorFiles *weights);

  /// Throws plumb::Failure if the piece is a replica of an earlier one of a parameter and differs from it.
  void add(const Piece &piece);
  void addLoss(std::int64_t step, float loss);
  /// The file appears under its name. All pieces must have been added.
  void commit();

private:
  std::vector<SafetensorsWriter::Entry> entries() const;

  const Program &program;
  std::vector<Result> results;
  std::int64_t steps;
  std::vector<std::size_t> firstEntry; ///< Per result: its entry in the file; its aliases follow.
  SafetensorsWriter writer;
  std::mutex mutex;
  /// The rank that delivered a slice first, per result.
  std::vector<std::map<Slice, int>> delivered;
};

} // namespace plumb

#endif // PLUMB_RUNTIME_COLLECTOR_H
