//===- PlumbAttributes.cpp - Axes and layouts ------------------------------===//

#include "mlir/IR/DialectImplementation.h"
#include "plumb/Dialect/Plumb/Plumb.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace plumb;

#define GET_ATTRDEF_CLASSES
#include "plumb/Dialect/Plumb/PlumbAttributes.cpp.inc"

#include "plumb/Dialect/Plumb/PlumbEnums.cpp.inc"

//===----------------------------------------------------------------------===//
// AxisRefAttr: "tp" or "tp":(2)4
//===----------------------------------------------------------------------===//

/// Parses an axis. Where a reduction follows, `colon` is set when the colon that was read is already its own.
static AxisRefAttr parseAxis(AsmParser &parser, bool *colon = nullptr) {
  std::string name;
  int64_t preSize = 1, size = 0;
  if (parser.parseString(&name))
    return {};
  if (succeeded(parser.parseOptionalColon())) {
    if (colon && failed(parser.parseOptionalLParen()))
      *colon = true;
    else if ((!colon && parser.parseLParen()) || parser.parseInteger(preSize) || parser.parseRParen() ||
             parser.parseInteger(size))
      return {};
  }
  return AxisRefAttr::get(parser.getContext(), parser.getBuilder().getStringAttr(name), preSize, size);
}

Attribute AxisRefAttr::parse(AsmParser &parser, Type) { return parseAxis(parser); }

void AxisRefAttr::print(AsmPrinter &printer) const {
  printer << getName();
  if (!isWhole())
    printer << ":(" << getPreSize() << ")" << getSize();
}

//===----------------------------------------------------------------------===//
// DimShardingAttr: {"dp", "tp"} blocks 3, {"tp"} blocks [64, 32, 32]
//===----------------------------------------------------------------------===//

SmallVector<int64_t> plumb::equalBlocks(int64_t count) {
  return count == 1 ? SmallVector<int64_t>() : SmallVector<int64_t>{count};
}

SmallVector<int64_t> plumb::blocksOfSizes(ArrayRef<int64_t> sizes) {
  if (sizes.size() <= 1 || llvm::all_equal(sizes))
    return equalBlocks(std::max<int64_t>(1, static_cast<int64_t>(sizes.size())));
  return SmallVector<int64_t>(sizes);
}

ParseResult plumb::parseBlocks(AsmParser &parser, SmallVectorImpl<int64_t> &blocks) {
  int64_t count = 0;
  OptionalParseResult isCount = parser.parseOptionalInteger(count);
  if (isCount.has_value()) {
    blocks = equalBlocks(count);
    return *isCount;
  }
  SmallVector<int64_t> sizes;
  ParseResult isList = parser.parseCommaSeparatedList(
      AsmParser::Delimiter::Square, [&] { return parser.parseInteger(sizes.emplace_back()); });
  blocks = blocksOfSizes(sizes);
  return isList;
}

void plumb::printBlocks(llvm::raw_ostream &os, ArrayRef<int64_t> blocks) {
  os << (blocks.size() > 1 ? "[" : "");
  llvm::interleaveComma(blocks, os);
  os << (blocks.size() > 1 ? "]" : "");
}

Attribute DimShardingAttr::parse(AsmParser &parser, Type) {
  SmallVector<AxisRefAttr> axes;
  SmallVector<int64_t> blocks;
  auto parseElement = [&] {
    axes.push_back(parseAxis(parser));
    return success(axes.back() != nullptr);
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces, parseElement))
    return {};
  if (succeeded(parser.parseOptionalKeyword("blocks")) && parseBlocks(parser, blocks))
    return {};
  return DimShardingAttr::get(parser.getContext(), axes, blocks);
}

void DimShardingAttr::print(AsmPrinter &printer) const {
  printer << "{";
  llvm::interleaveComma(getAxes(), printer.getStream(), [&](AxisRefAttr axis) { axis.print(printer); });
  printer << "}";
  if (!getBlocks().empty())
    printBlocks(printer.getStream() << " blocks ", getBlocks());
}

int64_t DimShardingAttr::countBlocks() const {
  if (getBlocks().empty())
    return 1;
  return hasUnequalBlocks() ? static_cast<int64_t>(getBlocks().size()) : getBlocks().front();
}

SmallVector<int64_t> DimShardingAttr::getBlockSizes(int64_t size) const {
  if (hasUnequalBlocks())
    return SmallVector<int64_t>(getBlocks());
  return SmallVector<int64_t>(countBlocks(), size / countBlocks());
}

DimShardingAttr DimShardingAttr::withAxes(ArrayRef<AxisRefAttr> axes) const {
  return DimShardingAttr::get(getContext(), axes, axes.empty() ? ArrayRef<int64_t>() : getBlocks());
}

//===----------------------------------------------------------------------===//
// PartialAttr: "cp" : sum
//===----------------------------------------------------------------------===//

Attribute PartialAttr::parse(AsmParser &parser, Type) {
  bool colon = false;
  AxisRefAttr axis = parseAxis(parser, &colon);
  StringRef reduction;
  if (!axis || (!colon && parser.parseColon()) || parser.parseKeyword(&reduction))
    return {};
  return PartialAttr::get(parser.getContext(), axis, parser.getBuilder().getStringAttr(reduction));
}

void PartialAttr::print(AsmPrinter &printer) const {
  getAxis().print(printer);
  printer << " : " << getReduction().getValue();
}

//===----------------------------------------------------------------------===//
// LayoutAttr: <@mesh, [{"dp"}, {}], partial = {"cp" : sum}>
//===----------------------------------------------------------------------===//

Attribute LayoutAttr::parse(AsmParser &parser, Type) {
  FlatSymbolRefAttr mesh;
  SmallVector<DimShardingAttr> dims;
  SmallVector<PartialAttr> partial;
  auto parseDim = [&] {
    auto dim = llvm::dyn_cast_or_null<DimShardingAttr>(DimShardingAttr::parse(parser, {}));
    dims.push_back(dim);
    return success(dim != nullptr);
  };
  auto parsePartial = [&] {
    auto entry = llvm::dyn_cast_or_null<PartialAttr>(PartialAttr::parse(parser, {}));
    partial.push_back(entry);
    return success(entry != nullptr);
  };
  if (parser.parseLess() || parser.parseAttribute(mesh) || parser.parseComma() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseDim))
    return {};
  if (succeeded(parser.parseOptionalComma()) &&
      (parser.parseKeyword("partial") || parser.parseEqual() ||
       parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces, parsePartial)))
    return {};
  if (parser.parseGreater())
    return {};
  return LayoutAttr::get(parser.getContext(), mesh, dims, partial);
}

void LayoutAttr::print(AsmPrinter &printer) const {
  printer << "<" << getMesh() << ", [";
  llvm::interleaveComma(getDims(), printer.getStream(), [&](DimShardingAttr dim) { dim.print(printer); });
  printer << "]";
  if (!getPartial().empty()) {
    printer << ", partial = {";
    llvm::interleaveComma(getPartial(), printer.getStream(),
                          [&](PartialAttr entry) { entry.print(printer); });
    printer << "}";
  }
  printer << ">";
}

LayoutAttr LayoutAttr::replicated(FlatSymbolRefAttr mesh, int64_t rank) {
  auto whole = DimShardingAttr::get(mesh.getContext(), {}, {});
  return LayoutAttr::get(mesh.getContext(), mesh, SmallVector<DimShardingAttr>(rank, whole), {});
}

bool LayoutAttr::isShardedOver(StringRef axis) const {
  return llvm::any_of(getDims(), [&](DimShardingAttr dim) {
    return llvm::any_of(dim.getAxes(), [&](AxisRefAttr ref) { return ref.getName() == axis; });
  });
}

bool LayoutAttr::isPartialOver(StringRef axis) const {
  return llvm::any_of(getPartial(), [&](PartialAttr entry) { return entry.getAxis().getName() == axis; });
}

bool LayoutAttr::isReplicated() const {
  return getPartial().empty() &&
         llvm::all_of(getDims(), [](DimShardingAttr dim) { return dim.getAxes().empty(); });
}

LayoutAttr LayoutAttr::withPartial(ArrayRef<PartialAttr> partial) const {
  return LayoutAttr::get(getContext(), getMesh(), getDims(), partial);
}

void PlumbDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "plumb/Dialect/Plumb/PlumbAttributes.cpp.inc"
      >();
}
