//===- ProgramWriter.cpp - Building blocks of the program's source -------------===//

#include "ProgramWriter.h"
#include "mlir/Dialect/EmitC/IR/EmitC.h"
#include "plumb/Dialect/NN/NN.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace plumb;
using namespace plumb::target;

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

static bool isKeyword(StringRef text) {
  static const llvm::StringSet<> keywords{
      "alignas",     "alignof",   "and",        "and_eq",    "asm",      "auto",         "bitand",
      "bitor",       "bool",      "break",      "case",      "catch",    "char",         "char8_t",
      "char16_t",    "char32_t",  "class",      "compl",     "concept",  "const",        "consteval",
      "constexpr",   "constinit", "const_cast", "continue",  "co_await", "co_return",    "co_yield",
      "decltype",    "default",   "delete",     "do",        "double",   "dynamic_cast", "else",
      "enum",        "explicit",  "export",     "extern",    "false",    "float",        "for",
      "friend",      "goto",      "if",         "inline",    "int",      "long",         "mutable",
      "namespace",   "new",       "noexcept",   "not",       "not_eq",   "nullptr",      "operator",
      "or",          "or_eq",     "private",    "protected", "public",   "register",     "reinterpret_cast",
      "requires",    "return",    "short",      "signed",    "sizeof",   "static",       "static_assert",
      "static_cast", "struct",    "switch",     "template",  "this",     "thread_local", "throw",
      "true",        "try",       "typedef",    "typeid",    "typename", "union",        "unsigned",
      "using",       "virtual",   "void",       "volatile",  "wchar_t",  "while",        "xor",
      "xor_eq"};
  return keywords.contains(text);
}

std::string plumb::target::toIdentifier(StringRef text) {
  std::string name;
  for (char c : text) {
    bool plain = llvm::isAlnum(c);
    if (plain || (!name.empty() && name.back() != '_'))
      name += plain ? c : '_';
  }
  while (!name.empty() && name.back() == '_')
    name.pop_back();
  if (name.empty() || llvm::isDigit(name[0]))
    name = "v" + name;
  return isKeyword(name) ? name + "_" : name;
}

std::string Identifiers::make(StringRef text) {
  std::string base = toIdentifier(text), name = base;
  for (int &count = used[base]; count > 0 && used.contains(name);)
    name = base + "_" + std::to_string(++count);
  ++used[name];
  return name;
}

ElementNames plumb::target::getElementNames(Type element) {
  if (element.isF64())
    return {"double", "ncclFloat64", "F64"};
  if (element.isBF16())
    return {"std::uint16_t", "ncclBfloat16", "BF16"};
  if (element.isF16())
    return {"std::uint16_t", "ncclFloat16", "F16"};
  if (element.isInteger(64))
    return {"std::int64_t", "ncclInt64", "I64"};
  if (element.isInteger(32))
    return {"std::int32_t", "ncclInt32", "I32"};
  if (element.isInteger(1))
    return {"bool", "ncclUint8", "Bool"};
  return {"float", "ncclFloat32", "F32"};
}

std::string plumb::target::joinNumbers(ArrayRef<int64_t> numbers) {
  return llvm::join(llvm::map_range(numbers, [](int64_t number) { return std::to_string(number); }), ", ");
}

std::string plumb::target::toComment(StringRef text) {
  std::string line;
  for (char c : text)
    line += c == '\\' ? '/' : llvm::isPrint(c) || (c & 0x80) ? c : ' ';
  return line;
}

std::string plumb::target::quote(StringRef text) {
  std::string literal = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      literal += '\\';
    // A question mark could begin a trigraph; anything unprintable is written in octal, which ends after
    // three digits.
    if (llvm::isPrint(c) && c != '?')
      literal += c;
    else
      literal += llvm::formatv("\\{0}{1}{2}", (c >> 6) & 3, (c >> 3) & 7, c & 7).str();
  }
  return literal + "\"";
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

ProgramWriter::ProgramWriter(ModuleOp plan)
    : source(ModuleOp::create(plan.getLoc())), builder(plan.getContext()) {
  builder.setInsertionPointToEnd(source->getBody());
}

void ProgramWriter::write(const Twine &text) {
  emitc::VerbatimOp::create(builder, source->getLoc(), builder.getStringAttr(text));
}

void ProgramWriter::include(StringRef header, bool standard) {
  emitc::IncludeOp::create(builder, source->getLoc(), header, standard);
}

void ProgramWriter::writeTable(StringRef type, StringRef name, ArrayRef<std::string> entries, int perLine) {
  std::string text = "{";
  for (auto [index, entry] : llvm::enumerate(entries))
    text += (static_cast<int>(index) % perLine == 0 ? "\n    " : " ") + entry + ",";
  auto element = emitc::OpaqueType::get(builder.getContext(), type);
  auto array = emitc::ArrayType::get({static_cast<int64_t>(entries.size())}, element);
  emitc::GlobalOp::create(builder, source->getLoc(), name, array,
                          emitc::OpaqueAttr::get(builder.getContext(), text + "\n}"), /*extern=*/false,
                          /*static=*/true,
                          /*const=*/true);
}

void ProgramWriter::writeFunction(StringRef comment, StringRef name, bool perMicrobatch,
                                  ArrayRef<std::string> lines) {
  if (!comment.empty())
    write("\n// " + comment);
  SmallVector<Type> inputs{emitc::OpaqueType::get(builder.getContext(), "plumb::Rank &")};
  if (perMicrobatch)
    inputs.push_back(emitc::OpaqueType::get(builder.getContext(), "std::size_t"));
  auto function = emitc::FuncOp::create(builder, source->getLoc(), name, builder.getFunctionType(inputs, {}));
  OpBuilder body = OpBuilder::atBlockBegin(function.addEntryBlock());
  Location loc = source->getLoc();
  // The emitter numbers arguments; these lines give them names.
  emitc::VerbatimOp::create(body, loc, body.getStringAttr("plumb::Rank &rank = {};"),
                            function.getArguments().take_front(1));
  bool usesMicrobatch = llvm::any_of(lines, [](StringRef line) { return line.contains("microbatch"); });
  if (perMicrobatch && usesMicrobatch)
    emitc::VerbatimOp::create(body, loc, body.getStringAttr("const std::size_t microbatch = {};"),
                              function.getArguments().drop_front(1));
  else if (perMicrobatch)
    emitc::VerbatimOp::create(body, loc, body.getStringAttr("(void){};"),
                              function.getArguments().drop_front(1));
  for (const std::string &line : lines)
    emitc::VerbatimOp::create(body, loc, body.getStringAttr(line));
  emitc::ReturnOp::create(body, loc, Value());
}

//===----------------------------------------------------------------------===//
// The plan
//===----------------------------------------------------------------------===//

bool plumb::target::isSilent(Operation *op) {
  return isa<LoadOp, InputOp, ccl::SliceOp>(op) || op->hasTrait<nn::Reinterprets>() ||
         (isa<StoreOp>(op) && !op->hasAttr(kCopyAttr)) || (isa<ccl::SendOp>(op) && !op->hasAttr(kStreamAttr));
}

bool ProgramPlan::hasPart(int64_t stage, const Part &part) const {
  auto ops = parts.find({stage, part});
  return ops != parts.end() && llvm::any_of(ops->second, [](Operation *op) { return !isSilent(op); });
}

llvm::StringSet<> plumb::target::findCommunicators(const Pipeline &pipeline) {
  llvm::StringSet<> used;
  for (StageOp stage : pipeline.stages)
    for (Operation &op : stage.getBody().front())
      if (auto communicator = op.getAttrOfType<FlatSymbolRefAttr>("communicator"))
        if (!isa<ccl::SendOp, ccl::RecvOp>(op) || op.hasAttr(kStreamAttr))
          used.insert(communicator.getValue());
  return used;
}
