//===- ProgramTensors.cpp - What outlives a step --------------------------------===//

#include "ProgramWriter.h"
#include "plumb/Transforms/Buffers.h"
#include "plumb/Transforms/Utils.h"

using namespace mlir;
using namespace plumb;
using namespace plumb::target;
using llvm::formatv;

namespace {

/// A tensor of the program's tables.
struct TensorEntry {
  std::string name;
  RankedTensorType type; ///< Global.
  LayoutAttr layout;
  SmallVector<int64_t> offsets; ///< Per coordinate, -1 where it is absent.
  int64_t stride = 0;
  SmallVector<std::string> aliases;
  SmallVector<int64_t> makers; ///< Per microbatch the coordinate that makes it; empty if all do.
  InputOp input = {};          ///< Null if it is none.
};

class TensorTables {
public:
  TensorTables(ProgramWriter &writer, ProgramPlan &plan) : writer(writer), plan(plan) {}
  LogicalResult write();

private:
  FailureOr<std::string> describe(const TensorEntry &entry, StringRef offsets, size_t index);
  std::string describeDim(int64_t size, DimShardingAttr dim);
  LogicalResult writeTable(StringRef name, ArrayRef<TensorEntry> entries);
  TensorEntry getEntry(Operation *symbol, RankedTensorType type, StringRef name) const;
  SmallVector<TensorEntry> getInputs(bool counts) const;
  void addAliases(TensorEntry &entry, StringRef parameter) const;
  void addState(StateOp state);

  ProgramWriter &writer;
  ProgramPlan &plan;
  SmallVector<TensorEntry> gradients, moments, loss, counter, norm, rate;
  std::map<int64_t, TensorEntry> outputs; ///< By number.
  int blockTables = 0;
};

} // namespace

std::string TensorTables::describeDim(int64_t size, DimShardingAttr dim) {
  SmallVector<std::string> axes;
  for (AxisRefAttr axis : dim ? dim.getAxes() : ArrayRef<AxisRefAttr>()) {
    size_t number =
        axis.getName() == kMicrobatchAxis ? plan.axes.size() : *plan.mesh.findAxis(axis.getName());
    axes.push_back(axis.isWhole()
                       ? formatv("{{{0}}", number).str()
                       : formatv("{{{0}, {1}, {2}}", number, axis.getPreSize(), axis.getSize()).str());
  }
  std::string sizes;
  if (dim && dim.hasUnequalBlocks()) {
    sizes = formatv("kBlocks_{0}", blockTables++);
    writer.write(formatv("static const std::int64_t {0}[] = {{{1}};", sizes, joinNumbers(dim.getBlocks())));
    sizes = ", " + sizes;
  }
  return formatv("{{{0}, {1}, {{{2}}{3}}", size, dim ? dim.countBlocks() : 1, llvm::join(axes, ", "), sizes);
}

/// What the values of an input may be, as text of the program.
static std::string getIndices(InputOp input) {
  auto range = input->getAttrOfType<DenseI64ArrayAttr>(kIndexRangeAttr);
  auto reader = input->getAttrOfType<StringAttr>(kIndexReaderAttr);
  if (!range || range.empty() || !reader)
    return "";
  bool ignores = range.size() > 1;
  return formatv("{{{0}, {1}, {2}, {3}}", range[0], ignores ? "true" : "false", ignores ? range[1] : 0,
                 quote(reader.getValue()));
}

FailureOr<std::string> TensorTables::describe(const TensorEntry &entry, StringRef table, size_t index) {
  auto reject = [&](const Twine &why) -> FailureOr<std::string> {
    return plan.module.emitError("tensor '") << entry.name << "' cannot be loaded by the program: " << why;
  };
  if (entry.type.getRank() > 8)
    return reject("it has " + Twine(entry.type.getRank()) + " dims, at most 8 are possible");
  SmallVector<std::string> dims;
  for (auto [number, size] : llvm::enumerate(entry.type.getShape())) {
    DimShardingAttr dim = entry.layout ? entry.layout.getDims()[number] : DimShardingAttr();
    if (dim && dim.getAxes().size() > 6)
      return reject("more than six axes shard one dim");
    dims.push_back(describeDim(size, dim));
  }
  std::string aliases = "{}";
  if (!entry.aliases.empty()) {
    aliases = formatv("{0}_aliases_{1}", table, index);
    writer.write(
        formatv("static const char *const {0}[] = {{{1}};", aliases,
                llvm::join(llvm::map_range(entry.aliases, [](StringRef a) { return quote(a); }), ", ")));
  }
  std::string makers;
  if (!entry.makers.empty()) {
    makers = formatv("{0}_makers_{1}", table, index);
    writer.write(formatv("static const int {0}[] = {{{1}};", makers, joinNumbers(entry.makers)));
    makers = ", " + makers;
  }
  std::string indices = entry.input ? getIndices(entry.input) : "";
  if (!indices.empty()) {
    std::string name = formatv("{0}_indices_{1}", table, index);
    writer.write(formatv("static const plumb::IndexRange {0} = {1};", name, indices));
    indices = (makers.empty() ? ", {}, &" : ", &") + name;
  }
  return formatv("{{{0}, plumb::DType::{1}, {2}, {{{3}}, {4}_offsets[{5}], {6}, {7}{8}{9}}",
                 quote(entry.name), getElementNames(entry.type.getElementType()).dtype, entry.type.getRank(),
                 llvm::join(dims, ", "), table, index, entry.stride, aliases, makers, indices)
      .str();
}

LogicalResult TensorTables::writeTable(StringRef name, ArrayRef<TensorEntry> entries) {
  if (entries.empty())
    return success();
  std::string rows;
  for (const TensorEntry &entry : entries) {
    auto cells = llvm::map_range(entry.offsets, [](int64_t offset) {
      return offset < 0 ? std::string("plumb::kAbsent") : std::to_string(offset);
    });
    rows += "\n    {" + llvm::join(cells, ", ") + "},";
  }
  writer.write("");
  writer.write(formatv("static const std::size_t {0}_offsets[][{1}] = {{{2}\n};", name,
                       plan.pipeline.coordinates, rows));
  SmallVector<std::string> texts;
  for (auto [index, entry] : llvm::enumerate(entries)) {
    FailureOr<std::string> text = describe(entry, name, index);
    if (failed(text))
      return failure();
    texts.push_back(*text);
  }
  writer.writeTable("plumb::Tensor", name, texts);
  return success();
}

TensorEntry TensorTables::getEntry(Operation *symbol, RankedTensorType type, StringRef name) const {
  TensorEntry entry{name.str(), type, getDeclaredLayout(symbol), {}, 0, {}, {}};
  auto offsets = symbol->getAttrOfType<DenseI64ArrayAttr>(kOffsetsAttr);
  entry.offsets.assign(offsets.asArrayRef().begin(), offsets.asArrayRef().end());
  return entry;
}

/// Inputs are declared where they are read, in local shapes: the layout says how often they are cut.
SmallVector<TensorEntry> TensorTables::getInputs(bool counts) const {
  std::map<int64_t, TensorEntry> inputs;
  for (auto [index, entry] : llvm::enumerate(plan.pipeline.stages)) {
    StageOp stage = entry;
    SmallVector<SlotClass> slots = readSlots(stage);
    for (auto input : stage.getBody().front().getOps<InputOp>()) {
      if (input.getCounts() != counts)
        continue;
      auto number = static_cast<int64_t>(input.getIndex());
      LayoutAttr layout = getLayout(input.getResult());
      auto local = cast<RankedTensorType>(input.getResult().getType());
      SmallVector<int64_t> shape(local.getShape());
      if (layout)
        for (auto [size, dim] : llvm::zip(shape, layout.getDims()))
          for (AxisRefAttr axis : dim.getAxes())
            size *= getAxisSize(plan.module, axis);
      auto [it, isNew] = inputs.try_emplace(number);
      TensorEntry &tensor = it->second;
      if (isNew)
        tensor = {"input." + std::to_string(number),
                  RankedTensorType::get(shape, local.getElementType()),
                  layout,
                  SmallVector<int64_t>(plan.pipeline.coordinates, -1),
                  0,
                  {input.getName().str()},
                  {},
                  input};
      tensor.offsets[plan.pipeline.coordinateOf(static_cast<int64_t>(index))] = readEntry(input, kOffsetAttr);
      if (int64_t slotClass = readEntry(input, kSlotAttr); slotClass >= 0)
        tensor.stride = slots[slotClass].stride;
    }
  }
  SmallVector<TensorEntry> entries;
  for (auto &[number, tensor] : inputs)
    entries.push_back(std::move(tensor));
  return entries;
}

/// Where copies of a stage make different microbatches of a state: per microbatch the coordinate that does.
static SmallVector<int64_t> getMakers(const Pipeline &pipeline, StringRef symbol) {
  if (pipeline.copies == 1)
    return {};
  SmallVector<int64_t> makers(pipeline.microbatches, -1);
  for (auto [index, entry] : llvm::enumerate(pipeline.stages)) {
    StageOp stage = entry;
    for (auto store : stage.getBody().front().getOps<StoreOp>())
      if (store.getSymbol() == symbol && readEntry(store, kSlotAttr) >= 0)
        for (int64_t microbatch = 0; microbatch < pipeline.microbatches; ++microbatch)
          if (pipeline.runs(static_cast<int64_t>(index), microbatch))
            makers[microbatch] = pipeline.coordinateOf(static_cast<int64_t>(index));
  }
  return makers.front() < 0 ? SmallVector<int64_t>() : makers;
}

/// Bytes from one microbatch to the next of a state, as its stores see it.
static int64_t getStride(const Pipeline &pipeline, StringRef symbol) {
  for (StageOp stage : pipeline.stages)
    for (auto store : stage.getBody().front().getOps<StoreOp>())
      if (int64_t slotClass = readEntry(store, kSlotAttr); slotClass >= 0 && store.getSymbol() == symbol)
        return readSlots(stage)[slotClass].stride;
  return 0;
}

/// A rank that was sent its parameter has no more than its share of the gradient.
static void keepWhereOwned(TensorEntry &entry, ParameterOp parameter) {
  ArrayRef<int64_t> owned = parameter->getAttrOfType<DenseI64ArrayAttr>(kOffsetsAttr).asArrayRef();
  for (auto [offset, place] : llvm::zip(entry.offsets, owned))
    if (place < 0)
      offset = -1;
}

void TensorTables::addAliases(TensorEntry &entry, StringRef parameter) const {
  auto op = plan.symbols.lookup<ParameterOp>(parameter);
  for (StringRef alias : op &&op.getAliasesAttr()
                             ? llvm::to_vector(op.getAliasesAttr().getAsValueRange<StringAttr>())
                             : SmallVector<StringRef>())
    entry.aliases.push_back(alias.str());
}

void TensorTables::addState(StateOp state) {
  auto type = cast<RankedTensorType>(state.getType());
  StringRef kind = state.getKind(), of = state.getOf().value_or(state.getSymName());
  if (kind == "gradient") {
    TensorEntry &entry = gradients.emplace_back(getEntry(state, type, of));
    if (auto parameter = plan.symbols.lookup<ParameterOp>(of))
      keepWhereOwned(entry, parameter);
    addAliases(entry, of);
  } else if (kind == "output") {
    auto number = static_cast<int64_t>(state.getIndex().value_or(outputs.size()));
    TensorEntry entry = getEntry(state, type, "output." + std::to_string(number));
    entry.stride = getStride(plan.pipeline, state.getSymName());
    entry.makers = getMakers(plan.pipeline, state.getSymName());
    if (state.getLabel())
      entry.aliases.push_back(state.getLabel()->str());
    outputs.try_emplace(number, std::move(entry));
  } else if (kind == "moment") {
    moments.push_back(getEntry(state, type, state.getSymName()));
  } else if (kind == "loss") {
    loss.push_back(getEntry(state, type, "loss"));
  } else if (kind == "counter") {
    counter.push_back(getEntry(state, type, "counter"));
  } else if (kind == "norm" && !state.getHolders()) { // the others are sums of squares
    norm.push_back(getEntry(state, type, "norm"));
  } else if (kind == "rate") {
    rate.push_back(getEntry(state, type, "rate"));
  }
}

LogicalResult TensorTables::write() {
  SmallVector<TensorEntry> parameters, nonPersistent;
  for (Operation &op : plan.module.getOps()) {
    if (auto parameter = dyn_cast<ParameterOp>(op)) {
      StringRef name = parameter.getSymName();
      auto type = cast<RankedTensorType>(parameter.getType());
      auto &entries = parameter.getNonpersistent() ? nonPersistent : parameters;
      addAliases(entries.emplace_back(getEntry(&op, type, name)), name);
    } else if (auto state = dyn_cast<StateOp>(op)) {
      addState(state);
    }
  }
  SmallVector<TensorEntry> sorted;
  for (auto &[number, entry] : outputs)
    sorted.push_back(std::move(entry));
  SmallVector<TensorEntry> inputs = getInputs(/*counts=*/false), numbers = getInputs(/*counts=*/true);
  plan.hasInputs = !inputs.empty();
  plan.hasNumbers = !numbers.empty();
  const std::pair<StringRef, ArrayRef<TensorEntry>> tables[] = {{"kParameters", parameters},
                                                                {"kNonPersistent", nonPersistent},
                                                                {"kGradients", gradients},
                                                                {"kInputs", inputs},
                                                                {"kNumbers", numbers},
                                                                {"kOutputs", sorted},
                                                                {"kMoments", moments},
                                                                {"kLoss", loss},
                                                                {"kCounter", counter},
                                                                {"kNorm", norm},
                                                                {"kRate", rate}};
  return success(
      llvm::all_of(tables, [&](auto table) { return succeeded(writeTable(table.first, table.second)); }));
}

LogicalResult plumb::target::writeTensors(ProgramWriter &writer, ProgramPlan &plan) {
  return TensorTables(writer, plan).write();
}
