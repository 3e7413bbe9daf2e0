//===- ZipDirectory.cpp - The entries of a ZIP archive in memory --------------===//
//
// After PKWARE's APPNOTE.TXT, sections 4.3.7 (local header), 4.3.12 (central directory), 4.3.14 to 4.3.16
// (its ends) and 4.5.3 (the extra field of zip64).
//
//===----------------------------------------------------------------------===//

#include "plumb/Runtime/ZipDirectory.h"

#include "plumb/Runtime/Failure.h"

#include <algorithm>
#include <utility>

namespace plumb {
namespace {

constexpr std::uint64_t kLocalHeader = 0x04034b50, kCentralHeader = 0x02014b50, kEnd = 0x06054b50,
                        kEnd64 = 0x06064b50, kEnd64Locator = 0x07064b50;
constexpr std::size_t kEndBytes = 22, kLocatorBytes = 20, kMostCommentBytes = 0xffff;
/// What stands in a field whose value is in the extra field of zip64, and the kind of that.
constexpr std::uint64_t kElsewhere = 0xffffffff, kExtra64 = 1;

/// Reads little-endian numbers; what lies outside of the bytes is an error.
class Fields {
public:
  Fields(std::span<const std::byte> bytes, std::uint64_t begin) : bytes(bytes), position(begin) {}

  std::span<const std::byte> take(std::uint64_t count) {
    if (position > bytes.size() || count > bytes.size() - position)
      throw Failure("this ZIP archive is damaged: a part of its directory leaves the file");
    auto result = bytes.subspan(static_cast<std::size_t>(position), static_cast<std::size_t>(count));
    position += count;
    return result;
  }
  std::uint64_t number(std::size_t size) {
    std::uint64_t value = 0, shift = 0;
    for (std::byte byte : take(size)) {
      value |= std::to_integer<std::uint64_t>(byte) << shift;
      shift += 8;
    }
    return value;
  }
  std::string text(std::uint64_t size) {
    auto part = take(size);
    return {reinterpret_cast<const char *>(part.data()), part.size()};
  }
  bool isAtEnd() const { return position >= bytes.size(); }

private:
  std::span<const std::byte> bytes;
  std::uint64_t position;
};

[[noreturn]] void failAsDamaged(const std::string &why) {
  throw Failure("this is not a complete ZIP archive, as every .pt2 is: " + why);
}

/// Replaces the fields of an entry that did not fit by those in its extra field, which come in this order.
void readExtra64(std::span<const std::byte> extra, std::initializer_list<std::uint64_t *> fields) {
  for (Fields parts(extra, 0); !parts.isAtEnd();) {
    std::uint64_t kind = parts.number(2), size = parts.number(2);
    Fields part(parts.take(size), 0);
    if (kind != kExtra64)
      continue;
    for (std::uint64_t *field : fields)
      if (*field == kElsewhere)
        *field = part.number(8);
    return;
  }
}

} // namespace

struct ZipDirectory::Extent {
  std::uint64_t begin, entries;
};

bool ZipDirectory::isZip(std::span<const std::byte> image) {
  return image.size() >= 2 && image[0] == std::byte{'P'} && image[1] == std::byte{'K'};
}

ZipDirectory::ZipDirectory(std::span<const std::byte> image) : image(image) { readEntries(findDirectory()); }

/// The record at the end of the file, before a comment; and that of zip64, which a locator before it names.
ZipDirectory::Extent ZipDirectory::findDirectory() const {
  auto isEnd = [&](std::size_t at) {
    return Fields(image, at).number(4) == kEnd &&
           at + kEndBytes + Fields(image, at + kEndBytes - 2).number(2) == image.size();
  };
  std::size_t end = image.size() - std::min(image.size(), kEndBytes),
              first = end - std::min(end, kMostCommentBytes);
  while (image.size() >= kEndBytes && !isEnd(end) && end > first)
    --end;
  if (image.size() < kEndBytes || !isEnd(end))
    failAsDamaged("it has no directory at its end");
  Fields fields(image, end + 8);
  std::uint64_t here = fields.number(2), entries = fields.number(2);
  (void)fields.number(4);
  Extent extent{fields.number(4), entries};
  if (end >= kLocatorBytes && Fields(image, end - kLocatorBytes).number(4) == kEnd64Locator) {
    std::uint64_t at = Fields(image, end - kLocatorBytes + 8).number(8);
    Fields fields64(image, at);
    if (fields64.number(4) != kEnd64)
      failAsDamaged("the directory for large files is not where it should be");
    (void)fields64.take(20);
    here = fields64.number(8);
    entries = fields64.number(8);
    (void)fields64.number(8);
    extent = {fields64.number(8), entries};
  }
  if (here != entries)
    failAsDamaged("its directory is that of several files");
  return extent;
}

void ZipDirectory::readEntries(const Extent &directory) {
  Fields fields(image, directory.begin);
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    if (fields.number(4) != kCentralHeader)
      failAsDamaged("entry " + std::to_string(i) + " of its directory is none");
    (void)fields.number(4);
    std::uint64_t flags = fields.number(2), method = fields.number(2);
    (void)fields.take(8);
    std::uint64_t storedSize = fields.number(4), size = fields.number(4), nameBytes = fields.number(2),
                  extraBytes = fields.number(2), commentBytes = fields.number(2);
    (void)fields.take(8);
    std::uint64_t header = fields.number(4);
    std::string name = fields.text(nameBytes);
    readExtra64(fields.take(extraBytes), {&size, &storedSize, &header});
    (void)fields.take(commentBytes);
    all.emplace(std::move(name), Entry{size, storedSize, header, method == 0 && (flags & 1) == 0});
  }
}

std::optional<std::span<const std::byte>> ZipDirectory::content(std::string_view name) const {
  auto found = all.find(name);
  if (found == all.end())
    return std::nullopt;
  const Entry &entry = found->second;
  std::string what = "the entry '" + std::string(name) + "'";
  if (!entry.isStored)
    throw Failure(what +
                  " is compressed or encrypted, so that ranks cannot read parts of it; torch.export.save "
                  "stores entries as they are, and `plumbc compile --emit weights` reads this archive");
  if (entry.size != entry.storedSize)
    throw Failure(what + " has " + std::to_string(entry.size) + " bytes, but " +
                  std::to_string(entry.storedSize) + " are stored");
  Fields fields(image, entry.header);
  if (fields.number(4) != kLocalHeader)
    throw Failure(what + " is not where the directory says");
  (void)fields.take(22);
  std::uint64_t nameBytes = fields.number(2), extraBytes = fields.number(2);
  if (fields.text(nameBytes) != name)
    throw Failure(what + " has another name where it begins");
  (void)fields.take(extraBytes);
  return fields.take(entry.size);
}

} // namespace plumb
