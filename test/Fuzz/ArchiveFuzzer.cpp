//===- ArchiveFuzzer.cpp - Any archive is read or rejected with a message -------===//

#include "plumb/Runtime/Archive.h"
#include "plumb/Runtime/Failure.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  std::span image(reinterpret_cast<const std::byte *>(data), size);
  try {
    for (const auto &[name, view] : plumb::parseArchive(image).views) {
      // The views lie in the image. Views that expand what is stored may be larger than memory.
      std::byte element[8];
      std::size_t item = static_cast<std::size_t>(plumb::elementSize(view.dtype)), bytes = view.bytes();
      if (!view.data.empty() &&
          (view.data.data() < image.data() || view.data.data() + view.data.size() > image.data() + size))
        __builtin_trap();
      for (std::size_t i = 0; i < std::min<std::size_t>(bytes / item, 1000); ++i) {
        view.copy(i * item, item, element);
        view.copy(bytes - (i + 1) * item, item, element);
      }
    }
  } catch (const plumb::Failure &) {
  }
  return 0;
}
