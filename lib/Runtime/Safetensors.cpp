//===- Safetensors.cpp - Reading and writing safetensors files --------------===//

#include "plumb/Runtime/Safetensors.h"

#include "plumb/Runtime/Failure.h"
#include "plumb/Runtime/JsonReader.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <set>
#include <utility>

namespace plumb {
namespace {

// The format's own limit.
constexpr std::uint64_t kMostHeaderBytes = 100'000'000;
constexpr std::size_t kLengthBytes = 8;

std::string quoted(const std::string &name) { return "tensor '" + name + "'"; }

struct Record {
  std::string dtype;
  std::vector<std::int64_t> shape, offsets;
};

Record readRecord(JsonReader &reader, const std::string &name) {
  Record record;
  bool hasDtype = false, hasShape = false, hasOffsets = false;
  auto once = [&](bool &seen, const std::string &key) {
    if (std::exchange(seen, true))
      reader.fail(quoted(name) + " has two members '" + key + "'");
  };
  reader.object([&](const std::string &key) {
    if (key == "dtype") {
      once(hasDtype, key);
      record.dtype = reader.string();
    } else if (key == "shape") {
      once(hasShape, key);
      reader.array([&] { record.shape.push_back(reader.integer()); });
    } else if (key == "data_offsets") {
      once(hasOffsets, key);
      reader.array([&] { record.offsets.push_back(reader.integer()); });
    } else {
      reader.fail(quoted(name) + " has a member '" + key + "', which the format does not know");
    }
  });
  if (!hasDtype || !hasShape || !hasOffsets)
    reader.fail(quoted(name) + " lacks '" +
                (!hasDtype   ? "dtype"
                 : !hasShape ? "shape"
                             : "data_offsets") +
                "'");
  return record;
}

TensorView view(const std::string &name, const Record &record, std::span<const std::byte> data) {
  if (elementSize(record.dtype) == 0)
    throw Failure(quoted(name) + " has the unknown dtype '" + record.dtype + "'");
  std::optional<std::int64_t> bytes = byteCount(record.dtype, record.shape);
  if (!bytes)
    throw Failure(quoted(name) + " has a shape whose size exceeds 2^63 - 1 bytes");
  if (record.offsets.size() != 2 || record.offsets[0] > record.offsets[1])
    throw Failure(quoted(name) + " has data_offsets that are no pair [begin, end]");
  std::int64_t begin = record.offsets[0], end = record.offsets[1];
  if (static_cast<std::uint64_t>(end) > data.size())
    throw Failure(quoted(name) + " ends at byte " + std::to_string(end) + " of the data, but the file has " +
                  std::to_string(data.size()) + " bytes of data");
  if (end - begin != *bytes)
    throw Failure(quoted(name) + " occupies " + std::to_string(end - begin) +
                  " bytes, but its shape and dtype need " + std::to_string(*bytes));
  return {record.dtype, record.shape,
          data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(*bytes))};
}

/// The tensors, in the order of their bytes, must tile the data.
void checkTiling(const TensorViews &views, std::span<const std::byte> data) {
  std::vector<const TensorViews::value_type *> order;
  for (const auto &entry : views)
    order.push_back(&entry);
  auto place = [](const TensorViews::value_type *entry) {
    return std::pair(entry->second.data.data(), entry->second.data.size());
  };
  std::ranges::sort(order, {}, place);
  const std::byte *next = data.data();
  for (const auto *entry : order) {
    const std::byte *begin = entry->second.data.data();
    if (begin != next)
      throw Failure(quoted(entry->first) + " begins at byte " + std::to_string(begin - data.data()) +
                    " of the data, but the tensor before it ends at byte " +
                    std::to_string(next - data.data()));
    next = begin + entry->second.data.size();
  }
  if (next != data.data() + data.size())
    throw Failure("the tensors end at byte " + std::to_string(next - data.data()) +
                  " of the data, but the file has " + std::to_string(data.size()) + " bytes of data");
}

} // namespace

TensorViews parseSafetensors(std::span<const std::byte> image) {
  if (image.size() < kLengthBytes)
    throw Failure("the file has " + std::to_string(image.size()) + " bytes, too few for a safetensors file");
  std::uint64_t headerBytes = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;)
    headerBytes = headerBytes << 8 | static_cast<std::uint64_t>(image[i]);
  if (headerBytes > kMostHeaderBytes)
    throw Failure("the header claims " + std::to_string(headerBytes) + " bytes; the format allows " +
                  std::to_string(kMostHeaderBytes));
  if (headerBytes > image.size() - kLengthBytes)
    throw Failure("the header claims " + std::to_string(headerBytes) + " bytes, but the file has only " +
                  std::to_string(image.size() - kLengthBytes) + " after its length");
  auto header = image.subspan(kLengthBytes, headerBytes), data = image.subspan(kLengthBytes + headerBytes);
  JsonReader reader("header", {reinterpret_cast<const char *>(header.data()), header.size()});
  TensorViews views;
  bool hasMetadata = false;
  reader.object([&](const std::string &name) {
    if (name == "__metadata__") {
      if (std::exchange(hasMetadata, true))
        reader.fail("two members '__metadata__'");
      reader.object([&](const std::string &) { reader.string(); });
      return;
    }
    Record record = readRecord(reader, name);
    if (!views.emplace(name, view(name, record, data)).second)
      reader.fail("two tensors are called '" + name + "'");
  });
  reader.end();
  checkTiling(views, data);
  return views;
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

static std::string quote(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    char escape[7];
    if (static_cast<unsigned char>(c) < 0x20) {
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
      result += escape;
      continue;
    }
    if (c == '"' || c == '\\')
      result += '\\';
    result += c;
  }
  return result + '"';
}

static std::string headerText(const std::vector<SafetensorsWriter::Entry> &entries,
                              const std::vector<std::size_t> &order, std::vector<std::int64_t> &sizes) {
  std::string header = "{";
  std::int64_t offset = 0;
  for (std::size_t index : order) {
    const auto &entry = entries[index];
    std::string shape;
    for (std::int64_t extent : entry.shape)
      shape += (shape.empty() ? "" : ",") + std::to_string(extent);
    std::optional<std::int64_t> bytes = byteCount(entry.dtype, entry.shape);
    if (!bytes)
      throw Failure(quoted(entry.name) + " is too large to be saved");
    sizes[index] = *bytes;
    header += (header.size() > 1 ? "," : "") + quote(entry.name) + ":{\"dtype\":" + quote(entry.dtype) +
              ",\"shape\":[" + shape + "],\"data_offsets\":[" + std::to_string(offset) + "," +
              std::to_string(offset + sizes[index]) + "]}";
    offset += sizes[index];
  }
  header += "}";
  header.append((kLengthBytes - header.size() % kLengthBytes) % kLengthBytes, ' ');
  return header;
}

SafetensorsWriter::SafetensorsWriter(std::string target, std::vector<Entry> entries, Role role)
    : path(std::move(target)), temporary(path + (role == Alone ? ".tmp-XXXXXX" : ".tmp")), role(role),
      regions(entries.size()) {
  // Large elements first keeps every tensor aligned; then by name.
  std::vector<std::size_t> order(entries.size());
  std::iota(order.begin(), order.end(), 0);
  auto key = [&](std::size_t index) {
    return std::pair(-elementSize(entries[index].dtype), std::string_view(entries[index].name));
  };
  std::ranges::sort(order, {}, key);
  std::set<std::string_view> names;
  for (const Entry &entry : entries)
    if (!names.insert(entry.name).second)
      throw Failure(path, "two tensors would be saved as '" + entry.name + "'");
  std::vector<std::int64_t> sizes(entries.size());
  std::string header = headerText(entries, order, sizes);
  length = kLengthBytes + header.size();
  for (std::int64_t size : sizes)
    length += static_cast<std::size_t>(size);

  int file = open();
  // Storage is claimed now, so that a full disk is an error here and not a fault on a store.
  int error = role == Other ? 0 : ::posix_fallocate(file, 0, static_cast<off_t>(length));
  if (error == 0) {
    mapping = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    error = mapping == MAP_FAILED || ::fchmod(file, 0644) != 0 ? errno : 0;
  }
  ::close(file);
  if (error) {
    mapping = nullptr;
    if (role != Other)
      ::unlink(temporary.c_str());
    errno = error;
    failOn(path, "cannot write " + std::to_string(length) + " bytes");
  }
  auto *bytes = static_cast<std::byte *>(mapping);
  if (role != Other) {
    for (std::size_t i = 0; i < kLengthBytes; ++i)
      bytes[i] = static_cast<std::byte>(header.size() >> (8 * i));
    std::memcpy(bytes + kLengthBytes, header.data(), header.size());
  }
  std::byte *next = bytes + kLengthBytes + header.size();
  for (std::size_t index : order) {
    regions[index] = {next, static_cast<std::size_t>(sizes[index])};
    next += sizes[index];
  }
}

/// The temporary file, made or joined.
int SafetensorsWriter::open() {
  struct stat status;
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    throw Failure(path, "is not a regular file, and a file takes the place of no other thing");
  int file = role == Alone   ? ::mkstemp(temporary.data())
             : role == First ? ::open(temporary.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)
                             : ::open(temporary.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0)
    failOn(path, role == Other ? "cannot open the temporary file beside it, which rank 0 has made"
                               : "cannot create a temporary file beside it");
  if (role == Other && (::fstat(file, &status) != 0 || status.st_size != static_cast<off_t>(length))) {
    ::close(file);
    throw Failure(temporary, "this is not the file that rank 0 has made; all ranks must see one file system");
  }
  return file;
}

SafetensorsWriter::~SafetensorsWriter() {
  if (mapping)
    ::munmap(mapping, length);
  if (!temporary.empty() && role != Other)
    ::unlink(temporary.c_str());
}

void SafetensorsWriter::flush() {
  if (::msync(mapping, length, MS_SYNC) != 0)
    failOn(path, "cannot write");
}

void SafetensorsWriter::commit() {
  flush();
  if (::rename(temporary.c_str(), path.c_str()) != 0)
    failOn(path, "cannot write");
  temporary.clear();
  // The name is on disk when its folder is.
  auto slash = path.rfind('/');
  int folder =
      ::open(slash == std::string::npos ? "." : path.substr(0, slash + 1).c_str(), O_RDONLY | O_CLOEXEC);
  if (folder >= 0) {
    (void)::fsync(folder);
    ::close(folder);
  }
}

} // namespace plumb
