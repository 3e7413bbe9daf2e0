//===- Artefacts.cpp - The files that a compilation leaves -------------------===//

#include "Artefacts.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "plumb/Target/LaunchFiles.h"
#include "plumb/Target/PlanFile.h"
#include "plumb/Target/Program.h"
#include "plumb/Target/Report.h"
#include "plumb/Transforms/Utils.h"
#include "llvm/ADT/StringSet.h"
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <unistd.h>

using namespace mlir;
using namespace plumb;

bool plumb::writeFile(const std::string &path, std::string_view content, Diagnostics &diagnostics) {
  std::string temporary = path + ".tmp." + std::to_string(getpid());
  {
    std::ofstream file(temporary, std::ios::binary);
    file.write(content.data(), static_cast<std::streamsize>(content.size()));
    file.close();
    if (!file) {
      diagnostics.error(Place{path}, "cannot be written: " + std::generic_category().message(errno));
      std::remove(temporary.c_str());
      return false;
    }
  }
  std::error_code error;
  std::filesystem::rename(temporary, path, error);
  if (error)
    diagnostics.error(Place{path}, "cannot be written: " + error.message());
  return !error;
}

std::vector<std::string> plumb::kernelObjects(mlir::ModuleOp module) {
  std::vector<std::string> paths;
  llvm::StringSet<> seen;
  for (func::FuncOp kernel : module.getOps<func::FuncOp>())
    if (auto object = kernel->getAttrOfType<StringAttr>("plumb.object"))
      if (seen.insert(object).second)
        paths.push_back(object.str());
  return paths;
}

static std::optional<std::string> readFile(const std::string &path, Diagnostics &diagnostics) {
  std::ifstream file(path, std::ios::binary);
  std::string content((std::istreambuf_iterator<char>(file)), {});
  if (file)
    return content;
  diagnostics.error(Place{path}, "cannot be read");
  return std::nullopt;
}

/// The artefacts that are text, with the files they go to.
static const std::pair<std::string, std::string> kTexts[] = {{"plan", "plan.json"},
                                                             {"program", "program.cpp"},
                                                             {"report", "report.html"},
                                                             {"trace", "trace.json"},
                                                             {"mlir", "plan.mlir"}};

static LogicalResult emitText(const std::string &artefact, mlir::ModuleOp module, llvm::raw_ostream &os) {
  if (artefact == "plan")
    return emitPlanFile(module, os);
  if (artefact == "program")
    return emitProgram(module, os);
  if (artefact == "report")
    return emitReport(module, os);
  if (artefact == "trace")
    return emitTrace(module, os);
  module.print(os);
  os << "\n";
  return success();
}

bool plumb::printArtefact(mlir::ModuleOp module, const Emission &emission, Diagnostics &diagnostics) {
  // The others are several files, or no text.
  bool isText = llvm::any_of(kTexts, [&](const auto &text) { return emission.contains(text.first); });
  if (emission.size() != 1 || !isText) {
    diagnostics.error(Place{"-"}, "standard output takes one text: give --emit plan, program, report, trace "
                                  "or mlir, or an output folder");
    return false;
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (failed(emitText(*emission.begin(), module, stream)))
    return false;
  llvm::outs() << text;
  return true;
}

static bool writeLaunchFiles(mlir::ModuleOp module, const std::string &folder, Diagnostics &diagnostics) {
  int64_t ranks = 1;
  for (int64_t size : findOp<MeshOp>(module).getSizes())
    ranks *= size;
  auto name = module->getAttrOfType<StringAttr>("plumb.model");
  for (const auto &[file, text] : getLaunchFiles(name ? name.str() : "program", ranks)) {
    std::string path = folder + "/" + file;
    if (!writeFile(path, text, diagnostics))
      return false;
    if (text.starts_with("#!"))
      std::filesystem::permissions(path, std::filesystem::perms(0755));
  }
  return true;
}

bool plumb::writeArtefacts(mlir::ModuleOp module, const std::string &folder, const Emission &emission,
                           Diagnostics &diagnostics) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    diagnostics.error(Place{folder}, "cannot be made: " + error.message());
    return false;
  }
  for (const auto &[artefact, name] : kTexts) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    if (emission.contains(artefact) &&
        (failed(emitText(artefact, module, stream)) || !writeFile(folder + "/" + name, text, diagnostics)))
      return false;
  }
  if (emission.contains("launch") && !writeLaunchFiles(module, folder, diagnostics))
    return false;
  if (!emission.contains("kernels"))
    return true;
  std::filesystem::create_directories(folder + "/kernels", error);
  for (const std::string &object : kernelObjects(module)) {
    std::optional<std::string> content = readFile(object, diagnostics);
    std::string target = folder + "/kernels/" + std::filesystem::path(object).filename().string();
    if (!content || !writeFile(target, *content, diagnostics))
      return false;
  }
  return true;
}
