#include "NodeBuilder.h"

#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace plumb {

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

static Type convertElementType(pt2::DType type, MLIRContext *context) {
  switch (type) {
  case pt2::DType::F64:
    return Float64Type::get(context);
  case pt2::DType::F32:
    return Float32Type::get(context);
  case pt2::DType::F16:
    return Float16Type::get(context);
  case pt2::DType::BF16:
    return BFloat16Type::get(context);
  case pt2::DType::I64:
    return IntegerType::get(context, 64);
  case pt2::DType::I32:
    return IntegerType::get(context, 32);
  case pt2::DType::Bool:
    return IntegerType::get(context, 1);
  default:
    throw Refusal{std::string("the element type ") + pt2::name(type) + " is not supported"};
  }
}

RankedTensorType convertType(const pt2::TensorMeta &meta, MLIRContext *context) {
  SmallVector<int64_t> shape;
  for (auto [index, size] : llvm::enumerate(meta.sizes)) {
    if (!size.isStatic())
      throw Refusal{"dimension " + std::to_string(index) + " of " + meta.str() + " has the symbolic size " +
                    size.expression + "; export the model without dynamic_shapes"};
    shape.push_back(size.value);
  }
  return RankedTensorType::get(shape, convertElementType(meta.dtype, context));
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

const pt2::Argument *NodeBuilder::find(StringRef name, bool hasDefault) {
  read_.insert(name);
  const pt2::Argument *argument = node_.find(name);
  if (!argument && !hasDefault)
    refuse("the argument \"" + name.str() + "\" is missing");
  return argument;
}

void NodeBuilder::mismatch(StringRef name, const char *expected, const pt2::Argument &found) const {
  refuse("the argument \"" + name.str() + "\" must be " + expected + ", found " + found.kind());
}

Value NodeBuilder::tensor(StringRef name) {
  const pt2::Argument *argument = find(name, false);
  const auto *reference = argument->as<pt2::TensorRef>();
  if (!reference)
    mismatch(name, "a tensor", *argument);
  return valueOf_(reference->name);
}

Value NodeBuilder::optionalTensor(StringRef name) { return hasValue(name) ? tensor(name) : Value(); }

SmallVector<Value> NodeBuilder::tensors(StringRef name) {
  const pt2::Argument *argument = find(name, false);
  const auto *references = argument->as<pt2::Tensors>();
  if (!references)
    mismatch(name, "a list of tensors", *argument);
  SmallVector<Value> values;
  for (const pt2::TensorRef &reference : *references)
    values.push_back(valueOf_(reference.name));
  return values;
}

SmallVector<Value> NodeBuilder::optionalTensors(StringRef name) {
  const pt2::Argument *argument = find(name, false);
  const auto *references = argument->as<std::vector<std::optional<pt2::TensorRef>>>();
  if (!references)
    return tensors(name);
  SmallVector<Value> values;
  for (const std::optional<pt2::TensorRef> &reference : *references)
    values.push_back(reference ? valueOf_(reference->name) : Value());
  return values;
}

bool NodeBuilder::isTensor(StringRef name) { return find(name, false)->as<pt2::TensorRef>(); }

bool NodeBuilder::hasValue(StringRef name) {
  const pt2::Argument *argument = find(name, true);
  return argument && !argument->isNone();
}

bool NodeBuilder::isText(StringRef name) {
  const pt2::Argument *argument = find(name, true);
  return argument && argument->as<std::string>();
}

bool NodeBuilder::isList(StringRef name) { return find(name, false)->as<std::vector<int64_t>>(); }

int64_t NodeBuilder::integer(StringRef name, std::optional<int64_t> otherwise) {
  const pt2::Argument *argument = find(name, otherwise.has_value());
  if (!argument)
    return *otherwise;
  const auto *value = argument->as<int64_t>();
  if (!value)
    mismatch(name, "an integer", *argument);
  return *value;
}

bool NodeBuilder::boolean(StringRef name, std::optional<bool> otherwise) {
  const pt2::Argument *argument = find(name, otherwise.has_value());
  if (!argument)
    return *otherwise;
  const auto *value = argument->as<bool>();
  if (!value)
    mismatch(name, "a bool", *argument);
  return *value;
}

double NodeBuilder::number(StringRef name, std::optional<double> otherwise) {
  const pt2::Argument *argument = find(name, otherwise.has_value());
  if (!argument)
    return *otherwise;
  if (const auto *value = argument->as<int64_t>())
    return static_cast<double>(*value);
  const auto *value = argument->as<double>();
  if (!value)
    mismatch(name, "a number", *argument);
  return *value;
}

std::optional<double> NodeBuilder::optionalNumber(StringRef name) {
  return hasValue(name) ? std::optional(number(name)) : std::nullopt;
}

std::string NodeBuilder::text(StringRef name, std::optional<std::string> otherwise) {
  const pt2::Argument *argument = find(name, otherwise.has_value());
  if (!argument)
    return *otherwise;
  const auto *value = argument->as<std::string>();
  if (!value)
    mismatch(name, "a string", *argument);
  return *value;
}

SmallVector<int64_t> NodeBuilder::integers(StringRef name) {
  const pt2::Argument *argument = find(name, false);
  const auto *values = argument->as<std::vector<int64_t>>();
  if (!values)
    mismatch(name, "a list of integers", *argument);
  return SmallVector<int64_t>(values->begin(), values->end());
}

int64_t NodeBuilder::dim(StringRef name, int64_t rank, std::optional<int64_t> otherwise) {
  int64_t value = integer(name, otherwise);
  int64_t normalized = value < 0 ? value + rank : value;
  if (normalized < 0 || normalized >= rank)
    refuse("the argument \"" + name.str() + "\" is dimension " + std::to_string(value) +
           " of a tensor of rank " + std::to_string(rank));
  return normalized;
}

void NodeBuilder::checkAllRead() const {
  // Where and how factory functions allocate their result is not the model's meaning.
  static const llvm::StringSet<> placement = {"device", "layout", "pin_memory", "memory_format"};
  for (const pt2::NamedArgument &input : node_.inputs)
    if (!read_.contains(input.name) && !placement.contains(input.name) && !input.value.isNone())
      refuse("the argument \"" + input.name + "\" is not supported");
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

DictionaryAttr NodeBuilder::dictionary(Attributes attributes) {
  NamedAttrList list;
  for (const auto &[name, value] : attributes)
    if (value)
      list.append(name, value);
  return list.getDictionary(builder_.getContext());
}

void NodeBuilder::orRefuse(StringRef name, llvm::function_ref<LogicalResult()> action) const {
  std::string reason;
  ScopedDiagnosticHandler handler(builder_.getContext(), [&](mlir::Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      reason += (reason.empty() ? "" : "; ") + diagnostic.str();
    return success();
  });
  if (failed(action()))
    refuse(reason.empty() ? "'" + name.str() + "' cannot be built from these operands" : reason);
}

Operation *NodeBuilder::finish(StringRef name, TypeRange types, ValueRange operands,
                               DictionaryAttr attributes) {
  OperationState state(location_, name, operands, types, attributes.getValue());
  std::string module = node_.modules.empty() ? "" : node_.modules.back().str();
  state.addAttribute(kModuleAttr, builder_.getStringAttr(module));
  if (node_.frame) {
    StringRef file = StringRef(node_.frame->file).rsplit('/').second;
    file = file.empty() ? StringRef(node_.frame->file) : file;
    state.addAttribute(kSourceAttr, builder_.getStringAttr(file + ":" + Twine(node_.frame->line)));
  }
  Operation *operation = builder_.create(state);
  orRefuse(name, [&] { return verify(operation, /*verifyRecursively=*/false); });
  return operation;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

const SmallVector<RankedTensorType> &NodeBuilder::resultTypes() {
  if (!resultTypes_.empty())
    return resultTypes_;
  auto add = [&](const pt2::TensorRef &reference) {
    resultTypes_.push_back(convertType(graph_.tensors.at(reference.name), builder_.getContext()));
  };
  for (const pt2::Argument &output : node_.outputs) {
    if (const auto *reference = output.as<pt2::TensorRef>())
      add(*reference);
    else if (const auto *references = output.as<pt2::Tensors>())
      llvm::for_each(*references, add);
    else
      refuse(std::string("a result that is ") + output.kind() + " is not supported");
  }
  if (resultTypes_.empty())
    refuse("the node has no result");
  return resultTypes_;
}

ArrayRef<Value> NodeBuilder::checkedResults() {
  if (results_.empty() && node_.outputs.empty())
    return results_;
  const SmallVector<RankedTensorType> &types = resultTypes();
  if (results_.size() != types.size())
    refuse("it has " + std::to_string(results_.size()) + " results, but the archive recorded " +
           std::to_string(types.size()));
  for (auto [value, type] : llvm::zip(results_, types)) {
    if (value.getType() == type)
      continue;
    std::string reason;
    llvm::raw_string_ostream(reason) << "it computes a " << value.getType() << ", but the archive recorded a "
                                     << type;
    refuse(reason);
  }
  return results_;
}

} // namespace plumb
