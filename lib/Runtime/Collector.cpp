//===- Collector.cpp - Gathering results to full tensors ---------------------===//

#include "plumb/Runtime/Collector.h"

#include "plumb/Runtime/Sources.h"

#include <algorithm>
#include <cstring>

namespace plumb {

bool isUnused(const Tensor &tensor) {
  return std::ranges::all_of(tensor.offsets, [](std::size_t offset) { return offset == kAbsent; });
}

std::vector<Result> resultsOf(const Program &program) {
  std::vector<Result> results;
  for (const Tensor &output : program.outputs) {
    // Values that were asked for by the name of their module keep it.
    bool isDump = !output.aliases.empty() && std::string_view(output.aliases[0]).starts_with("dump.");
    results.push_back({Result::Output, &output, {isDump ? output.aliases[0] : output.name}});
  }
  auto add = [&](Result::Kind kind, std::span<const Tensor> tensors, const std::string &prefix) {
    for (const Tensor &tensor : tensors) {
      std::vector<std::string> names{prefix + tensor.name};
      for (const char *alias : tensor.aliases)
        names.push_back(prefix + alias);
      results.push_back({kind, &tensor, std::move(names)});
    }
  };
  add(Result::Gradient, program.gradients, "grad.");
  add(Result::Parameter, program.parameters, "param.");
  return results;
}

std::vector<SafetensorsWriter::Entry> Collector::entries() const {
  std::vector<SafetensorsWriter::Entry> entries;
  for (const Result &result : results)
    for (const std::string &name : result.names)
      entries.push_back({name, nameOf(result.tensor->dtype), shapeOf(*result.tensor)});
  if (program.loss)
    entries.push_back({"losses", nameOf(DType::F32), {steps}});
  return entries;
}

Collector::Collector(const Program &program, std::string path, std::int64_t steps, const TensorFiles *weights)
    : program(program), results(resultsOf(program)), steps(steps), writer(std::move(path), entries()),
      delivered(results.size()) {
  std::size_t entry = 0;
  for (const Result &result : results) {
    firstEntry.push_back(entry);
    // The dtype and shape have been checked against the program, so the sizes agree.
    if (result.kind == Result::Parameter && isUnused(*result.tensor))
      if (const TensorView *view = weights ? weights->find(*result.tensor) : nullptr)
        view->copy(0, view->bytes(), writer.data(entry).data());
    entry += result.names.size();
  }
  firstEntry.push_back(entry);
}

void Collector::add(const Piece &piece) {
  const Result &result = results[piece.result];
  Slice slice(program, *result.tensor, coordinatesOf(program, piece.rank), piece.microbatch);
  if (piece.data.size() != slice.bytes())
    throw Failure("rank " + std::to_string(piece.rank) + " delivers " + std::to_string(piece.data.size()) +
                  " bytes of '" + result.names[0] + "' where " + std::to_string(slice.bytes()) + " belong");
  std::byte *global = writer.data(firstEntry[piece.result]).data();
  std::lock_guard guard(mutex);
  auto [first, isNew] = delivered[piece.result].try_emplace(slice, piece.rank);
  if (isNew)
    slice.scatter(piece.data.data(), global);
  else if (result.kind == Result::Parameter && !slice.equals(piece.data.data(), global))
    throw Failure("ranks " + std::to_string(std::min(first->second, piece.rank)) + " and " +
                  std::to_string(std::max(first->second, piece.rank)) + " hold copies of parameter '" +
                  result.tensor->name + "' that differ; copies must stay equal to the bit");
}

void Collector::addLoss(std::int64_t step, float loss) {
  std::memcpy(writer.data(firstEntry.back()).data() + static_cast<std::size_t>(step) * sizeof loss, &loss,
              sizeof loss);
}

void Collector::commit() {
  for (std::size_t i = 0; i < results.size(); ++i)
    for (std::size_t alias = 1; alias < results[i].names.size(); ++alias)
      std::ranges::copy(writer.data(firstEntry[i]), writer.data(firstEntry[i] + alias).data());
  writer.commit();
}

} // namespace plumb
