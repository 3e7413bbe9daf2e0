//===- LayoutText.h - The text forms of meshes and layouts ------*- C++ -*-===//
//
//   mesh    dp=2,tp=4
//   shape   64,64                      (the empty text is a scalar)
//   layout  [{dp},{}] partial{tp}      an axis list per dimension, then the partial axes
//           [{tp:(1)2},{}]             the first factor 2 of tp
//           [{tp} blocks 3,{}]         three equal blocks, each cut by tp
//           [{tp} blocks [64,32,32] unit 8]
//           [{}] partial{dp,cp:max}    a reduction other than sum is named
//
// Parsers are strict: all of the text is read, and an error says where.
//
//===----------------------------------------------------------------------===//
#ifndef PLUMB_REDISTRIBUTION_LAYOUTTEXT_H
#define PLUMB_REDISTRIBUTION_LAYOUTTEXT_H

#include "plumb/Redistribution/Layout.h"

namespace plumb::redistribution {

/// An error at a byte offset of the text that was parsed.
class TextError : public llvm::ErrorInfo<TextError> {
public:
  static char ID;
  TextError(size_t offset, std::string message) : offset(offset), message(std::move(message)) {}

  size_t offset;
  std::string message;

  /// "column 7: …", columns counted from 1.
  void log(llvm::raw_ostream &os) const override;
  std::error_code convertToErrorCode() const override;
};

llvm::Expected<Mesh> parseMesh(llvm::StringRef text);
llvm::Expected<Index> parseShape(llvm::StringRef text);
/// Resolves axis names and sub-axes in `mesh`; `checkLayout` does the rest.
llvm::Expected<Layout> parseLayout(const Mesh &mesh, llvm::StringRef text);

std::string toString(const Mesh &mesh);
std::string toString(llvm::ArrayRef<int64_t> shape);
std::string toString(const Mesh &mesh, const AxisRef &axis);
std::string toString(const Mesh &mesh, const Layout &layout);

} // namespace plumb::redistribution

#endif // PLUMB_REDISTRIBUTION_LAYOUTTEXT_H
