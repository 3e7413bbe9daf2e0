//===- TensorFile.h - A file of tensors, mapped into memory -------------------===//

#ifndef PLUMB_RUNTIME_TENSORFILE_H
#define PLUMB_RUNTIME_TENSORFILE_H

#include "plumb/Runtime/Archive.h"
#include "plumb/Runtime/MappedFile.h"

#include <string>
#include <string_view>

namespace plumb {

/// A safetensors file, or an archive of torch.export.save: its content says which.
class TensorFile {
public:
  /// Throws plumb::Failure.
  explicit TensorFile(std::string path);

  const std::string &path() const { return name; }
  const TensorViews &tensors() const { return content.views; }
  /// Null if there is no tensor of that name whose values can be read.
  const TensorView *find(std::string_view tensor) const;
  /// Why the values of a tensor that the file names cannot be read, after its name; empty otherwise.
  std::string whyUnreadable(std::string_view tensor) const;

private:
  std::string name;
  MappedFile file;
  ArchiveTensors content;
};

} // namespace plumb

#endif // PLUMB_RUNTIME_TENSORFILE_H
