// Objects kept on disk.
#ifndef PLUMB_TARGET_KERNELCACHE_H
#define PLUMB_TARGET_KERNELCACHE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <optional>
#include <string>

namespace plumb::kernels {

/// A directory of objects, one file per key: the object, then a footer that linkers do not look at, with the
/// size of the scratch memory and a checksum of all of it. Files appear under their name complete or not at
/// all, so that several processes may share the directory.
class KernelCache {
public:
  /// Opens `directory`, or the default place if it is empty; a private temporary directory if that is not
  /// writable.
  static llvm::Expected<KernelCache> open(llvm::StringRef directory);

  std::string path(llvm::StringRef key) const;
  /// The scratch bytes of an entry; nothing if it is missing, or damaged.
  std::optional<int64_t> lookup(llvm::StringRef key) const;
  llvm::Error store(llvm::StringRef key, llvm::StringRef object, int64_t scratchBytes) const;

private:
  std::string directory;
};

/// Identifies the compiler: its sources and the release of LLVM.
llvm::StringRef compilerFingerprint();

} // namespace plumb::kernels

#endif // PLUMB_TARGET_KERNELCACHE_H
