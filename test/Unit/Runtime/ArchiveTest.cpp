//===- ArchiveTest.cpp - The tensors of torch.export archives ------------------===//

#include "plumb/Runtime/Archive.h"
#include "plumb/Runtime/Failure.h"
#include "plumb/Runtime/ZipDirectory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

using namespace plumb;
using testing::HasSubstr;

namespace {

//===----------------------------------------------------------------------===//
// Archives by hand
//===----------------------------------------------------------------------===//

struct Entry {
  std::string name, content;
  std::uint64_t method = 0, flags = 0;
};

std::string number(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i)
    text += static_cast<char>(i < 8 ? value >> (8 * i) : 0);
  return text;
}

/// `large`: sizes, offsets and counts are where zip64 puts them.
std::string zip(const std::vector<Entry> &entries, bool large = false, const std::string &comment = "") {
  std::string file, directory;
  auto field = [&](std::uint64_t value) { return number(large ? 0xffffffff : value, 4); };
  for (const Entry &entry : entries) {
    std::uint64_t size = entry.content.size(), header = file.size();
    std::string common = number(45, 2) + number(entry.flags, 2) + number(entry.method, 2) + number(0, 8) +
                         field(size) + field(size) + number(entry.name.size(), 2);
    std::string sizes = number(size, 8) + number(size, 8), padding = number(7, 2) + number(3, 2) + "xyz";
    std::string extra = large ? number(1, 2) + number(16, 2) + sizes + padding : padding;
    file += "PK\3\4" + common + number(extra.size(), 2) + entry.name + extra + entry.content;
    extra = large ? padding + number(1, 2) + number(24, 2) + sizes + number(header, 8) : padding;
    directory += "PK\1\2" + number(45, 2) + common + number(extra.size(), 2) + number(0, 2) + number(0, 8) +
                 field(header) + entry.name + extra;
  }
  std::uint64_t begin = file.size(), end = begin + directory.size(), count = entries.size();
  file += directory;
  if (large)
    file += "PK\6\6" + number(44, 8) + number(0, 12) + number(count, 8) + number(count, 8) +
            number(directory.size(), 8) + number(begin, 8) + "PK\6\7" + number(0, 4) + number(end, 8) +
            number(1, 4);
  std::string shortCount = number(large ? 0xffff : count, 2);
  return file + "PK\5\6" + number(0, 4) + shortCount + shortCount + field(directory.size()) + field(begin) +
         number(comment.size(), 2) + comment;
}

std::span<const std::byte> bytesOf(const std::string &text) { return std::as_bytes(std::span(text)); }

std::string meta(const std::string &sizes, const std::string &strides, int offset, int dtype = 7) {
  auto list = [](std::string numbers) {
    std::string text;
    for (char c : numbers)
      text += (text.empty() ? "" : ",") + std::string("{\"as_int\":") + c + "}";
    return "[" + text + "]";
  };
  return R"({"dtype":)" + std::to_string(dtype) + R"(,"sizes":)" + list(sizes) +
         R"(,"requires_grad":true,"device":{"type":"cpu","index":null},"strides":)" + list(strides) +
         R"(,"storage_offset":{"as_int":)" + std::to_string(offset) + R"(},"layout":7})";
}

std::string weight(const std::string &name, const std::string &file, const std::string &meta,
                   bool isPickled = false) {
  return "\"" + name + R"(":{"path_name":")" + file + R"(","is_param":true,"use_pickle":)" +
         (isPickled ? "true" : "false") + R"(,"tensor_meta":)" + meta + "}";
}

std::string config(const std::vector<std::string> &weights) {
  std::string text;
  for (const std::string &weight : weights)
    text += (text.empty() ? "" : ",") + weight;
  return "{\"config\":{" + text + "}}";
}

/// Six floats 0 … 5.
std::string floats() {
  std::string text(24, '\0');
  for (std::size_t i = 0; i < 6; ++i) {
    auto value = static_cast<float>(i);
    std::memcpy(&text[4 * i], &value, 4);
  }
  return text;
}

std::vector<Entry> archive(const std::string &weights, const std::string &constants = config({})) {
  return {{"m/data/weights/weight_0", floats()},
          {"m/data/weights/weight_1", ""},
          {"m/data/weights/model_weights_config.json", weights},
          {"m/data/constants/tensor_0", floats()},
          {"m/data/constants/model_constants_config.json", constants},
          {"m/archive_format", "pt2"},
          {"m/archive_version", "0"},
          {"m/byteorder", "little\n"}};
}

std::vector<Entry> usual() {
  return archive(
      config({weight("w", "weight_0", meta("23", "31", 0)), weight("tied", "weight_0", meta("23", "31", 0)),
              weight("turned", "weight_0", meta("32", "13", 0)), weight("row", "weight_0", meta("3", "1", 3)),
              weight("fake", "weight_1", meta("2", "1", 0)), weight("none", "weight_1", meta("0", "1", 0)),
              weight("pickled", "weight_0", meta("2", "1", 0), true),
              weight("complex", "weight_0", meta("2", "1", 0, 10)), weight("object", "weight_0", "null")}),
      config({weight("c", "tensor_0", meta("2", "1", 4))}));
}

std::vector<float> valuesOf(const TensorView &view) {
  std::vector<float> values(view.bytes() / 4);
  view.copy(0, view.bytes(), reinterpret_cast<std::byte *>(values.data()));
  return values;
}

std::string errorOf(const std::string &file) {
  try {
    parseArchive(bytesOf(file));
  } catch (const Failure &failure) {
    return failure.what();
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Tests
//===----------------------------------------------------------------------===//

TEST(Archive, GivesViewsOfWhatIsStored) {
  for (bool large : {false, true})
    for (const char *comment : {"", "PK\5\6 is how a directory ends"}) {
      std::string file = zip(usual(), large, comment);
      ArchiveTensors tensors = parseArchive(bytesOf(file));
      EXPECT_EQ(valuesOf(tensors.views.at("w")), (std::vector<float>{0, 1, 2, 3, 4, 5}));
      EXPECT_EQ(valuesOf(tensors.views.at("turned")), (std::vector<float>{0, 3, 1, 4, 2, 5}));
      EXPECT_EQ(valuesOf(tensors.views.at("row")), (std::vector<float>{3, 4, 5}));
      EXPECT_EQ(valuesOf(tensors.views.at("c")), (std::vector<float>{4, 5}));
      EXPECT_TRUE(valuesOf(tensors.views.at("none")).empty());
      // Nothing is copied.
      const std::byte *data = tensors.views.at("w").data.data();
      EXPECT_EQ(data, tensors.views.at("tied").data.data());
      EXPECT_TRUE(data > bytesOf(file).data() && data < bytesOf(file).data() + file.size());
      EXPECT_EQ(tensors.views.size(), 6u);
      EXPECT_THAT(tensors.unreadable.at("fake"),
                  HasSubstr("no values: the model was exported with fake or meta"));
      EXPECT_THAT(tensors.unreadable.at("pickled"), HasSubstr("Python pickle"));
      EXPECT_THAT(tensors.unreadable.at("complex"), HasSubstr("the element type 10"));
      EXPECT_EQ(tensors.unreadable.size(), 3u);
    }
}

TEST(Archive, OtherSpellingsAreRead) {
  std::vector<Entry> entries = usual();
  for (Entry &entry : entries) {
    entry.name = entry.name.substr(2);
    if (auto at = entry.name.find("model_weights_config"); at != std::string::npos)
      entry.name.replace(at, 20, "other_model_param_config");
    if (auto at = entry.name.find("model_constants_config"); at != std::string::npos)
      entry.name.replace(at, 22, "other_model_constants_config");
    if (entry.content == config({weight("c", "tensor_0", meta("2", "1", 4))}))
      entry.content = config({weight("c", "tensor_0",
                                     R"({"meta":{"dtype":7,"sizes":[{"as_int":2}],)"
                                     R"("strides":[{"as_int":1}],"storage_offset":4}})")});
  }
  std::string file = zip(entries);
  ArchiveTensors tensors = parseArchive(bytesOf(file));
  EXPECT_EQ(valuesOf(tensors.views.at("row")), (std::vector<float>{3, 4, 5}));
  EXPECT_EQ(valuesOf(tensors.views.at("c")), (std::vector<float>{4, 5}));
}

TEST(Archive, WhatCannotBeReadIsSaid) {
  auto changed = [](const std::string &name, const std::function<void(Entry &)> &change) {
    std::vector<Entry> entries = usual();
    for (Entry &entry : entries)
      if (entry.name.ends_with(name))
        change(entry);
    return errorOf(zip(entries));
  };
  auto of = [](const std::string &weights) { return errorOf(zip(archive(weights))); };
  ASSERT_EQ(of(config({})), "");
  EXPECT_THAT(changed("weight_0", [](Entry &entry) { entry.method = 8; }),
              HasSubstr("the entry 'm/data/weights/weight_0' is compressed or encrypted"));
  EXPECT_THAT(changed("weight_0", [](Entry &entry) { entry.flags = 1; }),
              HasSubstr("compressed or encrypted"));
  EXPECT_THAT(changed("weight_0", [](Entry &entry) { entry.content.pop_back(); }),
              HasSubstr("'w' leaves the entry 'm/data/weights/weight_0', which has 23 bytes"));
  EXPECT_THAT(changed("weight_0", [](Entry &entry) { entry.name += "0"; }),
              HasSubstr("the archive has no entry 'm/data/weights/weight_0', which is to hold 'w'"));
  EXPECT_THAT(
      changed("archive_format", [](Entry &entry) { entry.name = "m/data.pkl"; }),
      HasSubstr("this ZIP archive is no .pt2 of torch.export.save: it has no entry 'archive_format'"));
  EXPECT_THAT(changed("archive_format", [](Entry &entry) { entry.content = "onnx"; }),
              HasSubstr("'archive_format' of this archive is 'onnx', but only 'pt2' can be read"));
  EXPECT_THAT(changed("archive_version", [](Entry &entry) { entry.content = "1"; }),
              HasSubstr("only '0' can"));
  EXPECT_THAT(changed("byteorder", [](Entry &entry) { entry.content = "big"; }),
              HasSubstr("only 'little' can"));
  EXPECT_THAT(
      changed("model_weights_config.json", [](Entry &entry) { entry.name += "~"; }),
      HasSubstr("no entry 'm/data/weights/model_weights_config.json', which says where its tensors are"));
  EXPECT_THAT(errorOf(zip({{"archive_format", "pt2"},
                           {"data/weights/a_weights_config.json", config({})},
                           {"data/weights/b_weights_config.json", config({})}})),
              HasSubstr("several programs, none of them called 'model'"));
  EXPECT_THAT(of("{}"), HasSubstr("m/data/weights/model_weights_config.json lacks 'config'"));
  EXPECT_THAT(of("{\"config\":["),
              HasSubstr("m/data/weights/model_weights_config.json, byte 10: expected '{'"));
  EXPECT_THAT(of(config({weight("w", "weight_0", "7")})), HasSubstr("expected '{'"));
  EXPECT_THAT(of(config({weight("w", "weight_0", "{\"sizes\":[-1]}")})), HasSubstr("non-negative"));
  EXPECT_THAT(of(config({weight("w", "weight_0", meta("23", "3", 0))})), HasSubstr("'w' leaves the entry"));
  EXPECT_THAT(of(config({"\"w\":{\"use_pickle\":1}"})), HasSubstr("expected true or false"));
  EXPECT_THAT(of("{\"x\":" + std::string(100'000, '[') + "}"), HasSubstr("nested more than"));
  EXPECT_THAT(of("{\"x\":nul}"), HasSubstr("expected a value"));
}

TEST(Archive, TruncationsAndDamagesAreMessages) {
  for (bool large : {false, true}) {
    const std::string valid = zip(usual(), large);
    ASSERT_EQ(errorOf(valid), "");
    for (std::size_t size = 0; size < valid.size(); ++size)
      EXPECT_THAT(errorOf(valid.substr(0, size)), HasSubstr("ZIP archive")) << size;
    std::mt19937 engine(3);
    for (int i = 0; i < 20'000; ++i) {
      std::string damaged = valid;
      for (int k = 0; k < 1 + i % 3; ++k)
        damaged[engine() % damaged.size()] = static_cast<char>(engine());
      errorOf(damaged);
    }
  }
}

} // namespace
