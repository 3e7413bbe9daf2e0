//===- TensorFiles.cpp - The files of one set of tensors ----------------------===//

#include "plumb/Runtime/TensorFiles.h"

#include "plumb/Runtime/JsonReader.h"
#include "plumb/Runtime/Layout.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace plumb {

namespace fs = std::filesystem;

/// Whether a file begins as JSON does. The first eight bytes of a safetensors file are a length, whose
/// highest is zero.
static bool isJson(const std::string &path) {
  char begin[8] = {};
  std::ifstream(path, std::ios::binary).read(begin, sizeof begin);
  std::string_view text(begin, sizeof begin);
  auto first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{' && text.back() != '\0';
}

static std::vector<std::string> filesIn(const std::string &folder) {
  std::error_code error;
  std::vector<std::string> paths;
  for (const auto &entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".safetensors")
      paths.push_back(entry.path().string());
  if (paths.empty())
    throw Failure(folder, "this is a folder without safetensors files");
  std::ranges::sort(paths);
  return paths;
}

TensorFiles::TensorFiles(const std::string &path) : name(path) {
  std::error_code error;
  if (isJson(path))
    openIndex();
  else
    openAll(fs::is_directory(path, error) ? filesIn(path) : std::vector{path});
}

void TensorFiles::openAll(const std::vector<std::string> &paths) {
  for (const std::string &path : paths)
    files.push_back(std::make_unique<TensorFile>(path));
  for (const auto &file : files)
    for (const auto &[tensor, view] : file->tensors())
      holders[tensor].push_back({file.get(), &view});
}

/// The files by the names of their tensors.
static std::map<std::string, std::string> readIndex(const std::string &path) {
  MappedFile file(path);
  JsonReader reader("index", {reinterpret_cast<const char *>(file.bytes().data()), file.bytes().size()});
  std::map<std::string, std::string> index;
  try {
    reader.object([&](const std::string &key) {
      if (key != "weight_map")
        return reader.skip();
      reader.object([&](const std::string &tensor) {
        if (!index.emplace(tensor, reader.string()).second)
          reader.fail("two tensors are called '" + tensor + "'");
      });
    });
    reader.end();
  } catch (const Failure &failure) {
    throw Failure(path, failure.sentence());
  }
  if (index.empty())
    throw Failure(path,
                  "this is no index of safetensors files: it has no 'weight_map' from tensors to files");
  return index;
}

void TensorFiles::openIndex() {
  std::map<std::string, std::string> index = readIndex(name);
  std::map<std::string, const TensorFile *> opened;
  for (const auto &[tensor, file] : index)
    opened.emplace(file, nullptr);
  for (auto &[path, file] : opened)
    file = files.emplace_back(std::make_unique<TensorFile>((fs::path(name).parent_path() / path).string()))
               .get();
  for (const auto &[tensor, path] : index) {
    const TensorView *view = opened.at(path)->find(tensor);
    if (!view)
      throw Failure(name, "the index promises tensor '" + tensor + "' in '" + path +
                              "', which has none of that name");
    holders[tensor].push_back({opened.at(path), view});
  }
}

const TensorView *TensorFiles::find(std::string_view tensor) const {
  auto found = holders.find(tensor);
  if (found == holders.end())
    return nullptr;
  const auto &all = found->second;
  if (all.size() > 1)
    throw Failure(name, "tensor '" + found->first + "' is in " + all[0].first->path() + " and in " +
                            all[1].first->path() + "; name one file, or an index");
  return all[0].second;
}

static std::vector<std::string_view> namesOf(const Tensor &tensor) {
  std::vector<std::string_view> names{tensor.name};
  names.insert(names.end(), tensor.aliases.begin(), tensor.aliases.end());
  return names;
}

const TensorView *TensorFiles::find(const Tensor &parameter) const {
  for (std::string_view each : namesOf(parameter))
    if (const TensorView *view = find(each))
      return view;
  return nullptr;
}

std::string TensorFiles::whyUnreadable(const Tensor &parameter) const {
  for (std::string_view each : namesOf(parameter))
    for (const auto &file : files)
      if (std::string why = file->whyUnreadable(each); !why.empty())
        return why;
  return "";
}

static std::string describe(std::string_view dtype, std::span<const std::int64_t> shape) {
  return std::string(dtype) + " " + describeShape(shape);
}

void checkView(const TensorFiles &files, const Tensor &tensor, const TensorView *view, bool hasSteps) {
  if (std::string why = view ? "" : files.whyUnreadable(tensor); !why.empty())
    throw Failure(files.path(), std::string("tensor '") + tensor.name + "'" + why);
  if (!view)
    throw Failure(files.path(), std::string("there is no tensor '") + tensor.name +
                                    "', which the program needs as " +
                                    describe(nameOf(tensor.dtype), shapeOf(tensor)));
  std::span<const std::int64_t> shape = view->shape;
  if (hasSteps)
    shape = shape.subspan(1);
  if (view->dtype != nameOf(tensor.dtype) || !std::ranges::equal(shape, shapeOf(tensor)))
    throw Failure(files.path(), std::string("tensor '") + tensor.name + "' is " +
                                    describe(view->dtype, view->shape) + ", but the program needs " +
                                    describe(nameOf(tensor.dtype), shapeOf(tensor)));
}

} // namespace plumb
