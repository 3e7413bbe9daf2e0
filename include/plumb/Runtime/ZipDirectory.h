//===- ZipDirectory.h - The entries of a ZIP archive in memory ----------------===//

#ifndef PLUMB_RUNTIME_ZIPDIRECTORY_H
#define PLUMB_RUNTIME_ZIPDIRECTORY_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace plumb {

/// What PyTorch needs of ZIP archives: entries that are stored, in one file of any size (zip64). Checksums
/// are not verified, since that would read all of a file of which a rank needs a part. `image` must outlive
/// this.
class ZipDirectory {
public:
  /// Whether a file that begins so may be an archive.
  static bool isZip(std::span<const std::byte> image);

  /// Reads the central directory. Throws plumb::Failure.
  explicit ZipDirectory(std::span<const std::byte> image);

  struct Entry {
    std::uint64_t size, storedSize, header; ///< `header`: where the entry begins.
    bool isStored;                          ///< Neither compressed nor encrypted.
  };
  const std::map<std::string, Entry, std::less<>> &entries() const { return all; }

  /// The bytes of an entry; nothing if there is none of that name. Throws plumb::Failure if they are not
  /// stored or do not lie in the image.
  std::optional<std::span<const std::byte>> content(std::string_view name) const;

private:
  struct Extent;
  Extent findDirectory() const;
  void readEntries(const Extent &directory);

  std::span<const std::byte> image;
  std::map<std::string, Entry, std::less<>> all;
};

} // namespace plumb

#endif // PLUMB_RUNTIME_ZIPDIRECTORY_H
