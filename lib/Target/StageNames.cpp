//===- StageNames.cpp - What the values of a stage are called in C++ ------------===//

#include "StageNames.h"
#include "plumb/Dialect/NN/NN.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace plumb;
using namespace plumb::target;
using llvm::formatv;

StageNames::StageNames(const ProgramPlan &plan, int64_t index)
    : plan(plan), stage(plan.pipeline.stages[index]), prefix("submod_pp_" + std::to_string(index)),
      arena("pp" + std::to_string(plan.pipeline.coordinateOf(index))), slots(readSlots(stage)) {
  Identifiers identifiers({"rank", "microbatch", "stream", "plumb", "std"}), slotIdentifiers;
  for (Operation &op : stage.getBody().front())
    for (OpResult result : op.getResults())
      nameResult(result, identifiers);
  for (const SlotClass &slotClass : slots) {
    slotNames.push_back(slotIdentifiers.make("slot_of_" + slotClass.name));
    placeNames.push_back(slotIdentifiers.make("place_of_" + slotClass.name));
  }
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

static std::pair<int64_t, int64_t> placeOf(Value value) {
  auto result = cast<OpResult>(value);
  return {readEntry(result.getOwner(), kOffsetAttr, result.getResultNumber()),
          readEntry(result.getOwner(), kSlotAttr, result.getResultNumber())};
}

/// The module path, marked in the backward phases.
static std::string nameAfterModule(Operation *op) {
  auto module = op->getAttrOfType<StringAttr>(kModuleAttr);
  std::string name = module && !module.empty() ? module.str() : "value";
  switch (getPhase(op)) {
  case Phase::BackwardInput:
    return "d_" + name;
  case Phase::BackwardWeight:
    return "w_" + name;
  default:
    return name;
  }
}

void StageNames::nameResult(OpResult result, Identifiers &identifiers) {
  Operation *op = result.getOwner();
  if (op->hasTrait<nn::Reinterprets>()) {
    sameAs[result] = op->getOperand(0);
    return;
  }
  if (isa<LoadOp, InputOp>(op)) {
    auto load = dyn_cast<LoadOp>(op);
    std::string name = load ? load.getSymbol().str() : "input " + cast<InputOp>(op).getName().str();
    std::string &local = outside[name];
    if (local.empty())
      local = identifiers.make(name);
    locals[result] = local;
    return;
  }
  if (!isa<ccl::SliceOp>(op))
    for (Value operand : op->getOperands())
      if (placeOf(result) == placeOf(resolve(operand))) {
        sameAs[result] = operand;
        return;
      }
  locals[result] = identifiers.make(nameAfterModule(op));
}

Value StageNames::resolve(Value value) const {
  for (auto same = sameAs.find(value); same != sameAs.end(); same = sameAs.find(value))
    value = same->second;
  return value;
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

/// Whether microbatch m uses slot m % count.
static bool isRoundRobin(const SlotClass &slots) {
  for (auto [microbatch, slot] : llvm::enumerate(slots.table))
    if (slot != static_cast<int64_t>(microbatch) % slots.count())
      return false;
  return true;
}

static bool needsTable(const SlotClass &slots) {
  return slots.count() > 1 && !slots.isIdentity() && !isRoundRobin(slots);
}

std::string StageNames::getSlot(int64_t slotClass, bool standsAlone) const {
  const SlotClass &used = slots[slotClass];
  if (used.count() <= 1)
    return "";
  if (used.isIdentity())
    return "microbatch";
  if (isRoundRobin(used))
    return formatv(standsAlone ? "microbatch % {0}" : "(microbatch % {0})", used.count());
  return formatv("{0}::{1}[microbatch]", prefix, slotNames[slotClass]);
}

std::string StageNames::getPlace(Operation *op, unsigned result, Type type, StringRef enumerator) const {
  std::string offset = enumerator.str();
  if (int64_t slotClass = readEntry(op, kSlotAttr, result); slotClass >= 0) {
    if (!slots[slotClass].places.empty())
      offset += formatv(" + {0}::{1}[microbatch]", prefix, placeNames[slotClass]);
    else if (std::string slot = getSlot(slotClass, false); !slot.empty())
      offset += formatv(" + {0} * {1}", slot, slots[slotClass].stride);
  }
  return formatv("rank.at<{0}>({1})", getElementNames(cast<RankedTensorType>(type).getElementType()).cpp,
                 offset);
}

std::string StageNames::getAddress(Value value) const {
  value = resolve(value);
  auto result = cast<OpResult>(value);
  Operation *op = result.getOwner();
  if (auto slice = dyn_cast<ccl::SliceOp>(op))
    return formatv("{0} + {1} * {2}", getAddress(slice.getInput()), getCoordinate(slice.getAxes()),
                   cast<RankedTensorType>(value.getType()).getNumElements());
  std::string enumerator = prefix + "::" + getLocal(value).str();
  if (auto load = dyn_cast<LoadOp>(op))
    enumerator = arena + "::" + plan.symbolNames.lookup(load.getSymbol());
  else if (auto input = dyn_cast<InputOp>(op))
    enumerator = arena + "::" + plan.inputNames.at(static_cast<int64_t>(input.getIndex()));
  return getPlace(op, result.getResultNumber(), value.getType(), enumerator);
}

std::string StageNames::getAddress(StoreOp store) const {
  return getPlace(store, 0, store.getValue().getType(),
                  arena + "::" + plan.symbolNames.lookup(store.getSymbol()));
}

std::string StageNames::getScratch(LaunchOp launch) const {
  auto offset = launch->getAttrOfType<IntegerAttr>(kScratchOffsetAttr);
  return offset ? formatv("rank.at<void>({0}::scratch_{1})", prefix, offset.getInt()).str() : "";
}

std::string StageNames::getCoordinate(ArrayAttr axes) const {
  std::string text;
  MeshOp mesh = plan.mesh;
  for (const ccl::Axis &axis : ccl::parseAxes(axes)) {
    std::string number = formatv("rank.coordinate({0})", mesh.findAxis(axis.name).value_or(0));
    int64_t whole = mesh.getAxisSize(axis.name), size = axis.isWhole() ? whole : axis.size;
    if (int64_t stride = whole / (axis.preSize * size); stride > 1)
      number += formatv(" / {0}", stride);
    if (axis.preSize > 1)
      number += formatv(" % {0}", size);
    text = text.empty() ? number : formatv("({0} * {1} + {2})", text, size, number).str();
  }
  if (!text.empty() && text[0] != '(' && text.back() != ')')
    text = "(" + text + ")";
  return text.empty() ? "0" : text;
}

std::string StageNames::getDeclarations() const {
  std::string offsets, tables;
  llvm::StringSet<> written;
  auto entry = [&](StringRef name, int64_t offset) {
    if (written.insert(name).second)
      offsets += formatv("  {0} = {1},\n", name, offset);
  };
  for (Operation &op : stage->getRegion(0).front()) {
    for (OpResult result : op.getResults())
      if (!sameAs.contains(result) && !isa<LoadOp, InputOp, ccl::SliceOp>(op))
        entry(getLocal(result), placeOf(result).first);
    if (auto scratch = op.getAttrOfType<IntegerAttr>(kScratchOffsetAttr))
      entry("scratch_" + std::to_string(scratch.getInt()), scratch.getInt());
  }
  auto table = [&](StringRef name, ArrayRef<int64_t> entries) {
    tables +=
        formatv("constexpr std::size_t {0}[{1}] = {{{2}};\n", name, entries.size(), joinNumbers(entries));
  };
  for (auto [name, placeName, slotClass] : llvm::zip(slotNames, placeNames, slots)) {
    if (needsTable(slotClass))
      table(name, slotClass.table);
    if (!slotClass.places.empty())
      table(placeName, llvm::map_to_vector(llvm::seq<int64_t>(0, slotClass.table.size()),
                                           [&](int64_t m) { return slotClass.placeOf(m); }));
  }
  if (!offsets.empty())
    offsets = "enum Offset : std::size_t {\n" + offsets + "};\n";
  return offsets + tables;
}
