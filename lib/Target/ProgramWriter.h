//===- ProgramWriter.h - Building blocks of the program's source -*- C++ -*-===//

#ifndef PLUMB_LIB_TARGET_PROGRAMWRITER_H
#define PLUMB_LIB_TARGET_PROGRAMWRITER_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/SymbolTable.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Transforms/Slots.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"

namespace plumb::target {

/// Distinct C++ identifiers, as close as possible to what they are made from.
class Identifiers {
public:
  /// Names that are taken from the start.
  explicit Identifiers(llvm::ArrayRef<llvm::StringRef> reserved = {}) {
    for (llvm::StringRef name : reserved)
      used[name] = 1;
  }
  std::string make(llvm::StringRef text);

private:
  llvm::StringMap<int> used;
};

/// Letters, digits and single underscores; never a keyword, never empty.
std::string toIdentifier(llvm::StringRef text);

/// "float", "ncclFloat32" and "F32" of an element type.
struct ElementNames {
  llvm::StringRef cpp, nccl, dtype;
};
ElementNames getElementNames(mlir::Type element);
inline ElementNames getElementNames(mlir::Value value) {
  return getElementNames(mlir::cast<mlir::RankedTensorType>(value.getType()).getElementType());
}

/// "1, 2, 3".
std::string joinNumbers(llvm::ArrayRef<int64_t> numbers);

/// Text as one line that a comment can hold.
std::string toComment(llvm::StringRef text);

/// A string literal.
std::string quote(llvm::StringRef text);

/// The functions and tables of the program as EmitC.
class ProgramWriter {
public:
  explicit ProgramWriter(mlir::ModuleOp plan);

  mlir::ModuleOp getSource() { return *source; }

  /// Text at the top level.
  void write(const llvm::Twine &text);
  /// `static const <type> <name>[n] = {…}`; entries of more than one line stand alone.
  void writeTable(llvm::StringRef type, llvm::StringRef name, llvm::ArrayRef<std::string> entries,
                  int perLine = 1);
  void include(llvm::StringRef header, bool standard);
  /// A function of a rank, and of a microbatch if it uses one.
  void writeFunction(llvm::StringRef comment, llvm::StringRef name, bool perMicrobatch,
                     llvm::ArrayRef<std::string> lines);

private:
  mlir::OwningOpRef<mlir::ModuleOp> source;
  mlir::OpBuilder builder;
};

/// What all parts of the emitter know of the plan.
struct ProgramPlan {
  mlir::ModuleOp module;
  Pipeline pipeline;
  schedule::Schedule actions;
  mlir::SymbolTable symbols;
  MeshOp mesh;
  llvm::SmallVector<llvm::StringRef> axes;
  /// Names of enumerators: streams by number; communicators, and offsets of parameters and states, by symbol;
  /// offsets of inputs by number.
  llvm::SmallVector<std::string> streams;
  llvm::StringMap<std::string> communicators, symbolNames;
  std::map<int64_t, std::string> inputNames;
  bool hasInputs = false, hasNumbers = false; ///< Whether there are tables of them.
  /// Names of the tables of pieces and messages, by their text.
  llvm::StringMap<std::string> tables;

  /// The parts of a stage that do anything.
  bool hasPart(int64_t stage, const Part &part) const;
  std::map<std::pair<int64_t, Part>, llvm::SmallVector<mlir::Operation *>> parts;
  /// The op that records an event, or several of a slot class, by pipeline coordinate and the first number.
  std::map<std::pair<int64_t, int64_t>, mlir::Operation *> recorders;
};

/// An op that needs no call: a load, an input, a view, a store of what lies in the state already, the sending
/// end of what stays on the rank.
bool isSilent(mlir::Operation *op);
/// Whether ops call NCCL on the communicator: one that only serves stages of one rank is not made.
llvm::StringSet<> findCommunicators(const Pipeline &pipeline);

void writeTables(ProgramWriter &writer, ProgramPlan &plan);
llvm::LogicalResult writeTensors(ProgramWriter &writer, ProgramPlan &plan);
void writeStages(ProgramWriter &writer, ProgramPlan &plan);
void writeStep(ProgramWriter &writer, ProgramPlan &plan);

} // namespace plumb::target

#endif // PLUMB_LIB_TARGET_PROGRAMWRITER_H
