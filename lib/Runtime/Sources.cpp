//===- Sources.cpp - The files that a run reads -------------------------------===//

#include "plumb/Runtime/Sources.h"

#include "plumb/Runtime/Checkpoint.h"
#include "plumb/Runtime/Collector.h"
#include "plumb/Runtime/Layout.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace plumb {

//===----------------------------------------------------------------------===//
// The program's tables
//===----------------------------------------------------------------------===//

static void checkTensor(const Program &program, const Tensor &tensor) {
  auto require = [&](bool condition, const char *what) {
    if (!condition)
      throw Failure(std::string("the tables of program '") + program.name + "' are inconsistent: tensor '" +
                    tensor.name + "' " + what);
  };
  require(tensor.rank >= 0 && tensor.rank <= 8, "has a rank outside 0 … 8");
  require(tensor.offsets.size() == static_cast<std::size_t>(pipelineSize(program)),
          "does not have one offset per pipeline coordinate");
  std::set<std::pair<int, std::int64_t>> used;
  for (int i = 0; i < tensor.rank; ++i) {
    const Dim &dim = tensor.dims[i];
    bool fits = dim.blocks >= 1 && dim.size % dim.blocks == 0;
    if (dim.blockSizes)
      fits = std::accumulate(dim.blockSizes, dim.blockSizes + std::max(dim.blocks, 0), std::int64_t(0)) ==
             dim.size;
    require(dim.size >= 0 && fits, "has blocks that do not divide a size");
    for (int k = 0; k < 6 && dim.axes[k].axis >= 0; ++k) {
      const AxisFactor &factor = dim.axes[k];
      require(factor.axis <= static_cast<int>(program.mesh.size()), "names an axis that does not exist");
      bool inTime = factor.axis == static_cast<int>(program.mesh.size());
      std::int64_t whole =
          inTime ? program.microbatches : program.mesh[static_cast<std::size_t>(factor.axis)].size;
      require(factor.pre >= 1 && factor.size >= 0 &&
                  whole % (factor.pre * std::max<std::int64_t>(factor.size, 1)) == 0,
              "is cut by a factor that its axis does not have");
      require(used.insert({factor.axis, factor.pre}).second, "is cut twice by one axis");
    }
  }
}

static void checkProgram(const Program &program) {
  for (std::span<const Tensor> tensors : {program.parameters, program.nonPersistent, program.gradients,
                                          program.inputs, program.numbers, program.outputs, program.moments})
    for (const Tensor &tensor : tensors)
      checkTensor(program, tensor);
  bool consistent = program.microbatches >= 1 && program.step && program.streams >= 0 &&
                    program.events >= 0 && program.pipelineAxis < static_cast<int>(program.mesh.size()) &&
                    std::ranges::all_of(
                        program.mesh, [](const Axis &axis) { return axis.size >= 1; }) &&
                    program.arenaBytes.size() == static_cast<std::size_t>(pipelineSize(program)) &&
                    program.staging.size() == program.arenaBytes.size();
  auto isFactor = [&](const AxisFactor &factor) {
    return factor.axis >= 0 && factor.axis < static_cast<int>(program.mesh.size()) && factor.pre >= 1 &&
           factor.size >= 0 &&
           (factor.size == 0 ||
            program.mesh[static_cast<std::size_t>(factor.axis)].size % (factor.pre * factor.size) == 0);
  };
  for (const Communicator &communicator : program.communicators) {
    consistent &= std::ranges::all_of(communicator.axes, isFactor);
    for (int coordinate : communicator.pipeline)
      consistent &= coordinate >= 0 && coordinate < pipelineSize(program);
  }
  if (!consistent)
    throw Failure(std::string("the tables of program '") + program.name + "' are inconsistent");
  for (const Tensor *scalar : {program.loss, program.counter, program.norm, program.rate}) {
    if (!scalar)
      continue;
    checkTensor(program, *scalar);
    if (scalar->rank != 0 || isUnused(*scalar))
      throw Failure(std::string("the tables of program '") + program.name + "' are inconsistent: '" +
                    scalar->name + "' is not a scalar that some rank holds");
  }
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

static void checkWeights(const Program &program, const Sources &sources) {
  if (const TensorFiles *file = sources.parameters())
    for (const Tensor &parameter : program.parameters)
      checkView(*file, parameter, file->find(parameter));
  for (const Tensor &tensor : program.nonPersistent) {
    const TensorFiles *file = sources.holderOf(tensor);
    if (!file)
      throw Failure(std::string("the program needs '") + tensor.name +
                    "', which the model does not save and no given file has; give the model's .pt2, or what "
                    "'plumbc compile --emit weights' writes, with --buffers");
    checkView(*file, tensor, file->find(tensor));
  }
}

const TensorFiles *Sources::holderOf(const Tensor &nonPersistent) const {
  for (const TensorFiles *files : {buffers.get(), weights.get()})
    if (files && files->find(nonPersistent))
      return files;
  return nullptr;
}

Sources openSources(const Program &program, const Options &options, bool needsInputs) {
  checkProgram(program);
  if (options.source.empty() && needsInputs && !program.inputs.empty())
    throw UsageError("the program has " + std::to_string(program.inputs.size()) +
                     " input(s); say where they come from with --inputs");
  if (options.weights.empty() && options.resume.empty() && !program.parameters.empty())
    throw UsageError("the program has " + std::to_string(program.parameters.size()) +
                     " parameter(s); give a file that holds them with --weights");
  Sources sources;
  if (!options.weights.empty())
    sources.weights = std::make_unique<TensorFiles>(options.weights);
  if (!options.buffers.empty())
    sources.buffers = std::make_unique<TensorFiles>(options.buffers);
  if (!options.resume.empty()) {
    sources.checkpoint = std::make_unique<TensorFiles>(findCheckpoint(options.resume));
    sources.firstStep = readStep(*sources.checkpoint);
    for (const Tensor &moment : program.moments)
      checkView(*sources.checkpoint, moment, sources.checkpoint->find(std::string_view(moment.name)));
    if (options.steps < sources.firstStep || (options.steps == sources.firstStep && !options.save.empty()))
      throw UsageError(sources.checkpoint->path(), "the checkpoint has " + std::to_string(sources.firstStep) +
                                                       " steps behind it, so that --steps " +
                                                       std::to_string(options.steps) +
                                                       " leaves nothing to run");
  }
  checkWeights(program, sources);
  if (!options.source.empty())
    sources.inputs = openInputSource(program, options, sources.firstStep);
  return sources;
}

std::int64_t tokensPerStep(const Program &program) {
  for (const Tensor &input : program.inputs)
    if (input.dtype == DType::I64 || input.dtype == DType::I32) {
      std::int64_t count = 1;
      for (std::int64_t extent : shapeOf(input))
        count *= extent;
      return count;
    }
  return program.inputs.empty() || program.inputs[0].rank == 0 ? 0 : program.inputs[0].dims[0].size;
}

} // namespace plumb
