// What is kept on disk, what is shared, and what is refused.
#include "KernelHarness.h"
#include "KernelText.h"

#include "llvm/ADT/STLExtras.h"

#include <filesystem>
#include <fstream>
#include <iterator>

using namespace plumb;
using namespace plumb::test;

namespace {

std::string scale(const std::string &name, const std::string &factor) {
  std::string type = tensor({40});
  return "func.func @" + name + "(%x: " + type + ") -> " + type + " {\n" + filled("%e", type) +
         generic("%y", "i", "i | i", {"%x"}, {type}, "%e", type,
                 "\n  ^bb0(%v: f32, %o: f32):\n    %c = arith.constant " + factor +
                     " : f32\n    %r = arith.mulf %v, %c : f32\n    linalg.yield %r : f32\n") +
         "  return %y : " + type + "\n}\n";
}

std::string bytesOf(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(KernelCache, EqualBodiesShareAnObject) {
  LoadedKernels loaded(scale("k_a", "2.0") + scale("k_b", "3.0") + scale("k_c", "2.0") +
                       scale("other", "4.0"));
  ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
  ASSERT_EQ(loaded.kernels().size(), 3u);
  EXPECT_EQ(loaded.kernels()[0].name, "k_a");
  EXPECT_EQ(loaded.kernels()[2].name, "k_c");
  EXPECT_EQ(loaded.kernels()[0].symbol, loaded.kernels()[2].symbol);
  EXPECT_EQ(loaded.kernels()[0].objectPath, loaded.kernels()[2].objectPath);
  EXPECT_NE(loaded.kernels()[0].symbol, loaded.kernels()[1].symbol);
}

TEST(KernelCache, SameInputSameBytes) {
  TemporaryDirectory directory;
  KernelOptions options;
  options.cacheDirectory = directory.path;
  options.useCache = false;
  std::string first;
  for (unsigned threads : {1, 2, 4}) {
    options.threads = threads;
    LoadedKernels loaded(scale("k_a", "2.0") + scale("k_b", "3.0") + scale("k_c", "5.0"), options);
    ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
    std::string all;
    for (const CompiledKernel &kernel : loaded.kernels())
      all += bytesOf(kernel.objectPath);
    if (first.empty())
      first = all;
    EXPECT_EQ(all, first);
  }
}

TEST(KernelCache, DamagedEntriesAreRebuilt) {
  TemporaryDirectory directory;
  KernelOptions options;
  options.cacheDirectory = directory.path;
  std::string text = scale("k_a", "2.0"), path, good;
  {
    LoadedKernels loaded(text, options);
    ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
    path = loaded.kernels()[0].objectPath;
    good = bytesOf(path);
  }
  for (size_t keep : {size_t(0), good.size() / 2, good.size() - 1}) {
    std::ofstream(path, std::ios::binary) << good.substr(0, keep);
    LoadedKernels loaded(text, options);
    ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
    EXPECT_EQ(bytesOf(path), good);
  }
  std::string flipped = good;
  flipped[100] ^= 1;
  std::ofstream(path, std::ios::binary) << flipped;
  LoadedKernels loaded(text, options);
  EXPECT_EQ(bytesOf(path), good);
}

TEST(KernelCache, EntriesAreUsed) {
  TemporaryDirectory directory;
  KernelOptions options;
  options.cacheDirectory = directory.path;
  std::string text = scale("k_a", "2.0");
  LoadedKernels first(text, options);
  ASSERT_TRUE(first.ok());
  auto written = std::filesystem::last_write_time(first.kernels()[0].objectPath);
  LoadedKernels second(text, options);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(std::filesystem::last_write_time(second.kernels()[0].objectPath), written);
  options.cpu = "x86-64-v2";
  LoadedKernels other(text, options);
#if defined(__x86_64__)
  ASSERT_TRUE(other.ok()) << other.diagnostics();
  EXPECT_NE(other.kernels()[0].symbol, first.kernels()[0].symbol);
#endif
}

TEST(KernelCache, UnusableDirectory) {
  KernelOptions options;
  options.cacheDirectory = "/dev/null/nowhere";
  LoadedKernels loaded(scale("k_a", "2.0"), options);
  ASSERT_TRUE(loaded.ok()) << loaded.diagnostics();
  std::filesystem::path object = loaded.kernels()[0].objectPath;
  EXPECT_TRUE(std::filesystem::exists(object));
  std::filesystem::remove_all(object.parent_path());
}

void expectError(const std::string &text, const std::string &message, KernelOptions options = {}) {
  LoadedKernels loaded(text, options);
  EXPECT_FALSE(loaded.ok());
  EXPECT_NE(loaded.diagnostics().find(message), std::string::npos) << loaded.diagnostics();
}

TEST(KernelErrors, Contract) {
  expectError("func.func @k_f(%x: tensor<?xf32>) -> tensor<?xf32> {\n  return %x : tensor<?xf32>\n}",
              "argument 0 of a kernel must be a ranked tensor of static shape, not 'tensor<?xf32>'");
  expectError("func.func @k_f(%x: f32) {\n  return\n}", "argument 0 of a kernel must be a ranked tensor");
  expectError("func.func @k_f(%x: tensor<2xindex>) {\n  return\n}", "has elements of type 'index'");
  expectError(
      "func.func @k_f(%x: tensor<2xf32> {plumb.inout, plumb.result = 1}) -> tensor<2xf32> {\n  return %x : "
      "tensor<2xf32>\n}",
      "plumb.result names none of the 1 results");
  expectError(
      "func.func @k_f(%x: tensor<2xf32> {plumb.inout}) -> tensor<2xf32> {\n  return %x : tensor<2xf32>\n}",
      "plumb.result names none of the 1 results");
  expectError("func.func @k_f(%x: tensor<2xf32> {plumb.inout, plumb.result = 0}, %y: tensor<3xf32>) -> "
              "tensor<3xf32> {\n  "
              "return %y : tensor<3xf32>\n}",
              "cannot be written into argument 0");
  expectError("func.func @k_f(%x: tensor<2xf32> {plumb.inout, plumb.result = 0}, %y: tensor<2xf32> "
              "{plumb.inout, plumb.result = "
              "0}) -> tensor<2xf32> {\n  return %y : tensor<2xf32>\n}",
              "is tied to arguments 0 and 1");
  KernelOptions options;
  options.cpu = "abacus";
  expectError(scale("k_a", "2.0"), "'abacus' is not a cpu of", options);
}

TEST(KernelErrors, OpsOutsideTheContract) {
  expectError(R"(
func.func private @elsewhere(tensor<2xf32>) -> tensor<2xf32>
func.func @k_f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = func.call @elsewhere(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
})",
              "k_f: ");
}

} // namespace
