#include "plumb/Import/Pt2Archive.h"

#include "Archives.h"

#include <cstring>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace plumb;
using namespace plumb::pt2;
using namespace plumb::test;
using Json = nlohmann::json;

namespace {

std::string errorOf(const std::string &bytes) {
  Diagnostics diagnostics;
  EXPECT_EQ(Pt2Archive::read("model.pt2", bytes, diagnostics), nullptr);
  EXPECT_EQ(diagnostics.errorCount(), 1u) << diagnostics.str();
  return diagnostics.str();
}

#define EXPECT_ERROR(bytes, text)                                                                            \
  do {                                                                                                       \
    std::string found = errorOf(bytes);                                                                      \
    EXPECT_NE(found.find(text), std::string::npos) << found;                                                 \
  } while (false)

std::unique_ptr<Pt2Archive> open(const std::string &name) {
  Diagnostics diagnostics;
  std::unique_ptr<Pt2Archive> archive = Pt2Archive::open(fixture(name), diagnostics);
  EXPECT_EQ(diagnostics.str(), "");
  return archive;
}

void editJson(std::string &text, const std::function<void(Json &)> &edit) {
  Json json = Json::parse(text);
  edit(json);
  text = json.dump();
}

} // namespace

TEST(Pt2Archive, AnMlpIsRead) {
  std::unique_ptr<Pt2Archive> archive = open("mlp.pt2");
  ASSERT_TRUE(archive);
  const ExportedProgram &program = archive->program();
  EXPECT_EQ(program.torchVersion, "2.14.1+debian");
  ASSERT_EQ(program.graph.nodes.size(), 6u);
  const Node &linear = program.graph.nodes[0];
  EXPECT_EQ(linear.target, "torch.ops.aten.linear.default");
  EXPECT_EQ(linear.modules.back().fqn, "fc1");
  EXPECT_EQ(linear.frame->str(), "/models/make_fixtures.py:21");
  EXPECT_EQ(program.graph.nodes[2].target, "torch.ops.pippy._pipe_split.default");
  EXPECT_EQ(program.graph.nodes[2].frame->line, 21u);
  EXPECT_TRUE(program.graph.nodes[2].outputs.empty());
  EXPECT_EQ(program.inputs[0].name, "fc1.weight");
  EXPECT_EQ(program.inputs.back().name, "x");
  EXPECT_EQ(program.outputs[0].name, "");
  std::vector<std::string> modules;
  for (const Module &module : program.modules)
    modules.push_back(module.fqn);
  EXPECT_EQ(modules, (std::vector<std::string>{"", "fc1", "fc2", "fc3"}));
  EXPECT_TRUE(archive->aliases().empty());
  EXPECT_TRUE(archive->weight("fc1.weight")->meta.requiresGrad);
}

TEST(Pt2Archive, WeightsOfAModelHaveTheValuesThatPyTorchWrote) {
  std::unique_ptr<Pt2Archive> archive = open("mlp.pt2");
  Archive raw = Archive::read(fixture("mlp.pt2"));
  Diagnostics diagnostics;
  std::optional<std::vector<std::byte>> bytes = archive->bytes("fc1.weight", diagnostics);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(bytes->size(), 32u * 16 * 4);
  EXPECT_EQ(std::memcmp(bytes->data(), raw["weight_0"].data(), bytes->size()), 0);
  EXPECT_FALSE(archive->bytes("fc1.weigth", diagnostics));
  EXPECT_NE(diagnostics.str().find("has no weight \"fc1.weigth\"; did you mean \"fc1.weight\"?"),
            std::string::npos);
}

TEST(Pt2Archive, TiedWeightsAreOneTensorUnderTheFirstName) {
  std::unique_ptr<Pt2Archive> archive = open("gpt2_tiny.pt2");
  ASSERT_TRUE(archive);
  EXPECT_EQ(archive->aliases(), (std::vector<std::vector<std::string>>{{"wte.weight", "lm_head.weight"}}));
  Diagnostics diagnostics;
  EXPECT_EQ(archive->bytes("wte.weight", diagnostics), archive->bytes("lm_head.weight", diagnostics));
  EXPECT_EQ(archive->program().inputs.rbegin()[1].name, "idx");
  EXPECT_EQ(archive->program().inputs.rbegin()[0].name, "targets");
}

TEST(Pt2Archive, CompressedArchivesAndOtherRootsAreRead) {
  Archive archive = Archive::read(fixture("mlp.pt2"));
  Diagnostics diagnostics;
  EXPECT_TRUE(Pt2Archive::read("m", archive.bytes(/*compress=*/true), diagnostics)) << diagnostics.str();
  for (auto &[name, content] : archive.entries)
    name = name.substr(name.find('/') + 1);
  EXPECT_TRUE(Pt2Archive::read("m", archive.bytes(), diagnostics)) << diagnostics.str();
  for (auto &[name, content] : archive.entries)
    name = "some name/" + name;
  archive.erase("archive_version");
  archive.erase("byteorder");
  EXPECT_TRUE(Pt2Archive::read("m", archive.bytes(), diagnostics)) << diagnostics.str();
}

TEST(Pt2Archive, ThePublishedNamesOfTheConfigsAreReadToo) {
  Archive archive = Archive::read(fixture("mlp.pt2"));
  for (auto &[name, content] : archive.entries)
    if (size_t at = name.find("_weights_config"); at != std::string::npos)
      name.replace(at, 15, "_model_param_config");
    else if (at = name.find("_constants_config"); at != std::string::npos)
      name.replace(at, 17, "_model_constants_config");
  Diagnostics diagnostics;
  EXPECT_TRUE(Pt2Archive::read("m", archive.bytes(), diagnostics)) << diagnostics.str();
}

TEST(Pt2Archive, ModelsWithoutWeightsStillHaveAGraph) {
  Archive archive = Archive::read(fixture("mlp.pt2"));
  for (auto &[name, content] : archive.entries)
    if (name.find("weights/weight_") != std::string::npos)
      content.clear();
  Diagnostics diagnostics;
  std::unique_ptr<Pt2Archive> read = Pt2Archive::read("m", archive.bytes(), diagnostics);
  ASSERT_TRUE(read) << diagnostics.str();
  EXPECT_FALSE(read->weight("fc1.weight")->hasBytes());
  EXPECT_FALSE(read->bytes("fc1.weight", diagnostics));
  EXPECT_NE(diagnostics.str().find("exported with fake or meta weights"), std::string::npos);
}

TEST(Pt2Archive, WhatIsNoArchiveIsSaidToBeNone) {
  EXPECT_ERROR("", "this archive is empty");
  EXPECT_ERROR("hello", "not a complete ZIP archive");
  std::string whole = readFile(fixture("mlp.pt2"));
  EXPECT_ERROR(whole.substr(0, whole.size() / 2), "not a complete ZIP archive");
  Diagnostics diagnostics;
  EXPECT_FALSE(Pt2Archive::open("/nonexistent.pt2", diagnostics));
  EXPECT_EQ(diagnostics.str(), "/nonexistent.pt2: error: cannot open this file: No such file\n");
  EXPECT_TRUE(Pt2Archive::looksLikeArchive(whole));
  EXPECT_FALSE(Pt2Archive::looksLikeArchive("{}"));
}

TEST(Pt2Archive, OtherFormatsOfPyTorchAreNamed) {
  Archive older{{{"version", "8.2"}, {"serialized_exported_program.json", "{}"}}};
  EXPECT_ERROR(older.bytes(), "written by PyTorch 2.7 or older");
  Archive checkpoint{{{"archive/data.pkl", "x"}, {"archive/version", "3"}}};
  EXPECT_ERROR(checkpoint.bytes(), "a checkpoint of torch.save");
  Archive script{{{"m/data.pkl", "x"}, {"m/constants.pkl", "x"}, {"m/code/__torch__.py", ""}}};
  EXPECT_ERROR(script.bytes(), "a TorchScript archive");
  Archive other{{{"word/document.xml", "x"}}};
  EXPECT_ERROR(other.bytes(), "it has no entry \"word/archive_format\"");
  Archive pickled = Archive::read(fixture("mlp.pt2"));
  pickled.erase("_weights_config.json");
  pickled.entries.emplace_back("mlp/data/weights/model.pt", "x");
  EXPECT_ERROR(pickled.bytes(), "written by PyTorch 2.8");
}

TEST(Pt2Archive, WrongFormatVersionAndByteOrderAreRefused) {
  Archive archive = Archive::read(fixture("mlp.pt2"));
  Archive changed = archive;
  changed["archive_format"] = "onnx";
  EXPECT_ERROR(changed.bytes(), "the format of this archive is \"onnx\", not \"pt2\"");
  changed = archive;
  changed["archive_version"] = "1";
  EXPECT_ERROR(changed.bytes(), "the version of this archive is \"1\"");
  changed = archive;
  changed["byteorder"] = "big";
  EXPECT_ERROR(changed.bytes(), "\"big\"-endian");
}

TEST(Pt2Archive, MissingEntriesAreNamed) {
  Archive archive = Archive::read(fixture("mlp.pt2"));
  for (const auto &[suffix, message] : std::vector<std::pair<std::string, std::string>>{
           {"models/model.json", "there is no entry \"mlp/models/model.json\""},
           {"model_weights_config.json",
            "the entry \"mlp/data/weights/model_weights_config.json\" is missing"},
           {"model_constants_config.json",
            "the entry \"mlp/data/constants/model_constants_config.json\" is missing"},
           {"weight_3",
            "the archive has no record \"weight_3\" for \"fc2.bias\" (at /config/fc2.bias/path_name)"}}) {
    Archive changed = archive;
    changed.erase(suffix);
    EXPECT_ERROR(changed.bytes(), message);
  }
}

TEST(Pt2Archive, SeveralProgramsNeedOneCalledModel) {
  Archive archive = Archive::read(fixture("mlp.pt2"));
  archive.entries.emplace_back("mlp/models/other.json", "{}");
  Diagnostics diagnostics;
  EXPECT_TRUE(Pt2Archive::read("m", archive.bytes(), diagnostics));
  for (auto &[name, content] : archive.entries)
    if (name == "mlp/models/model.json")
      name = "mlp/models/encoder.json";
  EXPECT_ERROR(archive.bytes(), "several programs, none of them called \"model\": \"encoder\", \"other\"");
}

TEST(Pt2Archive, RecordsThatDoNotFitTheirTensorsAreRefused) {
  Archive archive = Archive::read(fixture("mlp.pt2"));
  Archive changed = archive;
  changed["weight_0"].pop_back();
  EXPECT_ERROR(changed.bytes(), "\"fc1.weight\" is a view of float32[32, 16] that ends behind its record");
  auto edited = [&](const std::function<void(Json &)> &edit) {
    Archive copy = archive;
    editJson(copy["model_weights_config.json"], [&](Json &json) { edit(json["config"]["fc1.weight"]); });
    return copy.bytes();
  };
  EXPECT_ERROR(edited([](Json &w) { w["tensor_meta"]["storage_offset"]["as_int"] = 1; }),
               "ends behind its record");
  EXPECT_ERROR(edited([](Json &w) { w["tensor_meta"]["strides"][0]["as_int"] = INT64_MAX; }),
               "ends behind its record");
  EXPECT_ERROR(edited([](Json &w) { w["tensor_meta"]["sizes"][0]["as_int"] = 31; }),
               "\"fc1.weight\" is float32[32, 16] in the program, but stored as float32[31, 16]");
  EXPECT_ERROR(edited([](Json &w) { w["tensor_meta"]["layout"] = 1; }), "stored sparse");
  EXPECT_ERROR(edited([](Json &w) {
                 w["tensor_meta"]["sizes"][0]["as_int"] = int64_t(1) << 50;
                 w["tensor_meta"]["strides"][0]["as_int"] = 0;
               }),
               "expands a record of 2048 bytes");
}

TEST(Pt2Archive, WeightsThatTheProgramNeedsMustBeThere) {
  Archive archive = Archive::read(fixture("mlp.pt2"));
  editJson(archive["model_weights_config.json"], [](Json &json) { json["config"].erase("fc3.bias"); });
  EXPECT_ERROR(archive.bytes(),
               "the program uses \"fc3.bias\", but no weights config of the archive names it");
}

TEST(Pt2Archive, PickledWeightsAreRefusedWhenTheyAreRead) {
  Archive archive = Archive::read(fixture("mlp.pt2"));
  editJson(archive["model_weights_config.json"],
           [](Json &json) { json["config"]["fc1.bias"]["use_pickle"] = true; });
  Diagnostics diagnostics;
  std::unique_ptr<Pt2Archive> read = Pt2Archive::read("m", archive.bytes(), diagnostics);
  ASSERT_TRUE(read) << diagnostics.str();
  EXPECT_FALSE(read->bytes("fc1.bias", diagnostics));
  EXPECT_NE(diagnostics.str().find("stored as a Python pickle"), std::string::npos);
}

TEST(Pt2Archive, ViewsWithStridesAreReadRowMajor) {
  Archive archive = Archive::read(fixture("mlp.pt2"));
  editJson(archive["model_weights_config.json"], [](Json &json) {
    json["config"]["fc1.weight"]["tensor_meta"]["strides"] = {{{"as_int", 1}}, {{"as_int", 32}}};
  });
  const float *stored = reinterpret_cast<const float *>(archive["weight_0"].data());
  Diagnostics diagnostics;
  std::unique_ptr<Pt2Archive> read = Pt2Archive::read("m", archive.bytes(), diagnostics);
  std::vector<std::byte> bytes = *read->bytes("fc1.weight", diagnostics);
  const float *values = reinterpret_cast<const float *>(bytes.data());
  for (int row = 0; row < 32; ++row)
    for (int column = 0; column < 16; ++column)
      EXPECT_EQ(values[row * 16 + column], stored[column * 32 + row]);
}

TEST(Pt2Archive, DamagedRecordsAreFoundByTheirChecksum) {
  std::string bytes = readFile(fixture("mlp.pt2"));
  std::string record = Archive::read(fixture("mlp.pt2"))["weight_2"];
  bytes[bytes.find(record) + 100] ^= 1;
  Diagnostics diagnostics;
  std::unique_ptr<Pt2Archive> read = Pt2Archive::read("m", bytes, diagnostics);
  ASSERT_TRUE(read);
  EXPECT_FALSE(read->bytes("fc2.weight", diagnostics));
  EXPECT_NE(diagnostics.str().find("cannot read the entry \"mlp/data/weights/weight_2\": CRC error"),
            std::string::npos)
      << diagnostics.str();
}

TEST(Pt2Archive, NoTruncationOrChangedByteCrashes) {
  std::string bytes = readFile(fixture("mlp.pt2"));
  for (size_t length = 0; length < bytes.size(); length += 211) {
    Diagnostics diagnostics;
    EXPECT_FALSE(Pt2Archive::read("m", bytes.substr(0, length), diagnostics));
    EXPECT_TRUE(diagnostics.hasErrors());
  }
  for (size_t at = 0; at < bytes.size(); at += 61) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] * 31 + 7);
    Diagnostics diagnostics;
    std::unique_ptr<Pt2Archive> read = Pt2Archive::read("m", changed, diagnostics);
    EXPECT_EQ(read == nullptr, diagnostics.hasErrors());
    if (read)
      for (const Weight &weight : read->weights())
        read->bytes(weight.fqn, diagnostics);
  }
}
