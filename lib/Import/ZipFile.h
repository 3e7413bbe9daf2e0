//===- ZipFile.h - Reading ZIP archives -------------------------*- C++ -*-===//

#ifndef PLUMB_LIB_IMPORT_ZIPFILE_H
#define PLUMB_LIB_IMPORT_ZIPFILE_H

#include "plumb/Support/Diagnostic.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

struct zip;

namespace plumb::pt2 {

/// A read-only view of libzip's archive. The sizes of entries come from the central directory; reading checks
/// the entry's checksum.
class ZipFile {
public:
  struct Entry {
    std::string name;
    uint64_t size = 0;
    size_t index = 0;
  };

  static std::unique_ptr<ZipFile> open(const std::string &path, Diagnostics &diagnostics);
  static std::unique_ptr<ZipFile> read(const std::string &name, std::string bytes, Diagnostics &diagnostics);
  ~ZipFile();

  const std::vector<Entry> &entries() const { return entries_; }
  const Entry *find(const std::string &name) const;

  /// The content of an entry. Reports an entry that is damaged, encrypted, or not as long as the directory
  /// says.
  std::optional<std::string> content(const Entry &entry, Diagnostics &diagnostics) const;

private:
  explicit ZipFile(std::string name) : name_(std::move(name)) {}
  void readDirectory();

  std::string name_;
  std::string memory_; ///< The bytes of an archive that is no file.
  zip *archive_ = nullptr;
  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> index_;
};

} // namespace plumb::pt2

#endif // PLUMB_LIB_IMPORT_ZIPFILE_H
