//===- TokenSource.h - Inputs from a stream of tokens -------------------------===//
//
// Safetensors files, in the order of their names, each with a tensor `tokens` of one dimension (U8, U16, U32,
// I32 or I64), make one stream. In step s, input i of n elements is, row by row, the tokens from
// s·n + shift(i) on: shift(i) is i, so that the second input is the targets of the first one, or what a
// tensor `shifts` (I64, one number per input) in one of the files says.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_RUNTIME_TOKENSOURCE_H
#define PLUMB_RUNTIME_TOKENSOURCE_H

#include "plumb/Runtime/InputSource.h"
#include "plumb/Runtime/TensorFiles.h"

namespace plumb {

/// Whether one of the files has `tokens`.
bool hasTokens(const TensorFiles &files);

/// Throws plumb::Failure if the files are no such stream, if it is too short for so many steps, or if the
/// inputs of the program are no integers of one number of elements.
std::unique_ptr<InputSource> openTokenSource(std::unique_ptr<TensorFiles> files, const Program &program,
                                             std::int64_t steps);

} // namespace plumb

#endif // PLUMB_RUNTIME_TOKENSOURCE_H
