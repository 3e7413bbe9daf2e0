//===- Optimizer.h - The update of the parameters as tensor ops -*- C++ -*-===//
//
// Formulas and their order are those of torch.optim.{SGD, Adam, AdamW}, torch.nn.utils.clip_grad_norm_ and,
// for the rate, LambdaLR with the factor
//   t / warmup                                          in step t < warmup (t counts from 0), then with
//   p = min(1, (t - warmup) / (steps - warmup)):
//   1                                                   constant
//   1 - (1 - final) p                                   linear
//   final + (1 - final) (1 + cos(pi p)) / 2             cosine
//
//===----------------------------------------------------------------------===//

#ifndef PLUMB_LIB_TRANSFORMS_OPTIMIZER_H
#define PLUMB_LIB_TRANSFORMS_OPTIMIZER_H

#include "plumb/Dialect/NN/NN.h"
#include "plumb/Transforms/Utils.h"
#include <map>

namespace plumb {

/// A parameter with its gradient, and the stages in which that was stored whole: one per rank of the pipeline
/// that holds the parameter, the owner's first.
struct Trained {
  ParameterOp parameter;
  StateOp gradient;
  llvm::SmallVector<int64_t, 2> stages;
};

/// Appends to the program, for each rank that holds a parameter: the square of its gradient's norm, if
/// gradients are clipped (phase `reduce`), and its new value (phase `update`). Gradients have been stored
/// whole before.
class OptimizerBuilder {
public:
  OptimizerBuilder(mlir::ModuleOp module, ProgramOp program, OptimizerOp optimizer);
  void build(llvm::ArrayRef<Trained> trained);

private:
  /// Numbers of rank 0 in the type of a parameter's elements; null where the optimizer has none.
  struct Numbers {
    mlir::Value clip, rate, step, root;
  };

  void sumSquares(llvm::ArrayRef<Trained> trained);
  void measureNorm();
  mlir::Value makeRate();
  mlir::Value makeCorrection(double beta);
  Numbers makeNumbers(mlir::Type element);
  void update(const Trained &trained, const Numbers &numbers);
  mlir::Value descend(const Trained &trained, mlir::Value parameter, mlir::Value gradient,
                      const Numbers &numbers);
  mlir::Value adapt(const Trained &trained, mlir::Value parameter, mlir::Value gradient,
                    const Numbers &numbers);

  StateOp makeState(llvm::StringRef name, llvm::StringRef kind, mlir::Type type, ParameterOp of = {});
  mlir::Value load(llvm::StringRef symbol, mlir::Type type);
  void store(llvm::StringRef symbol, mlir::Value value);
  mlir::Value constant(double value, mlir::Type element);
  mlir::Value like(mlir::Value number, double value);
  mlir::Value scaled(mlir::Value number, double factor);
  mlir::Value convert(mlir::Value number, mlir::Type element);
  mlir::Value weightedSum(mlir::Value lhs, double lhsWeight, mlir::Value rhs, double rhsWeight);
  /// The number of updates that have been made, as f64.
  mlir::Value countUpdates();

  mlir::ModuleOp module;
  ProgramOp program;
  OptimizerOp optimizer;
  mlir::OpBuilder builder;
  mlir::Location loc;
  double beta1, beta2;
  bool isFirstOfRank = false;             ///< The stage at hand is the first that updates on its rank.
  std::map<std::string, StateOp> squares; ///< Sums of squares by the axes they are partial over.
  llvm::SmallVector<int64_t> firstStages; ///< Of each rank of the pipeline that updates anything.
};

} // namespace plumb

#endif // PLUMB_LIB_TRANSFORMS_OPTIMIZER_H
