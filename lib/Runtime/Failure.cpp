//===- Failure.cpp - What goes wrong at run time ----------------------------===//

#include "plumb/Runtime/Failure.h"

#include <cerrno>
#include <cstring>
#include <new>

namespace plumb {

void failOn(const std::string &file, const std::string &sentence) {
  throw Failure(file, sentence + ": " + std::strerror(errno));
}

Outcome outcomeOfException(const std::string &who) {
  try {
    throw;
  } catch (const UsageError &error) {
    return {2, error.sentence(), error.file()};
  } catch (const Failure &failure) {
    return {1, who + failure.sentence(), failure.file()};
  } catch (const std::bad_alloc &) {
    return {1, who + "out of memory"};
  } catch (const std::exception &exception) {
    return {1, who + exception.what()};
  }
}

} // namespace plumb
