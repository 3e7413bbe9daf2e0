//===- Safetensors.h - Reading and writing safetensors files ---------------===//
//
// Layout: 8 bytes, the length of the header, little-endian; the header, a JSON object from tensor names to
// {"dtype", "shape", "data_offsets": [begin, end]} (bytes from the end of the header) and optionally
// "__metadata__" to an object of strings; the data, row-major, which the tensors tile without gap or overlap.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_RUNTIME_SAFETENSORS_H
#define PLUMB_RUNTIME_SAFETENSORS_H

#include "plumb/Runtime/TensorView.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace plumb {

/// Reads a file image. Every way in which it can be malformed throws plumb::Failure with a sentence; nothing
/// is repaired. The views refer to `image`.
TensorViews parseSafetensors(std::span<const std::byte> image);

/// Writes a file in place: all tensors are declared first, then filled in any order, then committed. Until
/// then there is only a temporary file, which vanishes with the writer. The bytes depend on nothing but the
/// arguments.
///
/// Several writers, also of several processes, may fill one file: the `First` makes the temporary file, then
/// the others join; when all have flushed, the first one commits.
class SafetensorsWriter {
public:
  enum Role { Alone, First, Other };
  struct Entry {
    std::string name, dtype;
    std::vector<std::int64_t> shape;
  };

  SafetensorsWriter(std::string path, std::vector<Entry> entries, Role role = Alone);
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter &) = delete;
  SafetensorsWriter &operator=(const SafetensorsWriter &) = delete;

  /// The memory of the entry with that index; zero at first.
  std::span<std::byte> data(std::size_t entry) const { return regions[entry]; }
  /// What this writer has filled is on disk.
  void flush();
  /// The file appears under its name, and is on disk.
  void commit();

private:
  int open();

  std::string path, temporary;
  Role role;
  void *mapping = nullptr;
  std::size_t length = 0;
  std::vector<std::span<std::byte>> regions;
};

} // namespace plumb

#endif // PLUMB_RUNTIME_SAFETENSORS_H
