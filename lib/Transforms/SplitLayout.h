//===- SplitLayout.h - Layout strings of Megatron ---------------*- C++ -*-===//

#ifndef PLUMB_LIB_TRANSFORMS_SPLITLAYOUT_H
#define PLUMB_LIB_TRANSFORMS_SPLITLAYOUT_H

#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace plumb {

/// Reads a string such as `Et*3|(tt|)*29,m|L`: `E` is the embedding, `t` a decoder layer, `m` a layer that
/// predicts further tokens, `L` head and loss; `|` ends a stage, `x*n` and `(…)*n` repeat, commas and spaces
/// mean nothing. Answers the letters of each stage, none of which is empty; the error names the character
/// that is wrong. `E` comes first and `L` last, each once, and all `t` before all `m`.
llvm::Expected<std::vector<std::string>> parseSplitLayout(llvm::StringRef text);

} // namespace plumb

#endif // PLUMB_LIB_TRANSFORMS_SPLITLAYOUT_H
