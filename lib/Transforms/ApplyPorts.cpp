//===- ApplyPorts.cpp - Boundaries where a module's values enter and leave --===//
//
// The ports of a module are its live-in and live-out values in order of first use. What a rule states of one
// becomes a `plumb.boundary`: on an input in front of the module's readers, on an output behind its producer.
//
//===----------------------------------------------------------------------===//

#include "StyledLayouts.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Support/Suggest.h"
#include "plumb/Transforms/Utils.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace plumb;

namespace {

/// One call of a module.
struct Call {
  llvm::SetVector<Operation *> ops;
  llvm::SetVector<Value> inputs, outputs;
};

/// What is stated of one side of a port; no layout where it is kept as propagation gives it.
struct Side {
  LayoutAttr layout;
  SmallVector<StringRef> keep;
};

class PortRules {
public:
  PortRules(ModuleOp module, ProgramOp program, LayoutRuleOp rule, StringRef moduleName)
      : module(module), program(program), rule(rule), moduleName(moduleName), mesh(findOp<MeshOp>(module)),
        batchAxes(getBatchAxes(program)), builder(module.getContext()), moduleLoc(rule.getLoc()) {}

  LogicalResult apply(bool inputs, bool outputs) {
    inputs &= rule.getInSrc() || rule.getInDst() || styleStates(/*isInput=*/true);
    outputs &= rule.getOutSrc() || rule.getOutDst() || styleStates(/*isInput=*/false);
    if (!inputs && !outputs)
      return success();
    llvm::MapVector<std::string, Call, std::map<std::string, unsigned>> calls = findCalls();
    for (auto &[name, call] : calls) {
      findPorts(call);
      moduleLoc = call.ops.front()->getLoc();
      if ((inputs && failed(applySide(call, call.inputs, /*isInput=*/true))) ||
          (outputs && failed(applySide(call, call.outputs, /*isInput=*/false))))
        return failure();
    }
    return success();
  }

private:
  /// The ops of each call, in the order of the calls.
  llvm::MapVector<std::string, Call, std::map<std::string, unsigned>> findCalls() {
    llvm::MapVector<std::string, Call, std::map<std::string, unsigned>> calls;
    size_t components = moduleName.empty() ? 0 : 1 + moduleName.count('.');
    for (auto op : program.getBody().getOps<nn::TensorOpInterface>()) {
      auto path = op->getAttrOfType<StringAttr>(kModuleAttr);
      StringRef text = path ? path.getValue() : "";
      if (!isInModule(text, moduleName))
        continue;
      SmallVector<StringRef> parts;
      text.split(parts, '.');
      calls[llvm::join(ArrayRef(parts).take_front(components), ".")].ops.insert(op);
    }
    return calls;
  }

  /// Whether an input is none of the model's.
  static bool countsRows(Operation *op) {
    auto input = dyn_cast<InputOp>(op);
    return input && input.getCounts();
  }

  static void findPorts(Call &call) {
    for (Operation *op : call.ops)
      for (Value operand : op->getOperands())
        if (Operation *producer = operand.getDefiningOp();
            !call.ops.contains(producer) && !isa<LoadOp>(producer) && !countsRows(producer))
          call.inputs.insert(operand);
    for (Operation *op : call.ops)
      for (Value result : op->getResults())
        if (llvm::any_of(result.getUsers(), [&](Operation *user) { return !call.ops.contains(user); }))
          call.outputs.insert(result);
  }

  //===--------------------------------------------------------------------===//
  // Names
  //===--------------------------------------------------------------------===//

  /// What the given name means among `count` ports, or an error: `input.0`, a name given by `out_names`, or
  /// any single name of the only port.
  FailureOr<unsigned> findPort(StringRef name, unsigned count, bool isInput) {
    StringRef rest = name;
    unsigned index;
    if (rest.consume_front(isInput ? "input." : "output.") && !rest.getAsInteger(10, index) && index < count)
      return index;
    ArrayAttr names = rule.getOutNamesAttr();
    if (!isInput && names)
      for (auto [position, known] : llvm::enumerate(names.getAsValueRange<StringAttr>()))
        if (known == name && position < count)
          return static_cast<unsigned>(position);
    bool isOnly = count == 1 && !name.starts_with(isInput ? "input." : "output.");
    if (isOnly)
      return 0u;
    std::vector<std::string> known;
    for (unsigned port = 0; port < count; ++port)
      known.push_back((isInput ? "input." : "output.") + std::to_string(port));
    InFlightDiagnostic diagnostic = emitError(rule.getLoc());
    diagnostic << "module " << moduleName << " has no port \"" << name << "\"; it has "
               << (known.empty() ? "no such ports" : llvm::join(known, ", "))
               << didYouMean(name.str(), known);
    diagnostic.attachNote(moduleLoc) << "the module computes here";
    return diagnostic;
  }

  /// The statement for each port, or null.
  FailureOr<SmallVector<Attribute>> statementsOf(std::optional<DictionaryAttr> side, unsigned count,
                                                 bool isInput) {
    SmallVector<Attribute> result(count);
    if (!side)
      return result;
    for (NamedAttribute entry : *side) {
      FailureOr<unsigned> port = findPort(entry.getName(), count, isInput);
      if (failed(port))
        return failure();
      result[*port] = entry.getValue();
    }
    return result;
  }

  //===--------------------------------------------------------------------===//
  // Layouts
  //===--------------------------------------------------------------------===//

  bool styleStates(bool isInput) {
    StringRef style = rule.getStyle().value_or("");
    return style == "sequence" || style == "gather" || (style == "replicate" && rule.getAxis());
  }

  /// What the style says of every port, on its own axis alone.
  FailureOr<Side> sideOfStyle(Value value) {
    StringRef axis = getStyleAxis(rule);
    std::string text = "replicate";
    if (rule.getStyle() == "sequence")
      text = "shard(" + std::to_string(rule.getDim() ? static_cast<int64_t>(*rule.getDim()) : 1) + ")";
    DictionaryAttr placements =
        builder.getDictionaryAttr(builder.getNamedAttr(axis, builder.getStringAttr(text)));
    FailureOr<Side> side = read(placements, value);
    if (failed(side))
      return failure();
    side->keep.clear();
    for (StringRef other : mesh.getAxes().getAsValueRange<StringAttr>())
      if (other != axis)
        side->keep.push_back(other);
    side->keep.push_back(kMicrobatchAxis);
    return side;
  }

  /// Reads what is stated of a port. Model axes that are not named are replicated; axes that shard the batch,
  /// `microbatch` and the pipeline axis stay.
  FailureOr<Side> read(Attribute statement, Value value) {
    Side side;
    auto placements = dyn_cast_or_null<DictionaryAttr>(statement);
    if (!placements)
      return side;
    for (NamedAttribute entry : placements)
      if (!mesh.findAxis(entry.getName()) || entry.getName() == findOp<PipelineOp>(module).getAxis()) {
        InFlightDiagnostic diagnostic = emitError(rule.getLoc());
        diagnostic << "\"" << entry.getName().getValue()
                   << "\" is no axis of the mesh that can lay out a port";
        diagnostic.attachNote(mesh.getLoc()) << "the mesh";
        return diagnostic;
      }
    auto type = cast<RankedTensorType>(value.getType());
    side.layout = LayoutAttr::replicated(FlatSymbolRefAttr::get(mesh), type.getRank());
    for (StringRef axis : mesh.getAxes().getAsValueRange<StringAttr>()) {
      auto text = placements.getAs<StringAttr>(axis);
      bool stays = batchAxes.contains(axis) || axis == findOp<PipelineOp>(module).getAxis();
      if (text ? text == "keep" : stays)
        side.keep.push_back(axis);
      else if (text && failed(place(side.layout, axis, text, value)))
        return failure();
    }
    side.keep.push_back(kMicrobatchAxis);
    return side;
  }

  InFlightDiagnostic emitAtPort(Value value, const Twine &what) {
    InFlightDiagnostic diagnostic = emitError(rule.getLoc()) << what;
    diagnostic.attachNote(value.getLoc()) << "the value";
    return diagnostic;
  }

  LogicalResult place(LayoutAttr &layout, StringRef axis, StringAttr text, Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    if (StringRef(text).trim().starts_with("partial")) {
      SmallVector<PartialAttr> partial(layout.getPartial());
      partial.push_back(PartialAttr::get(builder.getContext(), AxisRefAttr::get(builder.getStringAttr(axis)),
                                         builder.getStringAttr("sum")));
      layout = layout.withPartial(partial);
      return success();
    }
    FailureOr<Placement> placement = parsePlacement(rule, text);
    if (failed(placement) || !placement->shardDim)
      return failure(failed(placement));
    int64_t dim = *placement->shardDim < 0 ? *placement->shardDim + type.getRank() : *placement->shardDim;
    if (dim < 0 || dim >= type.getRank())
      return emitAtPort(value, "\"" + text.getValue() + "\" names a dim that a port of module " + moduleName +
                                   ", with " + Twine(type.getRank()) + " dims, does not have");
    layout = shardDim(module, layout, dim, axis, placement->blocks);
    return placement->blocks.empty() ? success() : checkBlocks(layout.getDims()[dim], dim, value);
  }

  /// Blocks must make up the dim, and the axes divide each.
  LogicalResult checkBlocks(DimShardingAttr sharding, int64_t dim, Value value) {
    int64_t size = cast<RankedTensorType>(value.getType()).getDimSize(dim), parts = sharding.countBlocks();
    std::string port = "a port of module " + moduleName.str() + " has " + std::to_string(size) +
                       " elements in dim " + std::to_string(dim) + ", which ";
    if (sharding.hasUnequalBlocks()) {
      parts = 1;
      if (int64_t sum = llvm::sum_of(sharding.getBlocks()); sum != size)
        return emitAtPort(value, port + "blocks of " + Twine(sum) + " in all do not make up");
    }
    for (AxisRefAttr ref : sharding.getAxes())
      parts *= getAxisSize(module, ref);
    if (!cutsEvenly(module, size, sharding))
      return emitAtPort(value, port + Twine(parts) + " parts do not divide");
    return success();
  }

  //===--------------------------------------------------------------------===//
  // Boundaries
  //===--------------------------------------------------------------------===//

  LogicalResult applySide(const Call &call, const llvm::SetVector<Value> &values, bool isInput) {
    std::optional<DictionaryAttr> source = isInput ? rule.getInSrc() : rule.getOutSrc();
    std::optional<DictionaryAttr> target = isInput ? rule.getInDst() : rule.getOutDst();
    auto sources = statementsOf(source, values.size(), isInput);
    auto targets = statementsOf(target, values.size(), isInput);
    if (failed(sources) || failed(targets))
      return failure();
    for (auto [index, value] : llvm::enumerate(values)) {
      auto type = cast<RankedTensorType>(value.getType());
      bool isStated = (*sources)[index] || (*targets)[index];
      FailureOr<Side> from = read((*sources)[index], value), to = read((*targets)[index], value);
      if (!isStated && styleStates(isInput) && type.getRank() > 0)
        to = sideOfStyle(value);
      if (failed(from) || failed(to))
        return failure();
      if (from->layout || to->layout)
        insert(call, value, index, *from, *to, isInput);
    }
    return success();
  }

  void insert(const Call &call, Value value, size_t index, const Side &from, const Side &to, bool isInput) {
    Operation *origin = value.getDefiningOp();
    auto isReader = [&](Operation *user) { return call.ops.contains(user) == isInput; };
    if (isInput)
      origin = *llvm::find_if(call.ops,
                              [&](Operation *op) { return llvm::is_contained(op->getOperands(), value); });
    builder.setInsertionPoint(origin);
    if (!isInput)
      builder.setInsertionPointAfter(origin);
    std::string port = (isInput ? "input." : "output.") + std::to_string(index);
    const Side &keeper = to.layout ? to : from;
    auto boundary = BoundaryOp::create(builder, rule.getLoc(), value, builder.getStringAttr(port),
                                       builder.getStringAttr(moduleName), from.layout, to.layout,
                                       builder.getStrArrayAttr(keeper.keep));
    for (StringRef name : {kModuleAttr, kSourceAttr})
      if (Attribute attribute = origin->getAttr(name))
        boundary->setAttr(name, attribute);
    value.replaceUsesWithIf(boundary.getResult(), [&](OpOperand &use) {
      return use.getOwner() != boundary && isReader(use.getOwner());
    });
  }

  ModuleOp module;
  ProgramOp program;
  LayoutRuleOp rule;
  StringRef moduleName;
  MeshOp mesh;
  llvm::StringSet<> batchAxes;
  OpBuilder builder;
  Location moduleLoc; ///< Of the call at hand.
};

} // namespace

LogicalResult plumb::applyPorts(ModuleOp module, ProgramOp program, LayoutRuleOp rule, StringRef moduleName,
                                bool inputs, bool outputs) {
  return PortRules(module, program, rule, moduleName).apply(inputs, outputs);
}
