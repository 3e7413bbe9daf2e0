//===- NodeBuilder.h - Building the operations of one ATen node -*- C++ -*-===//
//
// What the builders of ATen targets work with: checked access to the node's arguments, and creation of
// operations that carry the node's module and source line. A builder throws `Refusal` for what it cannot
// build; it must read every argument that the node has.
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_LIB_IMPORT_NODEBUILDER_H
#define PLUMB_LIB_IMPORT_NODEBUILDER_H

#include "plumb/Dialect/NN/NN.h"
#include "plumb/Dialect/Plumb/Plumb.h"
#include "plumb/Import/ExportedProgram.h"

#include "llvm/ADT/StringSet.h"

#include <functional>
#include <optional>

namespace plumb {

/// The reason why a node cannot be built.
struct Refusal {
  std::string reason;
};

using Attributes = std::initializer_list<std::pair<llvm::StringRef, mlir::Attribute>>;

class NodeBuilder {
public:
  /// `valueOf` gives the operand of a name in the graph.
  NodeBuilder(mlir::OpBuilder &builder, mlir::Location location, const pt2::Node &node,
              const pt2::Graph &graph, std::function<mlir::Value(const std::string &)> valueOf)
      : builder_(builder), location_(location), node_(node), graph_(graph), valueOf_(std::move(valueOf)) {}

  //===-- Arguments -----------------------------------------------------===//
  // By their name in the operator's schema. One without a default must be there.

  mlir::Value tensor(llvm::StringRef name);
  /// Null for an argument that is None or left out.
  mlir::Value optionalTensor(llvm::StringRef name);
  llvm::SmallVector<mlir::Value> tensors(llvm::StringRef name);
  /// Null for each that is None.
  llvm::SmallVector<mlir::Value> optionalTensors(llvm::StringRef name);
  bool isTensor(llvm::StringRef name);
  /// Whether the argument is there and not None.
  bool hasValue(llvm::StringRef name);
  bool isText(llvm::StringRef name);
  /// Whether the argument is a list of integers.
  bool isList(llvm::StringRef name);
  int64_t integer(llvm::StringRef name, std::optional<int64_t> otherwise = std::nullopt);
  bool boolean(llvm::StringRef name, std::optional<bool> otherwise = std::nullopt);
  /// An integer or a float.
  double number(llvm::StringRef name, std::optional<double> otherwise = std::nullopt);
  /// The same, or nothing for one that is None or left out.
  std::optional<double> optionalNumber(llvm::StringRef name);
  std::string text(llvm::StringRef name, std::optional<std::string> otherwise = std::nullopt);
  llvm::SmallVector<int64_t> integers(llvm::StringRef name);
  /// A dim of a tensor of the given rank; negative ones count from the last.
  int64_t dim(llvm::StringRef name, int64_t rank, std::optional<int64_t> otherwise = std::nullopt);
  /// An argument that does not change what is computed.
  void ignore(llvm::StringRef name) { read_.insert(name); }

  /// Refuses the node if it has an argument that was not read.
  void checkAllRead() const;

  //===-- Operations ----------------------------------------------------===//

  mlir::OpBuilder &builder() { return builder_; }
  mlir::Attribute attribute(int64_t value) { return builder_.getI64IntegerAttr(value); }
  mlir::Attribute attribute(double value) { return builder_.getF64FloatAttr(value); }
  mlir::Attribute attribute(llvm::ArrayRef<int64_t> values) { return builder_.getDenseI64ArrayAttr(values); }
  mlir::Attribute attribute(const std::string &value) { return builder_.getStringAttr(value); }
  /// The presence of a flag; null attributes are left out.
  mlir::Attribute flag(bool value) { return value ? builder_.getUnitAttr() : mlir::Attribute(); }

  /// Creates an operation whose result types follow from its operands.
  template <typename Op>
  mlir::ResultRange infer(mlir::ValueRange operands, Attributes attributes = {});

  /// Creates an operation with the given result types.
  template <typename Op>
  mlir::ResultRange create(mlir::TypeRange types, mlir::ValueRange operands, Attributes attributes = {}) {
    return finish(Op::getOperationName(), types, operands, dictionary(attributes))->getResults();
  }

  //===-- Results -------------------------------------------------------===//

  /// The types that the archive recorded for the node's results, those of a list in order.
  const llvm::SmallVector<mlir::RankedTensorType> &resultTypes();
  mlir::RankedTensorType resultType() { return resultTypes().front(); }

  void setResult(mlir::Value value) { results_.assign(1, value); }
  void setResults(mlir::ValueRange values) { results_.assign(values.begin(), values.end()); }

  /// The results in order; refuses the node if they are not as recorded.
  llvm::ArrayRef<mlir::Value> checkedResults();

  [[noreturn]] void refuse(const std::string &reason) const { throw Refusal{reason}; }

private:
  /// The argument, or null for one left out, which must have a default then.
  const pt2::Argument *find(llvm::StringRef name, bool hasDefault);
  [[noreturn]] void mismatch(llvm::StringRef name, const char *expected, const pt2::Argument &found) const;
  mlir::DictionaryAttr dictionary(Attributes attributes);
  mlir::Operation *finish(llvm::StringRef name, mlir::TypeRange types, mlir::ValueRange operands,
                          mlir::DictionaryAttr attributes);
  /// Runs `action`; what it reports to MLIR becomes the reason of a refusal.
  void orRefuse(llvm::StringRef name, llvm::function_ref<mlir::LogicalResult()> action) const;

  mlir::OpBuilder &builder_;
  mlir::Location location_;
  const pt2::Node &node_;
  const pt2::Graph &graph_;
  std::function<mlir::Value(const std::string &)> valueOf_;
  llvm::StringSet<> read_;
  llvm::SmallVector<mlir::RankedTensorType> resultTypes_;
  llvm::SmallVector<mlir::Value> results_;
};

/// The type of a tensor of the archive. Refuses symbolic sizes and element types that `nn` does not have.
mlir::RankedTensorType convertType(const pt2::TensorMeta &meta, mlir::MLIRContext *context);

inline mlir::RankedTensorType typeOf(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}
inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) { return typeOf(value).getShape(); }
inline int64_t rankOf(mlir::Value value) { return typeOf(value).getRank(); }
inline bool isFloat(mlir::Value value) { return llvm::isa<mlir::FloatType>(typeOf(value).getElementType()); }

template <typename Op>
mlir::ResultRange NodeBuilder::infer(mlir::ValueRange operands, Attributes attributes) {
  mlir::DictionaryAttr all = dictionary(attributes);
  llvm::SmallVector<mlir::Type> types;
  orRefuse(Op::getOperationName(), [&]() -> mlir::LogicalResult {
    typename Op::Properties properties{};
    if constexpr (!std::is_same_v<typename Op::Properties, mlir::EmptyProperties>)
      if (failed(Op::setPropertiesFromAttr(properties, all, [&] { return mlir::emitError(location_); })))
        return mlir::failure();
    return Op::inferReturnTypes(builder_.getContext(), location_, operands, all, &properties, {}, types);
  });
  return finish(Op::getOperationName(), types, operands, all)->getResults();
}

} // namespace plumb

#endif // PLUMB_LIB_IMPORT_NODEBUILDER_H
