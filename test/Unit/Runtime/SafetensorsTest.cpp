//===- SafetensorsTest.cpp - Reading and writing safetensors files --------------===//

#include "plumb/Runtime/Safetensors.h"
#include "plumb/Runtime/Failure.h"
#include "plumb/Runtime/TensorFile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sys/stat.h>

using namespace plumb;
using testing::HasSubstr;
namespace fs = std::filesystem;

namespace {

std::vector<std::byte> image(std::string_view header, std::size_t dataBytes) {
  std::vector<std::byte> result(8 + header.size() + dataBytes);
  for (std::size_t i = 0; i < 8; ++i)
    result[i] = static_cast<std::byte>(header.size() >> (8 * i));
  std::memcpy(result.data() + 8, header.data(), header.size());
  return result;
}

std::string errorOf(std::span<const std::byte> bytes) {
  try {
    parseSafetensors(bytes);
  } catch (const Failure &failure) {
    return failure.what();
  }
  return "";
}
std::string errorOf(std::string_view header, std::size_t dataBytes) {
  return errorOf(image(header, dataBytes));
}

TEST(Parse, AcceptsWhatTheFormatAllows) {
  EXPECT_EQ(errorOf("{}", 0), "");
  auto bytes = image(R"( {"__metadata__" : {"format":"pt", "a\"\u00e9\ud83d\ude00":"\n"},)"
                     R"("b":{"shape":[2,3],"data_offsets":[2,26],"dtype":"F32"},)"
                     R"("a":{"dtype":"BF16","shape":[],"data_offsets":[0,2]},)"
                     R"("none":{"dtype":"I64","shape":[0,9223372036854775807,2],"data_offsets":[2,2]}}   )",
                     26);
  auto views = parseSafetensors(bytes);
  ASSERT_EQ(views.size(), 3u);
  EXPECT_EQ(views.at("b").shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(views.at("b").data.size(), 24u);
  EXPECT_EQ(views.at("a").data.data() + 2, views.at("b").data.data());
  EXPECT_TRUE(views.at("none").data.empty());
}

TEST(Parse, RejectsMalformedImages) {
  EXPECT_THAT(errorOf(std::span<const std::byte>{}), HasSubstr("too few"));
  auto huge = image("{}", 0);
  huge[7] = std::byte{0xff};
  EXPECT_THAT(errorOf(huge), HasSubstr("the format allows 100000000"));
  auto beyond = image("{}", 0);
  beyond[0] = std::byte{3};
  EXPECT_THAT(errorOf(beyond), HasSubstr("the header claims 3 bytes, but the file has only 2"));

  // A header, the bytes of data after it, and a part of the message.
  const std::tuple<const char *, std::size_t, const char *> cases[] = {
      {"", 0, "expected '{'"},
      {"[]", 0, "expected '{'"},
      {"{", 0, "expected '\"'"},
      {R"({"a")", 0, "expected ':'"},
      {"{} x", 0, "something follows"},
      {"{,}", 0, "expected '\"'"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},})", 1, "expected '\"'"},
      {R"({"a":1})", 0, "expected '{'"},
      {R"({"a":{}})", 0, "lacks 'dtype'"},
      {R"({"a":{"dtype":"U8","shape":[1]}})", 1, "lacks 'data_offsets'"},
      {R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1, "two members 'dtype'"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":0}})", 1, "a member 'x'"},
      {R"({"a":{"dtype":"Q7","shape":[1],"data_offsets":[0,1]}})", 1, "unknown dtype 'Q7'"},
      {R"({"a":{"dtype":7,"shape":[1],"data_offsets":[0,1]}})", 1, "expected '\"'"},
      {R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1, "non-negative"},
      {R"({"a":{"dtype":"U8","shape":[1.5],"data_offsets":[0,1]}})", 1, "not an integer"},
      {R"({"a":{"dtype":"U8","shape":[1e2],"data_offsets":[0,1]}})", 1, "not an integer"},
      {R"({"a":{"dtype":"U8","shape":[01],"data_offsets":[0,1]}})", 1, "begins with 0"},
      {R"({"a":{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,1]}})", 1, "exceeds 2^63 - 1"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,1]}})", 1, "size exceeds"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1, "no pair"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}})", 1, "no pair"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", 1, "no pair"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 1,
       "ends at byte 2 of the data, but the file has 1"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,2]}})", 2,
       "occupies 2 bytes, but its shape and dtype need 4"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2, "begins at byte 1"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 2,
       "end at byte 1 of the data, but the file has 2"},
      {R"({"__metadata__":{},"__metadata__":{}})", 0, "two members '__metadata__'"},
      {R"({"__metadata__":{"a":1}})", 0, "expected '\"'"},
      {R"({"a\x":{}})", 0, "unknown escape"},
      {R"({"\u12g4":{}})", 0, "four hexadecimal digits"},
      {R"({"\ud800":{}})", 0, "half a surrogate"},
      {R"({"\ud800\u0041":{}})", 0, "half a surrogate"},
      {R"({"\udc00":{}})", 0, "half a surrogate"},
      {"{\"a\n\":{}}", 0, "control character"},
      {"{\"\xff\":{}}", 0, "not UTF-8"},
      {"{\"\xc3(\":{}}", 0, "not UTF-8"},
      {"{\"\xe0\x80\x80\":{}}", 0, "not UTF-8"},
      {"{\"\xed\xa0\x80\":{}}", 0, "not UTF-8"},
      {"{\"abc", 0, "does not end"},
  };
  for (const auto &[header, dataBytes, message] : cases)
    EXPECT_THAT(errorOf(header, dataBytes), HasSubstr(message)) << header;
}

TEST(Parse, RejectsTensorsThatDoNotTileTheData) {
  auto two = [](const char *first, const char *second, const char *offsets) {
    auto record = [](const char *name, const char *span) {
      return std::string("\"") + name + R"(":{"dtype":"U8","shape":[2],"data_offsets":)" + span + "}";
    };
    return "{" + record(first, "[0,2]") + "," + record(second, offsets) + "}";
  };
  EXPECT_EQ(errorOf(two("a", "b", "[2,4]"), 4), "");
  EXPECT_THAT(errorOf(two("a", "b", "[1,3]"), 3),
              HasSubstr("'b' begins at byte 1 of the data, but the tensor before it ends at byte 2"));
  EXPECT_THAT(errorOf(two("a", "b", "[3,5]"), 5), HasSubstr("'b' begins at byte 3"));
  EXPECT_THAT(errorOf(two("a", "b", "[0,2]"), 2), HasSubstr("'b' begins at byte 0"));
  EXPECT_THAT(errorOf(two("a", "a", "[2,4]"), 4), HasSubstr("two tensors are called 'a'"));
}

TEST(Parse, EveryTruncationAndManyMutationsAreMessages) {
  const auto valid =
      image(R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
            R"("b":{"dtype":"U8","shape":[3],"data_offsets":[16,19]}})",
            19);
  ASSERT_EQ(errorOf(valid), "");
  for (std::size_t size = 0; size < valid.size(); ++size)
    EXPECT_NE(errorOf(std::span(valid).first(size)), "");
  std::mt19937 engine(3);
  for (int i = 0; i < 20'000; ++i) {
    auto mutated = valid;
    for (int k = 0; k < 1 + i % 3; ++k)
      mutated[engine() % mutated.size()] = static_cast<std::byte>(engine());
    errorOf(mutated);
  }
}

class Files : public testing::Test {
protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "plumb-runtime-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder = pattern;
  }
  void TearDown() override { fs::remove_all(folder); }
  std::string path(const char *name) const { return (folder / name).string(); }
  std::string contents(const char *name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  fs::path folder;
};

TEST_F(Files, WhatIsWrittenIsRead) {
  std::vector<SafetensorsWriter::Entry> entries = {{"odd", "U8", {3}},
                                                   {"weird \"\\\n\x01 é", "F32", {2, 2}},
                                                   {"scalar", "F64", {}},
                                                   {"empty", "I64", {0, 4}}};
  for (const char *name : {"first", "second"}) {
    SafetensorsWriter writer(path(name), entries);
    for (std::size_t i = 0; i < entries.size(); ++i)
      std::ranges::fill(writer.data(i), static_cast<std::byte>(i + 1));
    EXPECT_FALSE(fs::exists(path(name)));
    writer.commit();
  }
  EXPECT_EQ(contents("first"), contents("second"));
  TensorFile file(path("first"));
  ASSERT_EQ(file.tensors().size(), 4u);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const TensorView *view = file.find(entries[i].name);
    ASSERT_NE(view, nullptr);
    EXPECT_EQ(view->dtype, entries[i].dtype);
    EXPECT_EQ(view->shape, entries[i].shape);
    for (std::byte byte : view->data)
      EXPECT_EQ(byte, static_cast<std::byte>(i + 1));
  }
  // Large elements come first, so every tensor is aligned.
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(file.find("scalar")->data.data()) % 8, 0u);
}

TEST_F(Files, AnAbandonedFileLeavesNothing) {
  {
    SafetensorsWriter writer(path("gone"), {{"a", "F32", {4}}});
  }
  EXPECT_TRUE(fs::is_empty(folder));
}

TEST_F(Files, ErrorsNameTheFile) {
  auto message = [](const auto &action) -> std::string {
    try {
      action();
    } catch (const Failure &failure) {
      return failure.what();
    }
    return "";
  };
  EXPECT_THAT(message([&] { TensorFile(path("missing")); }), HasSubstr("missing: cannot open: No such file"));
  EXPECT_THAT(message([&] { TensorFile{folder.string()}; }), HasSubstr("is not a regular file"));
  std::ofstream(path("empty")).flush();
  EXPECT_THAT(message([&] { TensorFile(path("empty")); }), HasSubstr("empty: the file has 0 bytes"));
  EXPECT_THAT(message([&] { SafetensorsWriter(path("no/such/folder"), {}); }), HasSubstr("cannot create"));
  // Folders, devices and pipes stay.
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  for (std::string other : {folder.string(), path("pipe")})
    EXPECT_THAT(message([&] { SafetensorsWriter(other, {}); }), HasSubstr(other + ": is not a regular file"));
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
  EXPECT_THAT(message([&] { SafetensorsWriter(path("twice"), {{"a", "F32", {}}, {"a", "F32", {}}}); }),
              HasSubstr("two tensors would be saved as 'a'"));
}

} // namespace
