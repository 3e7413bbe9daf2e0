//===- Archive.h - The tensors of a torch.export archive ----------------------===//
//
// A `.pt2` is a ZIP archive. For each name of a tensor a config (data/weights/model_weights_config.json, and
// the same for constants) says which entry beside it holds the bytes, and where in that the tensor lies.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_RUNTIME_ARCHIVE_H
#define PLUMB_RUNTIME_ARCHIVE_H

#include "plumb/Runtime/TensorView.h"

namespace plumb {

struct ArchiveTensors {
  TensorViews views; ///< Parameters, buffers and constants.
  /// Of the others, why they cannot be read: " is stored as a Python pickle".
  std::map<std::string, std::string, std::less<>> unreadable;
};

/// Reads the image of an archive of PyTorch 2.9 or newer. Every way in which it can be malformed throws
/// plumb::Failure with a sentence. The views refer to `image`.
ArchiveTensors parseArchive(std::span<const std::byte> image);

} // namespace plumb

#endif // PLUMB_RUNTIME_ARCHIVE_H
