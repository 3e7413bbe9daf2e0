//===- TensorFile.cpp - A file of tensors, mapped into memory -----------------===//

#include "plumb/Runtime/TensorFile.h"

#include "plumb/Runtime/Failure.h"
#include "plumb/Runtime/Safetensors.h"
#include "plumb/Runtime/ZipDirectory.h"

#include <utility>

namespace plumb {

TensorFile::TensorFile(std::string path) : name(std::move(path)), file(name) {
  try {
    if (ZipDirectory::isZip(file.bytes()))
      content = parseArchive(file.bytes());
    else
      content.views = parseSafetensors(file.bytes());
  } catch (const Failure &failure) {
    throw Failure(name, failure.sentence());
  }
}

const TensorView *TensorFile::find(std::string_view tensor) const {
  auto found = content.views.find(tensor);
  return found == content.views.end() ? nullptr : &found->second;
}

std::string TensorFile::whyUnreadable(std::string_view tensor) const {
  auto found = content.unreadable.find(tensor);
  return found == content.unreadable.end() ? "" : found->second;
}

} // namespace plumb
