//===- TensorFilesTest.cpp - Sets of tensors in several files ------------------===//

#include "plumb/Runtime/TensorFiles.h"
#include "plumb/Runtime/Failure.h"
#include "plumb/Runtime/Safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace plumb;
using testing::AllOf;
using testing::HasSubstr;

namespace fs = std::filesystem;

namespace {

class Sets : public testing::Test {
protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "plumb-sets-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder = pattern;
    write("one.safetensors", {"a", "shared"}, 1);
    write("two.safetensors", {"b", "shared"}, 2);
  }
  void TearDown() override { fs::remove_all(folder); }

  /// Tensors of one byte.
  void write(const char *file, const std::vector<std::string> &names, int value) {
    std::vector<SafetensorsWriter::Entry> entries;
    for (const std::string &name : names)
      entries.push_back({name, "U8", {1}});
    SafetensorsWriter writer((folder / file).string(), entries);
    for (std::size_t i = 0; i < names.size(); ++i)
      writer.data(i)[0] = static_cast<std::byte>(value);
    writer.commit();
  }
  std::string index(const std::string &text) {
    std::ofstream(folder / "index.json") << text;
    return (folder / "index.json").string();
  }
  std::string errorOf(const std::string &path) {
    try {
      TensorFiles files(path);
    } catch (const Failure &failure) {
      return failure.what();
    }
    return "";
  }
  static int valueOf(const TensorFiles &files, const char *name) {
    const TensorView *view = files.find(std::string_view(name));
    return view ? std::to_integer<int>(view->data[0]) : -1;
  }

  fs::path folder;
};

TEST_F(Sets, AFolderIsAllItsFiles) {
  TensorFiles files(folder.string());
  EXPECT_EQ(valueOf(files, "a"), 1);
  EXPECT_EQ(valueOf(files, "b"), 2);
  // An index beside them changes nothing.
  index("{\"weight_map\": {\"a\": \"nosuch\"}}");
  EXPECT_EQ(valueOf(TensorFiles(folder.string()), "b"), 2);
}

// As in a folder of checkpoints: nothing says which of them is meant.
TEST_F(Sets, ATensorInTwoFilesOfAFolderIsAnError) {
  TensorFiles files(folder.string());
  try {
    files.find(std::string_view("shared"));
    FAIL();
  } catch (const Failure &failure) {
    EXPECT_THAT(failure.what(),
                AllOf(HasSubstr("tensor 'shared' is in "), HasSubstr("one.safetensors and in "),
                      HasSubstr("two.safetensors; name one file, or an index")));
  }
}

TEST_F(Sets, AnIndexSaysWhichFileHasATensor) {
  TensorFiles files(index(R"( {"metadata": {"total_size": 4.0e0, "x": [null, true, "}", -1, {}]},
    "weight_map": {"a": "one.safetensors", "shared": "two.safetensors"}})"));
  EXPECT_EQ(valueOf(files, "a"), 1);
  EXPECT_EQ(valueOf(files, "shared"), 2);
  EXPECT_EQ(valueOf(files, "b"), -1);
}

TEST_F(Sets, AnIndexThatIsWrongIsAnError) {
  EXPECT_THAT(errorOf(index(R"({"weight_map": {"a": "one.safetensors", "b": "one.safetensors"}})")),
              HasSubstr("index.json: the index promises tensor 'b' in 'one.safetensors', which has none"));
  EXPECT_THAT(errorOf(index(R"({"weight_map": {"a": "three.safetensors"}})")),
              HasSubstr("three.safetensors: cannot open: No such file"));
  EXPECT_THAT(errorOf(index(R"({"weight_map": {"a": "index.json"}})")),
              HasSubstr("index.json: the header claims"));
  EXPECT_THAT(errorOf(index(R"({"weight_map": {"a": "."}})")), HasSubstr("not a regular file"));
  EXPECT_THAT(errorOf(index(R"({"weight_map": {}})")), HasSubstr("index.json: this is no index"));
  EXPECT_THAT(errorOf(index(R"({"metadata": {}})")), HasSubstr("it has no 'weight_map'"));
  EXPECT_THAT(errorOf(index(R"({"weight_map": {"a": 7}})")),
              HasSubstr("index.json: index, byte 21: expected '\"'"));
  EXPECT_THAT(errorOf(index(R"({"weight_map": {"a": "x", "a": "y"}})")),
              HasSubstr("two tensors are called 'a'"));
  EXPECT_THAT(errorOf(index(R"({"weight_map": {"a": "x"}} z)")), HasSubstr("something follows"));
  EXPECT_THAT(errorOf(index(R"({"metadata": {"x": 1x2}})")), HasSubstr("expected"));
}

} // namespace
