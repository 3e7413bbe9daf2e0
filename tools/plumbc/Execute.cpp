//===- Execute.cpp - Builds and runs a compiled program ----------------------===//

#include "Execute.h"
#include "Artefacts.h"
#include "plumb/Runtime/Failure.h"
#include "plumb/Runtime/Safetensors.h"
#include "plumb/Target/Program.h"
#include "llvm/Support/FileSystem.h"
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <iterator>
#include <random>
#include <spawn.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

using namespace mlir;
using namespace plumb;

TemporaryFolder::TemporaryFolder() {
  std::error_code error;
  std::string parent = std::filesystem::temp_directory_path(error).string(),
              pattern = parent + "/plumb-XXXXXX";
  if (error || !mkdtemp(pattern.data()))
    throw Failure("no folder can be made for temporary files in \"" + parent +
                  "\"; set TMPDIR to one that can be written");
  path = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

//===----------------------------------------------------------------------===//
// Files for the program
//===----------------------------------------------------------------------===//

static const char *safetensorsType(pt2::DType type) {
  switch (type) {
  case pt2::DType::F32:
    return "F32";
  case pt2::DType::F64:
    return "F64";
  case pt2::DType::BF16:
    return "BF16";
  case pt2::DType::F16:
    return "F16";
  case pt2::DType::I64:
    return "I64";
  case pt2::DType::I32:
    return "I32";
  case pt2::DType::U8:
    return "U8";
  case pt2::DType::Bool:
    return "BOOL";
  default:
    return nullptr;
  }
}

static std::vector<int64_t> shapeOf(const pt2::TensorMeta &meta) {
  std::vector<int64_t> shape;
  for (const pt2::Dimension &size : meta.sizes)
    shape.push_back(size.value);
  return shape;
}

bool plumb::writeWeights(const pt2::Pt2Archive &archive, const std::string &path, Diagnostics &diagnostics) {
  std::set<std::string> aliases;
  for (const std::vector<std::string> &group : archive.aliases())
    aliases.insert(group.begin() + 1, group.end());
  std::vector<SafetensorsWriter::Entry> entries;
  std::vector<const pt2::Weight *> weights;
  for (const pt2::Weight &weight : archive.weights()) {
    if (aliases.contains(weight.fqn))
      continue;
    const char *type = safetensorsType(weight.meta.dtype);
    if (!type) {
      diagnostics.error(Place{archive.name()}, "weight " + weight.fqn + " has the type " +
                                                   pt2::name(weight.meta.dtype) + ", which is not supported");
      return false;
    }
    entries.push_back({weight.fqn, type, shapeOf(weight.meta)});
    weights.push_back(&weight);
  }
  try {
    SafetensorsWriter writer(path, entries);
    for (size_t index = 0; index < weights.size(); ++index) {
      auto bytes = archive.bytes(weights[index]->fqn, diagnostics);
      if (!bytes)
        return false;
      std::memcpy(writer.data(index).data(), bytes->data(), bytes->size());
    }
    writer.commit();
  } catch (const Failure &failure) {
    diagnostics.error(Place{path}, failure.what());
    return false;
  }
  return true;
}

bool plumb::writeInputs(const pt2::Pt2Archive &archive, const std::string &path, Diagnostics &diagnostics) {
  std::vector<SafetensorsWriter::Entry> entries;
  std::vector<pt2::DType> types;
  const pt2::ExportedProgram &program = archive.program();
  for (const pt2::InputSpec &input : program.inputs) {
    const auto *tensor = input.value.as<pt2::TensorRef>();
    if (input.kind != pt2::InputKind::UserInput || !tensor)
      continue;
    const pt2::TensorMeta &meta = program.graph.tensors.at(tensor->name);
    const char *type = safetensorsType(meta.dtype);
    if (meta.dtype != pt2::DType::F32 && meta.dtype != pt2::DType::I64 && meta.dtype != pt2::DType::I32) {
      diagnostics.error(Place{archive.name()}, "input " + input.name + " has the type " +
                                                   pt2::name(meta.dtype) + "; give its values with --inputs");
      return false;
    }
    entries.push_back({"input." + std::to_string(entries.size()), type, shapeOf(meta)});
    types.push_back(meta.dtype);
  }
  try {
    SafetensorsWriter writer(path, entries);
    std::mt19937_64 random(1);
    std::normal_distribution<float> normal;
    auto fill = [](std::span<std::byte> data, auto draw) {
      using T = decltype(draw());
      for (size_t offset = 0; offset < data.size(); offset += sizeof(T)) {
        T value = draw();
        std::memcpy(data.data() + offset, &value, sizeof(T));
      }
    };
    for (size_t index = 0; index < entries.size(); ++index) {
      std::span<std::byte> data = writer.data(index);
      if (types[index] == pt2::DType::F32)
        fill(data, [&] { return normal(random); });
      else if (types[index] == pt2::DType::I64)
        fill(data, [&] { return static_cast<int64_t>(random() & 1); });
      else
        fill(data, [&] { return static_cast<int32_t>(random() & 1); });
    }
    writer.commit();
  } catch (const Failure &failure) {
    diagnostics.error(Place{path}, failure.what());
    return false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Build and run
//===----------------------------------------------------------------------===//

int plumb::runCommand(const std::vector<std::string> &command, bool quiet) {
  std::vector<char *> arguments;
  for (const std::string &argument : command)
    arguments.push_back(const_cast<char *>(argument.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (quiet)
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child;
  int error = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (error || waitpid(child, &status, 0) != child)
    return 127;
  return WIFEXITED(status) ? WEXITSTATUS(status) : static_cast<int>(kInternalError);
}

/// The folder above the tool's own: headers lie in `include`, the runtime in `lib` of an installation; a
/// build tree keeps its headers in the source.
static std::string runtimeLibrary() {
  static int anchor;
  std::filesystem::path tool = llvm::sys::fs::getMainExecutable("plumbc", &anchor);
  return (tool.parent_path().parent_path() / "lib" / "libplumb_runtime_threads.a").string();
}

/// The C++ compiler of the machine, with options if CXX names some. What a sanitized runtime needs to be
/// linked is given by the build.
static std::vector<std::string> compilerCommand() {
  auto words = [](const std::string &text) {
    std::istringstream stream(text);
    return std::vector<std::string>(std::istream_iterator<std::string>(stream), {});
  };
  const char *variable = std::getenv("CXX");
  std::vector<std::string> command = words(variable ? variable : "");
  if (command.empty())
    command = words(PLUMB_DEFAULT_CXX);
  for (std::string &flag : words(PLUMB_PROGRAM_FLAGS))
    command.push_back(std::move(flag));
  return command;
}

bool plumb::buildProgram(mlir::ModuleOp module, const TemporaryFolder &folder, const std::string &name,
                         Diagnostics &diagnostics) {
  std::string source = folder.file(name + ".cpp"), text;
  llvm::raw_string_ostream stream(text);
  if (failed(emitProgram(module, stream)) || !writeFile(source, text, diagnostics))
    return false;
  std::string include = PLUMB_INCLUDE_DIR;
  std::vector<std::string> command = compilerCommand();
  command.insert(command.end(),
                 {"-std=c++20", "-O1", "-I" + include, "-I" + include + "/plumb/Runtime/Host", source});
  for (const std::string &object : kernelObjects(module))
    command.push_back(object);
  command.insert(command.end(), {runtimeLibrary(), "-pthread", "-o", folder.file(name)});
  int code = runCommand(command);
  if (code == 0)
    return true;
  diagnostics.error(Place{},
                    "the C++ compiler \"" + command[0] + "\" " +
                        (code == 127 ? "cannot be run; set CXX to one" : "rejected the generated program"));
  return false;
}
