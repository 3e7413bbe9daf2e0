//===- MappedFile.h - A file, mapped into memory ------------------------------===//

#ifndef PLUMB_RUNTIME_MAPPEDFILE_H
#define PLUMB_RUNTIME_MAPPEDFILE_H

#include <cstddef>
#include <span>
#include <string>

namespace plumb {

/// Memory that reads from a file what is touched of it.
class MappedFile {
public:
  /// Throws plumb::Failure.
  explicit MappedFile(const std::string &path);
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte *>(mapping), length}; }

private:
  void *mapping = nullptr;
  std::size_t length = 0;
};

} // namespace plumb

#endif // PLUMB_RUNTIME_MAPPEDFILE_H
