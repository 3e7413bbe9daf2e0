//===- ExportedProgram.h - The graph of a torch.export archive --*- C++ -*-===//
//
// Plain structs for `models/<name>.json`, the serialised ExportedProgram of torch.export (schema 8, as
// written by PyTorch's torch/_export/serde/schema.py). They say what the file says, with the spellings of all
// its generations made one, and resolve what it leaves indirect: names of inputs and outputs (pytrees), the
// module that owns a node (module stacks), the Python line a person wrote (stack traces).
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_IMPORT_EXPORTEDPROGRAM_H
#define PLUMB_IMPORT_EXPORTEDPROGRAM_H

#include "plumb/Import/Json.h"
#include "plumb/Import/PythonTrace.h"

#include <complex>
#include <unordered_map>

namespace plumb::pt2 {

/// Element types, numbered as in the file (not as c10::ScalarType).
enum class DType {
  Unknown = 0,
  U8 = 1,
  I8 = 2,
  I16 = 3,
  I32 = 4,
  I64 = 5,
  F16 = 6,
  F32 = 7,
  F64 = 8,
  ComplexF16 = 9,
  ComplexF32 = 10,
  ComplexF64 = 11,
  Bool = 12,
  BF16 = 13,
  U16 = 28,
  F8E4M3FN = 29,
  F8E5M2 = 30,
  F8E4M3FNUZ = 31,
  F8E5M2FNUZ = 32,
  F8E8M0FNU = 33,
  U32 = 34,
  U64 = 35,
};

/// Bytes of one element; 0 for `Unknown`.
unsigned itemSize(DType type);

/// The name torch uses, such as `float32`.
const char *name(DType type);

enum class MemoryLayout {
  Unknown = 0,
  SparseCoo = 1,
  SparseCsr = 2,
  SparseCsc = 3,
  SparseBsr = 4,
  SparseBsc = 5,
  Mkldnn = 6,
  Strided = 7
};

enum class MemoryFormat { Unknown = 0, Contiguous = 1, ChannelsLast = 2, ChannelsLast3d = 3, Preserve = 4 };

/// A size, stride or offset: a number, or an expression over symbols with the value it had during export.
struct Dimension {
  int64_t value = 0;        ///< The number; for an expression its hint, or -1 without one.
  std::string expression{}; ///< Empty for a number.

  bool isStatic() const { return expression.empty(); }
  friend bool operator==(const Dimension &, const Dimension &) = default;
};

struct TensorMeta {
  DType dtype = DType::Unknown;
  std::vector<Dimension> sizes;
  std::vector<Dimension> strides; ///< In elements.
  Dimension storageOffset;        ///< In elements.
  bool requiresGrad = false;
  MemoryLayout layout = MemoryLayout::Strided;

  bool isStatic() const;
  /// The number of elements; of a static tensor. That it and the number of bytes fit 63 bits was checked when
  /// it was read.
  int64_t elements() const;
  /// `float32[8, 16]`.
  std::string str() const;
};

struct Graph;
struct Argument;

struct None {};
struct TensorRef {
  std::string name;
};
/// A number that the graph computes, by name, or a constant among such numbers.
struct SymInt {
  std::string name; ///< Empty for a constant.
  int64_t value = 0;
};
/// A symbolic bool or float: only ever a name, since constants become plain values.
struct SymBool {
  std::string name;
};
struct SymFloat {
  std::string name;
};
struct Device {
  std::string type;
  std::optional<int64_t> index;
};
struct CustomObject {
  std::string name;
  std::string classFqn;
};
struct Operator {
  std::string name;
};
struct Subgraph {
  std::string name;
  std::shared_ptr<const Graph> graph;
};
struct NamedArguments {
  std::vector<std::pair<std::string, Argument>> entries;
};

using Tensors = std::vector<TensorRef>;

/// An operand or result of a node. Constants that the file wraps as symbolic (`as_sym_int {as_int: 3}`) are
/// plain here.
struct Argument {
  using Data =
      std::variant<None, TensorRef, Tensors, std::vector<std::optional<TensorRef>>, std::vector<Tensors>,
                   int64_t, std::vector<int64_t>, std::vector<std::vector<int64_t>>, double,
                   std::vector<double>, bool, std::vector<bool>, std::string, std::vector<std::string>,
                   std::complex<double>, SymInt, std::vector<SymInt>, SymBool, std::vector<SymBool>, SymFloat,
                   std::vector<SymFloat>, DType, MemoryFormat, MemoryLayout, Device, CustomObject, Operator,
                   Subgraph, NamedArguments>;
  Data data;

  template <typename T>
  const T *as() const {
    return std::get_if<T>(&data);
  }
  bool isNone() const { return std::holds_alternative<None>(data); }

  /// What it is, for messages: `a tensor`, `an integer`, `a list of integers`.
  const char *kind() const;
};

struct NamedArgument {
  std::string name; ///< As in the operator's signature.
  Argument value;
  bool isKeyword = false;
};

struct Node {
  std::string name;   ///< Unique in its graph: `linear_1`.
  std::string target; ///< `torch.ops.aten.linear.default`.
  std::vector<NamedArgument> inputs;
  std::vector<Argument> outputs;
  std::vector<ModuleCall>
      modules; ///< Outermost first; the last one owns the node. Empty if the file does not say.
  std::optional<PythonFrame> frame; ///< The innermost line outside torch's own packages.
  Range range;                      ///< In the JSON record.
  bool hasGradient = true;          ///< False for a node that ran under torch.no_grad.

  /// The argument of that name, or null if it was left at its default.
  const Argument *find(std::string_view argument) const;
};

struct Graph {
  std::vector<Argument> inputs;
  std::vector<Argument> outputs;
  std::vector<Node> nodes;
  std::unordered_map<std::string, TensorMeta> tensors; ///< By value name.
};

enum class InputKind { Parameter, Buffer, TensorConstant, CustomObject, UserInput, Token };

struct InputSpec {
  InputKind kind = InputKind::UserInput;
  Argument value; ///< The graph value; a constant for user inputs that are no tensors.
  std::string
      name; ///< Fully qualified name of a parameter, buffer or constant; path of a user input (`cfg.mask`).
  bool persistent = true; ///< Buffers only.

  /// Whether it is part of what the model saves, its state dictionary.
  bool isSaved() const { return kind == InputKind::Parameter || (kind == InputKind::Buffer && persistent); }
};

enum class OutputKind {
  UserOutput,
  Loss,
  BufferMutation,
  ParameterMutation,
  UserInputMutation,
  GradientToParameter,
  GradientToUserInput,
  Token
};

struct OutputSpec {
  OutputKind kind = OutputKind::UserOutput;
  Argument value;
  std::string
      name; ///< Path of a user output (empty if it is the only one), or the name of what is written to.
};

/// An entry of the module tree. All modules are listed in pre-order, also those that own no node.
struct Module {
  std::string fqn; ///< Empty for the root.
  unsigned call = 0;
};

struct ExportedProgram {
  std::string torchVersion;
  unsigned schemaMinor = 0;
  Graph graph;
  std::vector<InputSpec> inputs; ///< In the order of `graph.inputs`.
  std::vector<OutputSpec> outputs;
  std::vector<Module> modules;
  std::shared_ptr<const Source> source; ///< The JSON record, for diagnostics about nodes.

  Place place(const Node &node) const { return source->place(node.range); }
};

/// Reads the record. Reports the first thing that is wrong with its place and JSON pointer, and returns
/// nothing then. A schema whose major version is not 8 is refused; a newer minor version is a warning;
/// unknown fields are ignored.
std::optional<ExportedProgram> parseExportedProgram(const json::Document &document, Diagnostics &diagnostics);

} // namespace plumb::pt2

#endif // PLUMB_IMPORT_EXPORTEDPROGRAM_H
