// Linked with --wrap for these: device memory ends where a page begins that must not be touched, or
// GUARD_SHORT bytes behind it.
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

extern "C" int __wrap_cudaMalloc(void **pointer, std::size_t size) {
  const char *text = getenv("GUARD_SHORT");
  std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE)),
              missing = text ? std::strtoul(text, nullptr, 10) : 0;
  std::size_t pages = (size + page - 1) / page * page;
  char *memory = static_cast<char *>(
      mmap(nullptr, pages + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (memory == MAP_FAILED || mprotect(memory + pages, page, PROT_NONE))
    return 2;
  *pointer = memory + pages - size + missing;
  return 0;
}

// What clears the memory at the start would touch all of it; it is zero already.
extern "C" int __wrap_cudaMemset(void *, int, std::size_t) { return 0; }
