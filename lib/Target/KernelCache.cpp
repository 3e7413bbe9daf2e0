#include "plumb/Target/KernelCache.h"

#include "llvm/Config/llvm-config.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"

namespace plumb::kernels {

namespace path = llvm::sys::path;
namespace fs = llvm::sys::fs;

/// Footer: magic, scratch bytes (little endian), SHA-256 of everything before it.
static constexpr llvm::StringLiteral kMagic = "plumbkernel\n";
static constexpr size_t kDigestSize = 32, kFooterSize = kMagic.size() + 8 + kDigestSize;

static std::string digest(llvm::StringRef bytes) {
  auto hash = llvm::SHA256::hash(llvm::arrayRefFromStringRef(bytes));
  return {reinterpret_cast<const char *>(hash.data()), hash.size()};
}

static std::string defaultDirectory() {
  llvm::SmallString<128> result;
  if (auto home = llvm::sys::Process::GetEnv("XDG_CACHE_HOME"); home && path::is_absolute(*home))
    result = *home;
  else if (path::home_directory(result))
    path::append(result, ".cache");
  if (!result.empty())
    path::append(result, "plumb");
  return result.str().str();
}

llvm::Expected<KernelCache> KernelCache::open(llvm::StringRef directory) {
  KernelCache cache;
  cache.directory = directory.empty() ? defaultDirectory() : directory.str();
  if (!cache.directory.empty() && !fs::create_directories(cache.directory) &&
      !fs::access(cache.directory, fs::AccessMode::Write))
    return cache;
  llvm::SmallString<128> temporary;
  if (std::error_code error = fs::createUniqueDirectory("plumb-kernels", temporary))
    return llvm::createStringError(error,
                                   "neither '" + cache.directory +
                                       "' nor a temporary directory can be written to: " + error.message());
  cache.directory = temporary.str().str();
  return cache;
}

std::string KernelCache::path(llvm::StringRef key) const {
  llvm::SmallString<128> result(directory);
  path::append(result, "k_" + key + ".o");
  return result.str().str();
}

std::optional<int64_t> KernelCache::lookup(llvm::StringRef key) const {
  auto buffer = llvm::MemoryBuffer::getFile(path(key), /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer)
    return std::nullopt;
  llvm::StringRef bytes = (*buffer)->getBuffer();
  if (bytes.size() < kFooterSize || digest(bytes.drop_back(kDigestSize)) != bytes.take_back(kDigestSize))
    return std::nullopt;
  llvm::StringRef footer = bytes.take_back(kFooterSize);
  if (!footer.consume_front(kMagic))
    return std::nullopt;
  return static_cast<int64_t>(llvm::support::endian::read64le(footer.data()));
}

llvm::Error KernelCache::store(llvm::StringRef key, llvm::StringRef object, int64_t scratchBytes) const {
  std::string bytes = object.str() + kMagic.str();
  char size[8];
  llvm::support::endian::write64le(size, scratchBytes);
  bytes.append(size, sizeof size);
  bytes += digest(bytes);
  return llvm::writeToOutput(path(key), [&](llvm::raw_ostream &stream) -> llvm::Error {
    stream << bytes;
    return llvm::Error::success();
  });
}

llvm::StringRef compilerFingerprint() { return PLUMB_KERNEL_FINGERPRINT " LLVM " LLVM_VERSION_STRING; }

} // namespace plumb::kernels
