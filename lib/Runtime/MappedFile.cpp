//===- MappedFile.cpp - A file, mapped into memory ----------------------------===//

#include "plumb/Runtime/MappedFile.h"

#include "plumb/Runtime/Failure.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace plumb {

MappedFile::MappedFile(const std::string &path) {
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    failOn(path, "cannot open");
  struct stat status;
  bool ok = ::fstat(file, &status) == 0;
  bool regular = ok && S_ISREG(status.st_mode);
  length = regular ? static_cast<std::size_t>(status.st_size) : 0;
  if (length)
    mapping = ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE, file, 0);
  int error = errno;
  ::close(file);
  errno = error;
  if (!ok || mapping == MAP_FAILED) {
    mapping = nullptr;
    failOn(path, "cannot read");
  }
  if (!regular)
    throw Failure(path, "this is not a regular file");
}

MappedFile::~MappedFile() {
  if (mapping)
    ::munmap(mapping, length);
}

} // namespace plumb
