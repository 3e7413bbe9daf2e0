//===- Session.cpp - The run of one rank -------------------------------------===//

#include "plumb/Runtime/Session.h"

#include "plumb/Runtime/Checkpoint.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <csignal>
#include <cstring>
#include <numeric>
#include <string>

namespace plumb {

static volatile std::sig_atomic_t isTerminated = 0;

void handleTermination() {
  std::signal(SIGTERM, [](int) { isTerminated = 1; });
}

//===----------------------------------------------------------------------===//
// Building a rank
//===----------------------------------------------------------------------===//

Session::Session(const Program &program, int rank, const Options &options, const Sources &sources,
                 Provider &provider, Hub &hub, Driver *driver)
    : program(program), number(rank), options(options), sources(sources), provider(provider), hub(hub),
      driver(driver), coordinates(coordinatesOf(program, rank)), pipeline(pipelineOf(program, coordinates)),
      results(resultsOf(program)) {}

Session::~Session() {
  // Nothing useful can be done about an error here, and the first one has been reported.
  feeder.reset();
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

std::byte *Session::locate(const std::string &what, std::size_t offset, std::size_t bytes) const {
  std::size_t arena = program.arenaBytes[static_cast<std::size_t>(pipeline)], end = 0;
  if (__builtin_add_overflow(offset, bytes, &end) || end > arena)
    throw Failure(what + " leave the arena of " + std::to_string(arena) + " bytes");
  return static_cast<std::byte *>(handles.arena) + offset;
}

std::byte *Session::locate(const Tensor &tensor, const Slice &slice, std::int64_t microbatch) const {
  std::size_t offset = tensor.offsets[static_cast<std::size_t>(pipeline)], begin = 0;
  if (offset == kAbsent)
    return nullptr;
  if (__builtin_mul_overflow(tensor.stride, static_cast<std::size_t>(microbatch), &begin) ||
      __builtin_add_overflow(begin, offset, &begin))
    begin = kAbsent;
  return locate(std::string("the bytes of tensor '") + tensor.name + "'", begin, slice.bytes());
}

void Session::load(const Tensor &tensor, const TensorView &global) {
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

/// Numbers, parameters, and what the optimizer keeps, which begins with zero.
void Session::loadState() {
  for (const Tensor &tensor : program.numbers) {
    std::vector<std::int64_t> values(static_cast<std::size_t>(tensor.dims[0].size));
    std::iota(values.begin(), values.end(), 0);
    load(tensor, wholeView(tensor, reinterpret_cast<const std::byte *>(values.data())));
  }
  for (const Tensor &parameter : program.parameters)
    if (const TensorView *view = sources.parameters()->find(parameter))
      load(parameter, *view);
  for (const Tensor &tensor : program.nonPersistent)
    load(tensor, *sources.holderOf(tensor)->find(tensor));
  for (const Tensor &moment : program.moments)
    if (sources.checkpoint)
      load(moment, *sources.checkpoint->find(std::string_view(moment.name)));
}

std::vector<InputSlice> Session::inputSlices() const {
  std::vector<InputSlice> slices;
  for (const Tensor &input : program.inputs)
    for (std::int64_t m = 0; m < slicesOf(input); ++m) {
      Slice slice(program, input, coordinates, m);
      std::byte *address = locate(input, slice, m);
      if (address && slice.bytes() != 0)
        slices.push_back({&input, std::move(slice), m, address});
    }
  return slices;
}

void Session::loadInputs(std::int64_t step) {
  feeder->feed(step, handles.streams);
  auto finished = static_cast<double>(step);
  if (program.counter)
    load(*program.counter, wholeView(*program.counter, reinterpret_cast<const std::byte *>(&finished)));
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

void Session::fetch(const Tensor &tensor, const std::function<void(std::int64_t, const Slice &)> &visit) {
  for (std::int64_t m = 0; m < slicesOf(tensor); ++m) {
    if (!tensor.makers.empty() && tensor.makers[static_cast<std::size_t>(m)] != pipeline)
      continue;
    Slice slice(program, tensor, coordinates, m);
    const std::byte *address = locate(tensor, slice, m);
    if (!address || slice.bytes() == 0)
      continue;
    staging.resize(slice.bytes());
    PLUMB_CUDA(cudaMemcpy(staging.data(), address, slice.bytes(), cudaMemcpyDeviceToHost));
    visit(m, slice);
  }
}

void Session::deliver(std::size_t result) {
  fetch(*results[result].tensor,
        [&](std::int64_t microbatch, const Slice &) { hub.deliver({result, number, microbatch, staging}); });
}

void Session::deliverAll(Result::Kind kind) {
  for (std::size_t i = 0; i < results.size(); ++i)
    if (results[i].kind == kind)
      deliver(i);
}

static double toDouble(DType type, const std::byte *bytes) {
  auto as = [&](auto value) {
    std::memcpy(&value, bytes, sizeof value);
    return value;
  };
  switch (type) {
  case DType::F64:
    return as(double());
  case DType::BF16:
    return std::bit_cast<float>(static_cast<std::uint32_t>(as(std::uint16_t())) << 16);
  case DType::F16:
    return static_cast<double>(as(_Float16()));
  case DType::F32:
    return as(float());
  case DType::I64:
    return static_cast<double>(as(std::int64_t()));
  case DType::I32:
    return static_cast<double>(as(std::int32_t()));
  case DType::U8:
  case DType::Bool:
    return static_cast<double>(as(std::uint8_t()));
  }
  return 0;
}

/// The first rank that holds the loss.
bool Session::isReporter() const {
  auto holds = [&](int rank) {
    auto p = static_cast<std::size_t>(pipelineOf(program, coordinatesOf(program, rank)));
    return program.loss->offsets[p] != kAbsent;
  };
  int reporter = 0;
  while (program.loss && !holds(reporter))
    ++reporter;
  return program.loss && reporter == number;
}

/// A scalar of the program, if it has that and this rank holds it.
std::optional<double> Session::read(const Tensor *scalar) const {
  if (!scalar || scalar->offsets[static_cast<std::size_t>(pipeline)] == kAbsent)
    return {};
  Slice slice(program, *scalar, coordinates, 0);
  std::byte value[8];
  PLUMB_CUDA(cudaMemcpy(value, locate(*scalar, slice, 0), slice.bytes(), cudaMemcpyDeviceToHost));
  return toDouble(scalar->dtype, value);
}

void Session::report(std::int64_t step) {
  if (!isReporter())
    return;
  StepReport report{step, *read(program.loss), read(program.norm), read(program.rate),
                    static_cast<std::int64_t>(program.arenaBytes[static_cast<std::size_t>(pipeline)])};
  if (!report.rate && program.constantRate != 0)
    report.rate = program.constantRate;
  hub.report(report);
  auto require = [&](const char *what, double value) {
    if (!std::isfinite(value))
      throw Failure(std::string(what) + " of step " + std::to_string(step + 1) + " is " +
                    std::to_string(value) + ", which is not finite");
  };
  require("the loss", report.loss);
  // Clipped by such a norm, every parameter has become what no checkpoint should keep.
  if (report.norm)
    require("the gradient norm", *report.norm);
}

//===----------------------------------------------------------------------===//
// Checkpoints
//===----------------------------------------------------------------------===//

void Session::writeCheckpoint(std::int64_t step) {
  // Rank 0 makes the file, all fill it, and when all of it is on disk it gets its name.
  std::unique_ptr<CheckpointWriter> writer;
  auto open = [&] { writer = std::make_unique<CheckpointWriter>(program, options, sources, number, step); };
  if (number == 0)
    open();
  hub.wait();
  if (number != 0)
    open();
  auto write = [&](const Tensor &tensor, std::byte *global) {
    if (isFirstHolder(program, tensor, coordinates))
      fetch(tensor, [&](std::int64_t, const Slice &slice) { slice.scatter(staging.data(), global); });
  };
  for (std::size_t i = 0; i < program.parameters.size(); ++i)
    write(program.parameters[i], writer->parameter(i));
  for (std::size_t i = 0; i < program.moments.size(); ++i)
    write(program.moments[i], writer->moment(i));
  writer->flush();
  hub.wait();
  if (number == 0)
    writer->commit();
}

bool Session::checkpoint(std::int64_t step) {
  if (options.checkpoint.empty() && isTerminated)
    throw Failure("told to stop (SIGTERM) after step " + std::to_string(step + 1));
  if (options.checkpoint.empty())
    return false;
  std::int64_t finished = step + 1;
  bool ends = hub.decide(step, isTerminated != 0);
  if (ends || finished == options.steps || (options.every && finished % options.every == 0))
    writeCheckpoint(finished);
  if (ends && number == 0)
    std::fprintf(stderr, "told to stop: ended after step %lld, with a checkpoint\n",
                 static_cast<long long>(finished));
  return ends;
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

void Session::runStep(Rank &rank, std::int64_t step) {
  provider.beginStep(step);
  loadInputs(step);
  program.step(rank);
  provider.synchronize(handles.streams, [this] { feeder->feedAhead(); });
  report(step);
}

void Session::train(Rank &rank) {
  bool collects = !options.save.empty();
  for (std::int64_t step = sources.firstStep; step < options.steps; ++step) {
    runStep(rank, step);
    if (step == sources.firstStep && collects) {
      deliverAll(Result::Output);
      deliverAll(Result::Gradient);
    }
    if (checkpoint(step))
      break;
  }
  if (collects)
    deliverAll(Result::Parameter);
}

void Session::serve(Rank &rank) {
  std::int64_t step = sources.firstStep;
  for (std::int64_t done = 0;; ++done) {
    Command command = driver->next(done);
    switch (command.kind) {
    case Command::Step:
      runStep(rank, step++);
      break;
    case Command::Read: {
      const Tensor &tensor = *results[command.result].tensor;
      if (results[command.result].kind == Result::Output || isFirstHolder(program, tensor, coordinates))
        deliver(command.result);
      break;
    }
    case Command::Write:
      if (command.data)
        load(*results[command.result].tensor, wholeView(*results[command.result].tensor, command.data));
      break;
    case Command::End:
      return;
    }
    // The process of rank 0 answers when it has what all ranks say.
    hub.wait();
  }
}

void Session::run() {
  connect();
  loadState();
  std::vector<InputSlice> inputs = inputSlices();
  std::byte *arrival =
      locate("the inputs of the next step", program.staging[static_cast<std::size_t>(pipeline)],
             Feeder::stagedBytes(inputs));
  feeder = std::make_unique<Feeder>(number, std::move(inputs), arrival, sources.inputs.get(), driver,
                                    options.steps);
  Rank rank(number, coordinates, pipeline, handles);
  if (driver)
    serve(rank);
  else
    train(rank);
  completed = true;
}

} // namespace plumb
