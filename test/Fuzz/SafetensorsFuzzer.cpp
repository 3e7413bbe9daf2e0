//===- SafetensorsFuzzer.cpp - Any image is read or rejected with a message ----===//

#include "plumb/Runtime/Failure.h"
#include "plumb/Runtime/Safetensors.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  std::span image(reinterpret_cast<const std::byte *>(data), size);
  try {
    std::size_t bytes = 0;
    for (const auto &[name, view] : plumb::parseSafetensors(image)) {
      // The views lie in the image and do not overlap.
      if (!view.data.empty() &&
          (view.data.data() < image.data() || view.data.data() + view.data.size() > image.data() + size))
        __builtin_trap();
      bytes += view.data.size();
    }
    if (bytes > size)
      __builtin_trap();
  } catch (const plumb::Failure &) {
  }
  return 0;
}
