//===- Session.cpp - The run of one rank -------------------------------------===//

#include "plumb/Runtime/Session.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>

namespace plumb {

//===----------------------------------------------------------------------===//
// Checking
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
    require(dim.size >= 0 && dim.blocks >= 1 && dim.size % dim.blocks == 0,
            "has blocks that do not divide a size");
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
  for (std::span<const Tensor> tensors :
       {program.parameters, program.gradients, program.inputs, program.outputs})
    for (const Tensor &tensor : tensors)
      checkTensor(program, tensor);
  bool consistent = program.microbatches >= 1 && program.step && program.streams >= 0 &&
                    program.events >= 0 && program.pipelineAxis < static_cast<int>(program.mesh.size()) &&
                    std::ranges::all_of(
                        program.mesh, [](const Axis &axis) { return axis.size >= 1; }) &&
                    program.arenaBytes.size() == static_cast<std::size_t>(pipelineSize(program));
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
  if (program.loss) {
    checkTensor(program, *program.loss);
    if (program.loss->rank != 0 || isUnused(*program.loss))
      throw Failure(std::string("the tables of program '") + program.name +
                    "' are inconsistent: the loss is not a scalar that some rank holds");
  }
}

static std::string describe(std::string_view dtype, std::span<const std::int64_t> shape) {
  return std::string(dtype) + " " + describeShape(shape);
}

static void checkView(const SafetensorsFile &file, const std::string &name, const Tensor &tensor,
                      const TensorView *view, bool hasSteps) {
  if (!view)
    throw Failure("'" + file.path() + "' has no tensor '" + name + "', which the program needs as " +
                  describe(nameOf(tensor.dtype), shapeOf(tensor)));
  std::span<const std::int64_t> shape = view->shape;
  if (hasSteps)
    shape = shape.subspan(1);
  if (view->dtype != nameOf(tensor.dtype) || !std::ranges::equal(shape, shapeOf(tensor)))
    throw Failure("'" + file.path() + "': tensor '" + name + "' is " + describe(view->dtype, view->shape) +
                  ", but the program needs " + describe(nameOf(tensor.dtype), shapeOf(tensor)));
}

static std::string inputName(std::size_t index) { return "input." + std::to_string(index); }

/// An input with one dimension more than the program's has a leading dimension of steps.
static bool hasStepDimension(const Tensor &tensor, const TensorView &view) {
  return view.shape.size() == static_cast<std::size_t>(tensor.rank) + 1;
}

static void checkInputs(const Program &program, const Options &options, const SafetensorsFile &file) {
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const TensorView *view = file.find(inputName(i));
    bool hasSteps = view && hasStepDimension(program.inputs[i], *view);
    checkView(file, inputName(i), program.inputs[i], view, hasSteps);
    if (hasSteps && view->shape[0] < options.steps)
      throw Failure("'" + file.path() + "': tensor '" + inputName(i) + "' holds " +
                    std::to_string(view->shape[0]) + " steps, but " + std::to_string(options.steps) +
                    " are to run");
  }
}

Sources openSources(const Program &program, const Options &options) {
  checkProgram(program);
  if (options.inputs.empty() && !program.inputs.empty())
    throw UsageError("the program has " + std::to_string(program.inputs.size()) +
                     " input(s); give a file that holds them with --inputs");
  if (options.weights.empty() && !program.parameters.empty())
    throw UsageError("the program has " + std::to_string(program.parameters.size()) +
                     " parameter(s); give a file that holds them with --weights");
  Sources sources;
  if (!options.weights.empty()) {
    sources.weights = std::make_unique<SafetensorsFile>(options.weights);
    for (const Tensor &parameter : program.parameters)
      checkView(*sources.weights, parameter.name, parameter, findParameter(*sources.weights, parameter),
                false);
  }
  if (!options.inputs.empty()) {
    sources.inputs = std::make_unique<SafetensorsFile>(options.inputs);
    checkInputs(program, options, *sources.inputs);
  }
  return sources;
}

//===----------------------------------------------------------------------===//
// Building a rank
//===----------------------------------------------------------------------===//

Session::Session(const Program &program, int rank, const Options &options, const Sources &sources,
                 Provider &provider)
    : program(program), number(rank), options(options), sources(sources), provider(provider),
      coordinates(coordinatesOf(program, rank)), pipeline(pipelineOf(program, coordinates)),
      results(resultsOf(program)) {}

Session::~Session() {
  // Nothing useful can be done about an error here, and the first one has been reported.
  for (ncclComm_t comm : handles.comms)
    if (comm)
      provider.disconnect(comm, !completed);
  for (cudaEvent_t event : handles.events)
    (void)cudaEventDestroy(event);
  for (cudaStream_t stream : handles.streams)
    (void)cudaStreamDestroy(stream);
  if (handles.arena)
    (void)cudaFree(handles.arena);
}

void Session::connect() {
  std::size_t bytes = program.arenaBytes[static_cast<std::size_t>(pipeline)];
  if (bytes) {
    PLUMB_CUDA(cudaMalloc(&handles.arena, bytes));
    PLUMB_CUDA(cudaMemset(handles.arena, 0, bytes));
  }
  for (int i = 0; i < program.streams; ++i)
    PLUMB_CUDA(cudaStreamCreateWithFlags(&handles.streams.emplace_back(), cudaStreamNonBlocking));
  for (int i = 0; i < program.events; ++i)
    PLUMB_CUDA(cudaEventCreateWithFlags(&handles.events.emplace_back(), cudaEventDisableTiming));
  for (std::size_t i = 0; i < program.communicators.size(); ++i) {
    std::vector<int> members = membersOf(program, program.communicators[i], number);
    auto self = std::ranges::find(members, number);
    handles.comms.push_back(members.empty() ? nullptr
                                            : provider.connect(static_cast<int>(i), members,
                                                               static_cast<int>(self - members.begin())));
  }
}

//===----------------------------------------------------------------------===//
// Data
//===----------------------------------------------------------------------===//

std::int64_t Session::slicesOf(const Tensor &tensor) const {
  return isCutByMicrobatch(program, tensor) ? program.microbatches : 1;
}

std::byte *Session::locate(const Tensor &tensor, const Slice &slice, std::int64_t microbatch) const {
  std::size_t offset = tensor.offsets[static_cast<std::size_t>(pipeline)];
  if (offset == kAbsent)
    return nullptr;
  std::size_t arena = program.arenaBytes[static_cast<std::size_t>(pipeline)], begin = 0, end = 0;
  if (__builtin_mul_overflow(tensor.stride, static_cast<std::size_t>(microbatch), &begin) ||
      __builtin_add_overflow(begin, offset, &begin) || __builtin_add_overflow(begin, slice.bytes(), &end) ||
      end > arena)
    throw Failure(std::string("tensor '") + tensor.name + "' leaves the arena of " + std::to_string(arena) +
                  " bytes");
  return static_cast<std::byte *>(handles.arena) + begin;
}

void Session::load(const Tensor &tensor, const std::byte *global) {
  for (std::int64_t m = 0; m < slicesOf(tensor); ++m) {
    Slice slice(program, tensor, coordinates, m);
    std::byte *address = locate(tensor, slice, m);
    if (!address || slice.bytes() == 0)
      continue;
    staging.resize(slice.bytes());
    slice.gather(global, staging.data());
    PLUMB_CUDA(cudaMemcpy(address, staging.data(), slice.bytes(), cudaMemcpyHostToDevice));
  }
}

void Session::loadParameters() {
  for (const Tensor &parameter : program.parameters)
    load(parameter, findParameter(*sources.weights, parameter)->data.data());
}

void Session::loadInputs(std::int64_t step) {
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const TensorView &view = *sources.inputs->find(inputName(i));
    bool hasSteps = hasStepDimension(program.inputs[i], view);
    std::size_t perStep = hasSteps ? view.data.size() / static_cast<std::size_t>(view.shape[0]) : 0;
    load(program.inputs[i], view.data.data() + perStep * static_cast<std::size_t>(step));
  }
}

void Session::deliver(Result::Kind kind) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].kind != kind)
      continue;
    const Tensor &tensor = *results[i].tensor;
    for (std::int64_t m = 0; m < slicesOf(tensor); ++m) {
      Slice slice(program, tensor, coordinates, m);
      const std::byte *address = locate(tensor, slice, m);
      if (!address || slice.bytes() == 0)
        continue;
      staging.resize(slice.bytes());
      PLUMB_CUDA(cudaMemcpy(staging.data(), address, slice.bytes(), cudaMemcpyDeviceToHost));
      provider.deliver({i, number, m, staging});
    }
  }
}

static float toFloat(DType type, const std::byte *bytes) {
  auto as = [&](auto value) {
    std::memcpy(&value, bytes, sizeof value);
    return value;
  };
  switch (type) {
  case DType::F64:
    return static_cast<float>(as(double()));
  case DType::BF16:
    return std::bit_cast<float>(static_cast<std::uint32_t>(as(std::uint16_t())) << 16);
  case DType::F16:
    return static_cast<float>(as(_Float16()));
  case DType::F32:
    return as(float());
  case DType::I64:
    return static_cast<float>(as(std::int64_t()));
  case DType::I32:
    return static_cast<float>(as(std::int32_t()));
  case DType::U8:
  case DType::Bool:
    return static_cast<float>(as(std::uint8_t()));
  }
  return 0;
}

void Session::reportLoss(std::int64_t step) {
  if (!program.loss)
    return;
  auto holds = [&](int rank) {
    auto p = static_cast<std::size_t>(pipelineOf(program, coordinatesOf(program, rank)));
    return program.loss->offsets[p] != kAbsent;
  };
  int reporter = 0;
  while (!holds(reporter))
    ++reporter;
  if (reporter != number)
    return;
  Slice slice(program, *program.loss, coordinates, 0);
  std::byte value[8];
  PLUMB_CUDA(cudaMemcpy(value, locate(*program.loss, slice, 0), slice.bytes(), cudaMemcpyDeviceToHost));
  float loss = toFloat(program.loss->dtype, value);
  std::printf("step %lld: loss %.6g\n", static_cast<long long>(step + 1), static_cast<double>(loss));
  std::fflush(stdout);
  if (provider.collects())
    provider.deliverLoss(step, loss);
}

void Session::run() {
  connect();
  loadParameters();
  Rank rank(number, coordinates, pipeline, handles);
  for (std::int64_t step = 0; step < options.steps; ++step) {
    loadInputs(step);
    program.step(rank);
    provider.synchronize(handles.streams);
    reportLoss(step);
    if (step == 0 && provider.collects()) {
      deliver(Result::Output);
      deliver(Result::Gradient);
    }
  }
  if (provider.collects())
    deliver(Result::Parameter);
  completed = true;
}

} // namespace plumb
