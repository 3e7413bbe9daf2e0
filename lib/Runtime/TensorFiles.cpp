//===- TensorFiles.cpp - Tensors in safetensors files -------------------------===//

#include "plumb/Runtime/TensorFiles.h"

#include "plumb/Runtime/Layout.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace plumb {

TensorFiles::TensorFiles(const std::string &path) : name(path) {
  std::error_code error;
  std::vector<std::string> paths;
  if (std::filesystem::is_directory(path, error)) {
    for (const auto &entry : std::filesystem::directory_iterator(path, error))
      if (entry.path().extension() == ".safetensors")
        paths.push_back(entry.path().string());
    if (paths.empty())
      throw Failure(path, "this is a folder without safetensors files");
  } else {
    paths.push_back(path);
  }
  std::ranges::sort(paths);
  for (const std::string &file : paths)
    files.push_back(std::make_unique<SafetensorsFile>(file));
}

const TensorView *TensorFiles::find(std::string_view tensor) const {
  for (const auto &file : files)
    if (const TensorView *view = file->find(tensor))
      return view;
  return nullptr;
}

const TensorView *TensorFiles::find(const Tensor &parameter) const {
  const TensorView *found = find(std::string_view(parameter.name));
  for (std::size_t i = 0; !found && i < parameter.aliases.size(); ++i)
    found = find(std::string_view(parameter.aliases[i]));
  return found;
}

static std::string describe(std::string_view dtype, std::span<const std::int64_t> shape) {
  return std::string(dtype) + " " + describeShape(shape);
}

void checkView(const TensorFiles &files, const Tensor &tensor, const TensorView *view, bool hasSteps) {
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
