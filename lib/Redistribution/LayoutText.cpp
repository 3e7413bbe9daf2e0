//===- LayoutText.cpp - The text forms of meshes and layouts --------------===//
#include "plumb/Redistribution/LayoutText.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

using namespace plumb::redistribution;

char TextError::ID = 0;

void TextError::log(llvm::raw_ostream &os) const { os << "column " << offset + 1 << ": " << message; }

std::error_code TextError::convertToErrorCode() const { return llvm::inconvertibleErrorCode(); }

namespace {

/// A recursive-descent reader that remembers its first error; after one, everything reads as the end.
class Reader {
public:
  explicit Reader(llvm::StringRef text) : text(text) {}

  bool failed() const { return bool(error); }
  size_t position() {
    skipSpace();
    return at;
  }

  void fail(size_t offset, std::string message) {
    if (!error)
      error.emplace(offset, std::move(message));
  }

  llvm::Error finish() {
    skipSpace();
    if (!error && at < text.size())
      fail(at, llvm::formatv("unexpected '{0}' after the end", text.substr(at)).str());
    if (error)
      return llvm::make_error<TextError>(error->offset, error->message);
    return llvm::Error::success();
  }

  bool atEnd() {
    skipSpace();
    return failed() || at == text.size();
  }

  bool peek(char c) {
    skipSpace();
    return !failed() && at < text.size() && text[at] == c;
  }

  bool accept(char c) {
    if (!peek(c))
      return false;
    ++at;
    return true;
  }

  void expect(char c, llvm::StringRef where) {
    if (!accept(c))
      fail(at, llvm::formatv("expected '{0}' {1}, found {2}", c, where, found()).str());
  }

  bool acceptWord(llvm::StringRef word) {
    skipSpace();
    llvm::StringRef rest = text.substr(at);
    if (failed() || rest.take_while(isNameChar) != word)
      return false;
    at += word.size();
    return true;
  }

  llvm::StringRef name(llvm::StringRef what) {
    skipSpace();
    llvm::StringRef result = failed() ? llvm::StringRef() : text.substr(at).take_while(isNameChar);
    if (result.empty() || llvm::isDigit(result.front())) {
      fail(at, llvm::formatv("expected {0}, found {1}", what, found()).str());
      return {};
    }
    at += result.size();
    return result;
  }

  int64_t number(llvm::StringRef what) {
    skipSpace();
    llvm::StringRef digits = failed() ? llvm::StringRef() : text.substr(at).take_while(llvm::isDigit);
    int64_t value = 0;
    if (digits.empty()) {
      fail(at, llvm::formatv("expected {0}, found {1}", what, found()).str());
      return 0;
    }
    if (digits.getAsInteger(10, value)) {
      fail(at, llvm::formatv("{0} is too large for {1}", digits, what).str());
      return 0;
    }
    at += digits.size();
    return value;
  }

private:
  static bool isNameChar(char c) { return llvm::isAlnum(c) || c == '_' || c == '.' || c == '-'; }

  void skipSpace() {
    while (at < text.size() && llvm::isSpace(text[at]))
      ++at;
  }

  std::string found() const {
    return at < text.size() ? llvm::formatv("'{0}'", text[at]).str() : std::string("the end");
  }

  struct Failure {
    Failure(size_t offset, std::string message) : offset(offset), message(std::move(message)) {}
    size_t offset;
    std::string message;
  };

  llvm::StringRef text;
  size_t at = 0;
  std::optional<Failure> error;
};

/// axis | axis ':(' pre ')' size
AxisRef readAxis(Reader &reader, const Mesh &mesh) {
  size_t start = reader.position();
  llvm::StringRef name = reader.name("an axis name");
  std::optional<unsigned> axis = mesh.find(name);
  if (!axis) {
    reader.fail(start, llvm::formatv("the mesh {0} has no axis '{1}'", toString(mesh), name).str());
    return {};
  }
  // A ':' that no '(' follows belongs to the caller: it introduces a reduction.
  Reader ahead = reader;
  if (!ahead.accept(':') || !ahead.peek('('))
    return wholeAxis(mesh, *axis);
  reader = ahead;
  reader.expect('(', "before the size of the outer digits");
  int64_t pre = reader.number("the size of the outer digits");
  reader.expect(')', "after the size of the outer digits");
  int64_t size = reader.number("the size of the sub-axis");
  int64_t whole = mesh.axes[*axis].size;
  if (pre < 1 || size < 1 || pre > whole || size > whole || whole % (pre * size) != 0)
    reader.fail(start,
                llvm::formatv("({0}){1} is not a sub-axis of '{2}': {0}·{1} does not divide its size {3}",
                              pre, size, name, whole)
                    .str());
  return {*axis, pre, size};
}

/// '{' axes '}' [blocks (N | '[' sizes ']')] [unit N]
DimSharding readDim(Reader &reader, const Mesh &mesh) {
  DimSharding dim;
  reader.expect('{', "before the axes of a dimension");
  if (!reader.accept('}')) {
    do
      dim.axes.push_back(readAxis(reader, mesh));
    while (reader.accept(','));
    reader.expect('}', "after the axes of a dimension");
  }
  if (reader.acceptWord("blocks")) {
    if (reader.accept('[')) {
      do
        dim.blockSizes.push_back(reader.number("the size of a block"));
      while (reader.accept(','));
      reader.expect(']', "after the sizes of the blocks");
    } else {
      dim.blocks = reader.number("the number of blocks");
    }
  }
  if (reader.acceptWord("unit"))
    dim.unit = reader.number("the size of a unit");
  return dim;
}

/// axis [':' reduction]
PartialAxis readPartial(Reader &reader, const Mesh &mesh) {
  PartialAxis partial;
  partial.axis = readAxis(reader, mesh);
  if (!reader.accept(':'))
    return partial;
  size_t start = reader.position();
  llvm::StringRef name = reader.name("a reduction");
  if (auto reduction = reductionFromName(name))
    partial.reduction = *reduction;
  else
    reader.fail(
        start,
        llvm::formatv("'{0}' is not a reduction; there are sum, avg, min, max and product", name).str());
  return partial;
}

template <typename Range, typename Print>
void printList(llvm::raw_ostream &os, char open, const Range &range, char close, Print print) {
  os << open;
  llvm::interleave(range, os, print, ",");
  os << close;
}

} // namespace

llvm::Expected<Mesh> plumb::redistribution::parseMesh(llvm::StringRef text) {
  Reader reader(text);
  Mesh mesh;
  if (!reader.atEnd()) {
    do {
      MeshAxis axis;
      axis.name = reader.name("an axis name").str();
      reader.expect('=', "after the axis name");
      axis.size = reader.number("the size of the axis");
      mesh.axes.push_back(std::move(axis));
    } while (reader.accept(','));
  }
  if (llvm::Error error = reader.finish())
    return error;
  if (llvm::Error error = checkMesh(mesh))
    return error;
  return mesh;
}

llvm::Expected<Index> plumb::redistribution::parseShape(llvm::StringRef text) {
  Reader reader(text);
  Index shape;
  if (!reader.atEnd()) {
    do
      shape.push_back(reader.number("the size of a dimension"));
    while (reader.accept(','));
  }
  if (llvm::Error error = reader.finish())
    return error;
  return shape;
}

llvm::Expected<Layout> plumb::redistribution::parseLayout(const Mesh &mesh, llvm::StringRef text) {
  Reader reader(text);
  Layout layout;
  reader.expect('[', "at the start of a layout");
  if (!reader.accept(']')) {
    do
      layout.dims.push_back(readDim(reader, mesh));
    while (reader.accept(','));
    reader.expect(']', "after the last dimension");
  }
  if (reader.acceptWord("partial")) {
    reader.expect('{', "before the partial axes");
    do
      layout.partial.push_back(readPartial(reader, mesh));
    while (reader.accept(','));
    reader.expect('}', "after the partial axes");
  }
  if (llvm::Error error = reader.finish())
    return error;
  return layout;
}

std::string plumb::redistribution::toString(const Mesh &mesh) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleave(mesh.axes, os, [&](const MeshAxis &axis) { os << axis.name << '=' << axis.size; }, ",");
  return text;
}

std::string plumb::redistribution::toString(llvm::ArrayRef<int64_t> shape) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleave(shape, os, ",");
  return text;
}

std::string plumb::redistribution::toString(const Mesh &mesh, const AxisRef &ref) {
  if (ref.axis >= mesh.axes.size())
    return llvm::formatv("#{0}", ref.axis).str();
  const MeshAxis &axis = mesh.axes[ref.axis];
  if (ref.pre == 1 && ref.size == axis.size)
    return axis.name;
  return llvm::formatv("{0}:({1}){2}", axis.name, ref.pre, ref.size).str();
}

std::string plumb::redistribution::toString(const Mesh &mesh, const Layout &layout) {
  std::string text;
  llvm::raw_string_ostream os(text);
  printList(os, '[', layout.dims, ']', [&](const DimSharding &dim) {
    printList(os, '{', dim.axes, '}', [&](const AxisRef &ref) { os << toString(mesh, ref); });
    if (!dim.blockSizes.empty()) {
      os << " blocks ";
      printList(os, '[', dim.blockSizes, ']', [&](int64_t size) { os << size; });
    } else if (dim.blocks != 1) {
      os << " blocks " << dim.blocks;
    }
    if (dim.unit != 1)
      os << " unit " << dim.unit;
  });
  if (!layout.partial.empty()) {
    os << " partial";
    printList(os, '{', layout.partial, '}', [&](const PartialAxis &partial) {
      os << toString(mesh, partial.axis);
      if (partial.reduction != Reduction::Sum)
        os << ':' << reductionName(partial.reduction);
    });
  }
  return text;
}
