//===- ExitCode.h - Exit codes of the command line --------------*- C++ -*-===//
#ifndef PLUMB_TOOLS_PLUMBC_EXITCODE_H
#define PLUMB_TOOLS_PLUMBC_EXITCODE_H

namespace plumb {

/// Exit codes of the command line; scripts depend on them.
enum ExitCode { kSuccess = 0, kRejected = 1, kUsage = 2, kCheckFailed = 3, kInternalError = 70 };

} // namespace plumb

#endif // PLUMB_TOOLS_PLUMBC_EXITCODE_H
