//===- Programs.h - Small programs to import ---------------------*- C++ -*-===//

#ifndef PLUMB_TEST_UNIT_IMPORT_PROGRAMS_H
#define PLUMB_TEST_UNIT_IMPORT_PROGRAMS_H

#include "Archives.h"

#include "plumb/Dialect/NN/NN.h"
#include "plumb/Dialect/Plumb/Plumb.h"
#include "plumb/Dialect/Registration.h"
#include "plumb/Import/ImportModel.h"

#include "mlir/IR/BuiltinOps.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

namespace plumb::test {

using Json = nlohmann::json;
constexpr int kFloat = 7, kLong = 5, kByte = 1;

inline Json tensor(const std::string &name) { return {{"as_tensor", {{"name", name}}}}; }
inline Json integer(int64_t value) { return {{"as_int", value}}; }
inline Json integers(std::vector<int64_t> values) { return {{"as_ints", values}}; }

struct Tensor {
  std::vector<int64_t> sizes;
  int dtype = kFloat;

  Json meta() const {
    Json result = {
        {"dtype", dtype}, {"sizes", Json::array()}, {"strides", Json::array()}, {"requires_grad", false}};
    for (int64_t size : sizes) {
      result["sizes"].push_back({{"as_int", size}});
      result["strides"].push_back({{"as_int", 1}});
    }
    return result;
  }
};

using Arguments = std::vector<std::pair<std::string, Json>>;

/// An archive of a model with inputs called x0, x1, … and any nodes. The last node's results are its outputs.
struct Program {
  Json graph = {{"inputs", Json::array()},
                {"outputs", Json::array()},
                {"nodes", Json::array()},
                {"tensor_values", Json::object()}};
  Json inputSpecs = Json::array();

  explicit Program(const std::vector<Tensor> &inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      std::string name = "x" + std::to_string(i);
      graph["inputs"].push_back(tensor(name));
      graph["tensor_values"][name] = inputs[i].meta();
      inputSpecs.push_back({{"user_input", {{"arg", tensor(name)}}}});
    }
  }

  Program &node(const std::string &target, const Arguments &arguments, const std::vector<Tensor> &results,
                bool isList = false) {
    std::string id = "n" + std::to_string(graph["nodes"].size());
    Json node = {{"target", "torch.ops.aten." + target},
                 {"name", id},
                 {"inputs", Json::array()},
                 {"outputs", Json::array()}};
    node["metadata"] = {{"nn_module_stack", "L__self__,,M;L__self__a.b,a.b,pkg.Part"},
                        {"stack_trace", "File \"/m/model.py\", line 7, in forward\n    y = f(x)"}};
    for (const auto &[name, value] : arguments)
      node["inputs"].push_back({{"name", name}, {"arg", value}, {"kind", 1}});
    graph["outputs"] = Json::array();
    Json list = Json::array();
    for (size_t i = 0; i < results.size(); ++i) {
      std::string name = id + "_" + std::to_string(i);
      graph["tensor_values"][name] = results[i].meta();
      graph["outputs"].push_back(tensor(name));
      list.push_back({{"name", name}});
      if (!isList)
        node["outputs"].push_back(tensor(name));
    }
    if (isList)
      node["outputs"].push_back({{"as_tensors", list}});
    graph["nodes"].push_back(node);
    return *this;
  }

  std::string bytes() const {
    Json outputSpecs = Json::array();
    for (const Json &output : graph["outputs"])
      outputSpecs.push_back({{"user_output", {{"arg", output}}}});
    Json model = {{"graph_module",
                   {{"graph", graph},
                    {"signature", {{"input_specs", inputSpecs}, {"output_specs", outputSpecs}}},
                    {"module_call_graph",
                     {{{"fqn", ""}, {"signature", nullptr}}, {{"fqn", "a.b"}, {"signature", nullptr}}}}}},
                  {"schema_version", {{"major", 8}, {"minor", 20}}}};
    return Archive{{{"m/archive_format", "pt2"},
                    {"m/models/model.json", model.dump()},
                    {"m/data/weights/model_weights_config.json", R"({"config": {}})"},
                    {"m/data/constants/model_constants_config.json", R"({"config": {}})"}}}
        .bytes();
  }
};

struct Imported {
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::string errors;

  /// The operations of the program one a line, without the attributes that all carry; inputs (%0, %1, …) and
  /// outputs are left out.
  std::string text() {
    module->walk([&](mlir::Operation *op) {
      if (!op->hasAttr(kModuleAttr))
        return;
      EXPECT_EQ(op->getAttrOfType<mlir::StringAttr>(kModuleAttr).getValue(), "a.b");
      EXPECT_EQ(op->getAttrOfType<mlir::StringAttr>(kSourceAttr).getValue(), "model.py:7");
      op->removeAttr(kModuleAttr);
      op->removeAttr(kSourceAttr);
    });
    std::string all, result;
    llvm::raw_string_ostream stream(all);
    module->print(stream);
    std::istringstream lines(all.substr(all.find("plumb.program")));
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line))
      if (line.find("plumb.input") == std::string::npos && line.find("plumb.output") == std::string::npos &&
          line.find('%') != std::string::npos)
        result += line.substr(line.find_first_not_of(' ')) + "\n";
    return result;
  }
};

inline Imported importArchive(const pt2::Pt2Archive *archive, Diagnostics &diagnostics) {
  Imported result;
  mlir::DialectRegistry registry;
  registerDialects(registry);
  result.context = std::make_unique<mlir::MLIRContext>(registry, mlir::MLIRContext::Threading::DISABLED);
  if (archive)
    result.module = importModel(*archive, *result.context, diagnostics);
  EXPECT_EQ(!result.module, diagnostics.hasErrors());
  result.errors = diagnostics.str();
  return result;
}

inline Imported import(const Program &program) {
  Diagnostics diagnostics;
  std::unique_ptr<pt2::Pt2Archive> archive = pt2::Pt2Archive::read("model.pt2", program.bytes(), diagnostics);
  return importArchive(archive.get(), diagnostics);
}

inline Imported importFixture(const std::string &name) {
  Diagnostics diagnostics;
  std::unique_ptr<pt2::Pt2Archive> archive = pt2::Pt2Archive::open(fixture(name), diagnostics);
  return importArchive(archive.get(), diagnostics);
}

inline std::string built(const Program &program) {
  Imported imported = import(program);
  EXPECT_EQ(imported.errors, "");
  return imported.module ? imported.text() : "";
}

/// The message of the one error.
inline std::string refused(const Program &program) {
  Imported imported = import(program);
  EXPECT_FALSE(imported.module);
  std::string line = imported.errors.substr(0, imported.errors.find('\n'));
  std::string prefix = "/m/model.py:7: error: ";
  EXPECT_EQ(line.substr(0, prefix.size()), prefix) << imported.errors;
  return line.substr(std::min(line.size(), line.find(": ", prefix.size()) + 2));
}

template <typename Op>
int64_t count(mlir::ModuleOp module) {
  int64_t result = 0;
  module->walk([&](Op) { ++result; });
  return result;
}

} // namespace plumb::test

#endif // PLUMB_TEST_UNIT_IMPORT_PROGRAMS_H
