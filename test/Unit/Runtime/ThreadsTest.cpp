//===- ThreadsTest.cpp - A program from its files to its results ----------------===//
//
// The program below is written by hand in the form in which programs are generated. It trains y = x·w (w has
// 6 elements, one output per row) on a mesh pp=2, dp=2 with two microbatches. Stage 0 computes h = x * w
// (elementwise), stage 1 the loss sum(h)² over the whole batch and sends the gradient back; w is cut over dp
// (as storage) and gathered for the step.
//
//===----------------------------------------------------------------------===//

#include "plumb/Runtime/Checkpoint.h"
#include "plumb/Runtime/Options.h"
#include "plumb/Runtime/Run.h"
#include "plumb/Runtime/Safetensors.h"
#include "plumb/Runtime/TensorFile.h"

#include "Programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

using namespace plumb;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kRows = 10, kColumns = 6, kMicrobatches = 2;
// Rows of dp coordinate 0 and 1: 5 each; of the microbatches: 3 and 2.
constexpr int kPp = 0, kDp = 1, kMicrobatch = 2;

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

template <auto Body, class... Pointers>
cudaError_t launch(const char *name, cudaStream_t stream, Pointers... pointers) {
  void *args[] = {const_cast<void *>(static_cast<const void *>(pointers))...};
  return plumb_host_launch(stream, Body, args, sizeof...(pointers), name);
}
float *f32(void *pointer) { return static_cast<float *>(pointer); }

// h[r, c] = x[r, c] * w[c]
template <int Rows>
void scaleColumns(void **args) {
  for (int r = 0; r < Rows; ++r)
    for (int c = 0; c < kColumns; ++c)
      f32(args[2])[r * kColumns + c] = f32(args[0])[r * kColumns + c] * f32(args[1])[c];
}
// partial += sum(h)
template <int Rows>
void addSum(void **args) {
  for (int i = 0; i < Rows * kColumns; ++i)
    f32(args[1])[0] += f32(args[0])[i];
}
// g[c] += sum_r x[r, c]
template <int Rows>
void addColumnSums(void **args) {
  for (int r = 0; r < Rows; ++r)
    for (int c = 0; c < kColumns; ++c)
      f32(args[1])[c] += f32(args[0])[r * kColumns + c];
}
// loss = sum²; factor = 2·sum
void square(void **args) {
  float sum = f32(args[0])[0];
  f32(args[1])[0] = sum * sum;
  f32(args[2])[0] = 2 * sum;
}
// gradient *= factor; w -= 0.001 * gradient
void update(void **args) {
  for (int c = 0; c < kColumns / 2; ++c) {
    f32(args[0])[c] *= f32(args[1])[0];
    f32(args[2])[c] -= 0.001f * f32(args[0])[c];
  }
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

constexpr std::size_t kLine = 64, kSlice = 128;
enum Stage0 : std::size_t {
  X = 0,
  WShard = X + 2 * kSlice,
  WFull = WShard + kLine,
  H = WFull + kLine,
  GFull = H + 2 * kSlice,
  GShard = GFull + kLine,
  Factor0 = GShard + kLine,
  Arrival0 = Factor0 + kLine,
  Bytes0 = Arrival0 + 2 * kSlice
};
enum Stage1 : std::size_t {
  H1 = 0,
  Sum = H1 + 2 * kSlice,
  Loss = Sum + kLine,
  Factor1 = Loss + kLine,
  Bytes1 = Factor1 + kLine
};

const Axis kMesh[] = {{"pp", 2}, {"dp", 2}};
const std::size_t kXOffsets[] = {X, kAbsent}, kWOffsets[] = {WShard, kAbsent},
                  kGOffsets[] = {GShard, kAbsent}, kHOffsets[] = {kAbsent, H1},
                  kLossOffsets[] = {kAbsent, Loss}, kNowhere[] = {kAbsent, kAbsent},
                  kArenas[] = {Bytes0, Bytes1}, kStaging[] = {Arrival0, 0};
const char *const kTied[] = {"tied"};
const Tensor kInputs[] = {
    {"input.0", DType::F32, 2, {{kRows, 1, {{kDp}, {kMicrobatch}}}, {kColumns}}, kXOffsets, kSlice}};
const Tensor kOutputs[] = {
    {"output.0", DType::F32, 2, {{kRows, 1, {{kDp}, {kMicrobatch}}}, {kColumns}}, kHOffsets, kSlice}};
const Tensor kParameters[] = {{"w", DType::F32, 1, {{kColumns, 1, {{kDp}}}}, kWOffsets, 0, kTied},
                              {"unused", DType::I64, 1, {{3}}, kNowhere}};
const Tensor kGradients[] = {{"w", DType::F32, 1, {{kColumns, 1, {{kDp}}}}, kGOffsets}};
const Tensor kLoss{"loss", DType::F32, 0, {}, kLossOffsets};
const int kBoth[] = {0, 1};
enum { Forward, Backward, Storage, Total };
const AxisFactor kOverDp[] = {{kDp}};
const Communicator kCommunicators[] = {
    {"forward", {}, kBoth}, {"backward", {}, kBoth}, {"storage", kOverDp, {}}, {"loss", kOverDp, {}}};

template <int M>
void stepOfStage0(Rank &rank) {
  constexpr int rows = M == 0 ? 3 : 2;
  cudaStream_t compute = rank.stream(0);
  auto *x = rank.at<float>(X + M * kSlice), *h = rank.at<float>(H + M * kSlice);
  PLUMB_LAUNCH(launch<scaleColumns<rows>>("k_scale", compute, x, rank.at<float>(WFull), h));
  PLUMB_CUDA(cudaEventRecord(rank.event(M), compute));
  PLUMB_CUDA(cudaStreamWaitEvent(rank.stream(1), rank.event(M)));
  PLUMB_NCCL(ncclSend(h, rows * kColumns, ncclFloat32, 1, rank.comm(Forward), rank.stream(1)));
  PLUMB_LAUNCH(launch<addColumnSums<rows>>("k_column_sums", compute, x, rank.at<float>(GFull)));
}

template <int M>
void stepOfStage1(Rank &rank) {
  constexpr int rows = M == 0 ? 3 : 2;
  auto *h = rank.at<float>(H1 + M * kSlice);
  PLUMB_NCCL(ncclRecv(h, rows * kColumns, ncclFloat32, 0, rank.comm(Forward), rank.stream(1)));
  PLUMB_CUDA(cudaEventRecord(rank.event(M), rank.stream(1)));
  PLUMB_CUDA(cudaStreamWaitEvent(rank.stream(0), rank.event(M)));
  PLUMB_LAUNCH(launch<addSum<rows>>("k_sum", rank.stream(0), h, rank.at<float>(Sum)));
}

void step(Rank &rank) {
  cudaStream_t compute = rank.stream(0);
  if (rank.pipeline() == 0) {
    PLUMB_NCCL(ncclAllGather(rank.at<float>(WShard), rank.at<float>(WFull), kColumns / 2, ncclFloat32,
                             rank.comm(Storage), compute));
    PLUMB_CUDA(cudaMemsetAsync(rank.at<float>(GFull), 0, kLine, compute));
    stepOfStage0<0>(rank);
    stepOfStage0<1>(rank);
    PLUMB_NCCL(ncclReduceScatter(rank.at<float>(GFull), rank.at<float>(GShard), kColumns / 2, ncclFloat32,
                                 ncclSum, rank.comm(Storage), compute));
    PLUMB_NCCL(ncclRecv(rank.at<float>(Factor0), 1, ncclFloat32, 1, rank.comm(Backward), rank.stream(2)));
    PLUMB_CUDA(cudaEventRecord(rank.event(2), rank.stream(2)));
    PLUMB_CUDA(cudaStreamWaitEvent(compute, rank.event(2)));
    PLUMB_LAUNCH(launch<update>("k_update", compute, rank.at<float>(GShard), rank.at<float>(Factor0),
                                rank.at<float>(WShard)));
  } else {
    PLUMB_CUDA(cudaMemsetAsync(rank.at<float>(Sum), 0, kLine, compute));
    stepOfStage1<0>(rank);
    stepOfStage1<1>(rank);
    PLUMB_NCCL(ncclAllReduce(rank.at<float>(Sum), rank.at<float>(Sum), 1, ncclFloat32, ncclSum,
                             rank.comm(Total), compute));
    PLUMB_LAUNCH(launch<square>("k_square", compute, rank.at<float>(Sum), rank.at<float>(Loss),
                                rank.at<float>(Factor1)));
    PLUMB_CUDA(cudaEventRecord(rank.event(2), compute));
    PLUMB_CUDA(cudaStreamWaitEvent(rank.stream(2), rank.event(2)));
    PLUMB_NCCL(ncclSend(rank.at<float>(Factor1), 1, ncclFloat32, 0, rank.comm(Backward), rank.stream(2)));
  }
}

Program training() {
  Program program = test::emptyProgram();
  program.name = "training";
  program.mesh = kMesh;
  program.pipelineAxis = kPp;
  program.microbatches = kMicrobatches;
  program.communicators = kCommunicators;
  program.parameters = kParameters;
  program.gradients = kGradients;
  program.inputs = kInputs;
  program.outputs = kOutputs;
  program.loss = &kLoss;
  program.arenaBytes = kArenas;
  program.staging = kStaging;
  program.streams = 3;
  program.events = 3;
  program.step = step;
  return program;
}

//===----------------------------------------------------------------------===//
// Tests
//===----------------------------------------------------------------------===//

class Threads : public testing::Test {
protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "plumb-runtime-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder = pattern;
    std::iota(unused.begin(), unused.end(), 1ll << 40);
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<float>(i % 7) - 3;
    write("inputs", {{"input.0", "F32", {kRows, kColumns}}}, {x.data()});
    write("weights", {{"tied", "F32", {kColumns}}, {"unused", "I64", {3}}}, {w.data(), unused.data()});
  }
  void TearDown() override { fs::remove_all(folder); }

  std::string path(const char *name) const { return (folder / name).string(); }
  void write(const char *name, std::vector<SafetensorsWriter::Entry> entries,
             std::vector<const void *> data) {
    SafetensorsWriter writer(path(name), std::move(entries));
    for (std::size_t i = 0; i < data.size(); ++i)
      std::memcpy(writer.data(i).data(), data[i], writer.data(i).size());
    writer.commit();
  }
  int run(const Program &program, std::vector<std::string> arguments) {
    std::vector<const char *> argv{"program"};
    for (const std::string &argument : arguments)
      argv.push_back(argument.c_str());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    Outcome outcome = runProgram(program, static_cast<int>(argv.size()), argv.data(), /*driver=*/nullptr);
    output = testing::internal::GetCapturedStdout();
    error = testing::internal::GetCapturedStderr() + (outcome.code ? outcome.message() + "\n" : "");
    return outcome.code;
  }
  int run(const Program &program) {
    return run(program, {"--weights", path("weights"), "--inputs", path("inputs"), "--save", path("out")});
  }
  template <class T>
  std::vector<T> saved(const char *name) {
    TensorFile file(path("out"));
    const TensorView *view = file.find(name);
    if (!view)
      return {};
    std::vector<T> values(view->data.size() / sizeof(T));
    std::memcpy(values.data(), view->data.data(), view->data.size());
    return values;
  }

  fs::path folder;
  std::vector<float> x = std::vector<float>(kRows * kColumns), w{1, -2, 3, 4, 5, -6};
  std::vector<std::int64_t> unused = std::vector<std::int64_t>(3);
  std::string output, error;
};

TEST_F(Threads, TrainsAndSavesFullTensorsUnderEverySeed) {
  // The unsplit model. All values are small integers times powers of two at first, so that sums are exact.
  std::vector<float> weight = w, h(x.size()), gradient(kColumns), losses;
  for (int step = 0; step < 2; ++step) {
    float sum = 0;
    std::vector<float> columns(kColumns);
    for (std::size_t i = 0; i < x.size(); ++i) {
      sum += x[i] * weight[i % kColumns];
      columns[i % kColumns] += x[i];
      if (step == 0)
        h[i] = x[i] * weight[i % kColumns];
    }
    losses.push_back(sum * sum);
    for (std::size_t c = 0; c < weight.size(); ++c) {
      if (step == 0)
        gradient[c] = 2 * sum * columns[c];
      weight[c] -= 0.001f * 2 * sum * columns[c];
    }
  }
  for (const char *seed : {"0", "1", "2", "3", "4", "5"}) {
    ::setenv("PLUMB_SEED", seed, 1);
    ASSERT_EQ(run(training(), {"--weights=" + path("weights"), "--inputs", path("inputs"), "--steps", "2",
                               "--save", path("out")}),
              0)
        << error;
    EXPECT_EQ(saved<float>("output.0"), h);
    EXPECT_EQ(saved<float>("grad.w"), gradient);
    EXPECT_THAT(saved<float>("losses"), testing::Pointwise(testing::FloatNear(1e-2f), losses));
    EXPECT_THAT(saved<float>("param.w"), testing::Pointwise(testing::FloatNear(1e-4f), weight));
    EXPECT_EQ(saved<float>("param.tied"), saved<float>("param.w"));
    EXPECT_EQ(saved<std::int64_t>("param.unused"), unused);
    EXPECT_THAT(output, AllOf(HasSubstr("step 1: loss "), HasSubstr("\nstep 2: loss ")));
  }
  ::unsetenv("PLUMB_SEED");
}

TEST_F(Threads, TakesOneInputPerStepFromALeadingDimension) {
  std::vector<float> both(2 * x.size());
  std::ranges::copy(x, both.begin() + static_cast<std::ptrdiff_t>(x.size()));
  write("steps", {{"input.0", "F32", {2, kRows, kColumns}}}, {both.data()});
  ASSERT_EQ(run(training(), {"--weights", path("weights"), "--inputs", path("steps"), "--steps", "2"}), 0)
      << error;
  EXPECT_THAT(output, AllOf(HasSubstr("step 1: loss 0\n"), testing::Not(HasSubstr("step 2: loss 0\n"))));
  EXPECT_EQ(run(training(), {"--weights", path("weights"), "--inputs", path("steps"), "--steps", "3"}), 1);
  EXPECT_THAT(error, HasSubstr("holds 2 steps, but 3 are to run"));
}

TEST_F(Threads, FilesAreCheckedAgainstTheProgram) {
  write("weights", {{"w", "F32", {kColumns + 1}}, {"unused", "I64", {3}}}, {});
  EXPECT_EQ(run(training()), 1);
  EXPECT_THAT(error,
              AllOf(HasSubstr("error: "), HasSubstr("tensor 'w' is F32 [7], but the program needs F32 [6]")));
  write("weights", {{"w", "F64", {kColumns}}, {"unused", "I64", {3}}}, {});
  EXPECT_EQ(run(training()), 1);
  EXPECT_THAT(error, HasSubstr("tensor 'w' is F64 [6], but the program needs F32 [6]"));
  write("weights", {{"w", "F32", {kColumns}}}, {});
  EXPECT_EQ(run(training()), 1);
  EXPECT_THAT(error,
              HasSubstr("weights: error: there is no tensor 'unused', which the program needs as I64 [3]"));
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(Threads, WhatCannotBeWrittenIsAnErrorBeforeTheFirstStep) {
  fs::create_directory(path("folder"));
  const std::pair<const char *, std::string> places[] = {
      {"--checkpoint", path("weights")},    {"--checkpoint", path("weights") + "/below"},
      {"--checkpoint", "/proc/self/other"}, {"--save", path("folder")},
      {"--save", path("no/such")},          {"--log", path("folder")}};
  for (const auto &[option, place] : places) {
    EXPECT_EQ(run(training(), {"--weights", path("weights"), "--inputs", path("inputs"), option, place}), 1);
    EXPECT_EQ(output, "") << option << " " << place;
    EXPECT_THAT(error, HasSubstr(place + ": error: "));
  }
}

TEST_F(Threads, TwoRunsDoNotWriteCheckpointsIntoOneFolder) {
  std::vector<std::string> arguments{"--weights",    path("weights"), "--inputs",
                                     path("inputs"), "--checkpoint",  path("checkpoints")};
  prepareCheckpoints(path("checkpoints"));
  {
    CheckpointLock other(path("checkpoints"));
    EXPECT_EQ(run(training(), arguments), 1);
    EXPECT_THAT(error, HasSubstr("checkpoints: error: another run writes its checkpoints into this folder"));
  }
  EXPECT_EQ(run(training(), arguments), 0) << error;
}

// The norm lies where the loss does not, and is not a number: all its bits are set.
TEST_F(Threads, ANormThatIsNotFiniteEndsTheRunWithoutACheckpoint) {
  static const std::size_t offsets[] = {kAbsent, Factor1 + 4};
  static const Tensor norm{"norm", DType::F32, 0, {}, offsets};
  Program program = training();
  program.norm = &norm;
  program.step = [](Rank &rank) {
    step(rank);
    if (rank.pipeline() == 1)
      PLUMB_CUDA(cudaMemsetAsync(rank.at<float>(Factor1 + 4), 0xff, 4, rank.stream(0)));
  };
  EXPECT_EQ(run(program, {"--weights", path("weights"), "--inputs", path("inputs"), "--steps", "2", "--log",
                          path("log"), "--checkpoint", path("checkpoints"), "--every", "1"}),
            1);
  EXPECT_THAT(error, ContainsRegex("the gradient norm of step 1 is -?nan, which is not finite"));
  EXPECT_TRUE(fs::is_empty(path("checkpoints")));
  std::ifstream log(path("log"));
  std::string line((std::istreambuf_iterator<char>(log)), {});
  EXPECT_THAT(line, HasSubstr("\"gradient_norm\": null"));
}

TEST_F(Threads, ATimeoutMayBeLongerThanClocksCount) {
  for (const char *timeout : {"1000000001", "2147483647"})
    EXPECT_EQ(parseOptions(3, std::array{"program", "--timeout", timeout}.data()).timeout,
              std::chrono::seconds(1'000'000'000));
}

TEST_F(Threads, WrongCommandLinesAreUsageErrors) {
  EXPECT_EQ(run(training(), {"--wieghts", "x"}), 2);
  EXPECT_THAT(error, HasSubstr("unknown argument '--wieghts'"));
  EXPECT_EQ(run(training(), {"--weights"}), 2);
  for (std::vector<std::string> nothing : {std::vector<std::string>{"--checkpoint", ""}, {"--save="}}) {
    EXPECT_EQ(run(training(), nothing), 2);
    EXPECT_THAT(error, HasSubstr("needs a value"));
  }
  EXPECT_EQ(run(training(), {"--inputs", path("inputs")}), 2);
  EXPECT_EQ(run(training(), {"--weights", path("weights")}), 2);
  EXPECT_EQ(run(training(), {"--steps", "0"}), 2);
  EXPECT_EQ(run(training(), {"--steps", "1x"}), 2);
  EXPECT_EQ(run(training(), {"--timeout", "0"}), 2);
  ::setenv("PLUMB_SEED", "abc", 1);
  EXPECT_EQ(run(training()), 2);
  EXPECT_THAT(error, HasSubstr("PLUMB_SEED"));
  ::unsetenv("PLUMB_SEED");
}

TEST_F(Threads, ADeadlockIsReportedAndSavesNothing) {
  Program program = training();
  program.step = [](Rank &rank) {
    if (rank.pipeline() == 0)
      PLUMB_NCCL(ncclSend(rank.at<float>(X), 1, ncclFloat32, 1, rank.comm(Forward), rank.stream(1)));
  };
  EXPECT_EQ(run(program), 3);
  EXPECT_THAT(error, AllOf(HasSubstr("error: deadlock"),
                           HasSubstr("rank 0 waits on stream 2: in ncclSend of 1 f32 to "
                                     "rank 2 on communicator 'forward'")));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 2);
}

// w whole on both coordinates of dp, and one of them changes it.
TEST_F(Threads, CopiesOfAParameterThatDifferAreAnError) {
  static const Tensor whole[] = {{"w", DType::F32, 1, {{kColumns}}, kWOffsets, 0, kTied}};
  Program program = training();
  program.parameters = whole;
  program.step = [](Rank &rank) {
    if (rank.rank() == 1)
      PLUMB_CUDA(cudaMemsetAsync(rank.at<float>(WShard), 0, 4, rank.stream(0)));
  };
  EXPECT_EQ(run(program), 1);
  EXPECT_THAT(error, HasSubstr("ranks 0 and 1 hold copies of parameter 'w' that differ"));
}

TEST_F(Threads, ATensorOutsideTheArenaIsAnError) {
  static const std::size_t outside[] = {Bytes0 - 4, kAbsent};
  static const Tensor parameters[] = {{"w", DType::F32, 1, {{kColumns}}, outside, 0, kTied}};
  Program program = training();
  program.parameters = parameters;
  EXPECT_EQ(run(program), 1);
  EXPECT_THAT(error, AllOf(HasSubstr("error: rank "), HasSubstr("the bytes of tensor 'w' leave the arena")));
}

TEST_F(Threads, AnAxisThatCutsTwiceIsAnError) {
  static const Tensor parameters[] = {
      {"w", DType::F32, 1, {{kColumns, 1, {{kDp}, {kDp}}}}, kWOffsets, 0, kTied}};
  Program program = training();
  program.parameters = parameters;
  EXPECT_EQ(run(program), 1);
  EXPECT_THAT(error, HasSubstr("tensor 'w' is cut twice by one axis"));
}

} // namespace
