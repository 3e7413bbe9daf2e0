//===- Explain.h - Why a compiled plan is as it is --------------*- C++ -*-===//
#ifndef PLUMB_TOOLS_PLUMBC_EXPLAIN_H
#define PLUMB_TOOLS_PLUMBC_EXPLAIN_H

#include "plumb/Transforms/Steps.h"

namespace plumb {

/// Explains parts of one compiled plan in words. Each function answers an error text, empty if there is such
/// a part.
class Explanation {
public:
  Explanation(const Pipeline &pipeline, llvm::raw_ostream &os)
      : pipeline(pipeline), module(pipeline.module), os(os) {}

  /// Owner, layout, copies, what is synchronised when, and what both ways to share it cost. Aliases are names
  /// too.
  std::string explainParameter(llvm::StringRef name);
  /// The stages that a module lives in, and there its costs, its parameters and its calls.
  std::string explainModule(llvm::StringRef name);
  std::string explainStage(int64_t index);
  std::string explainRank(int64_t number);
  /// One line for each parameter.
  void listParameters();

private:
  struct Work;

  ParameterOp findParameter(llvm::StringRef name, std::vector<std::string> &known);
  void printReaders(ParameterOp parameter);
  void printCopies(ParameterOp parameter);
  void printSynchronisation(ParameterOp parameter);
  void printSharing(ParameterOp parameter);
  void printWork(const Work &work);
  void printPorts(llvm::StringRef name);
  void printCall(mlir::Operation *op, unsigned indent);
  void printMembers(int64_t number);
  std::string describeStage(int64_t index);
  int64_t countRanks();

  const Pipeline &pipeline;
  mlir::ModuleOp module;
  llvm::raw_ostream &os;
};

} // namespace plumb

#endif // PLUMB_TOOLS_PLUMBC_EXPLAIN_H
