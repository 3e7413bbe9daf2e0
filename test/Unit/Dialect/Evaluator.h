//===- Evaluator.h - Runs functions of nn ops -------------------*- C++ -*-===//
//
// The plainest way from nn to numbers: each op's own `lower`, loops over linalg, LLVM JIT. It shares nothing
// with the kernel compiler, so either can check the other.
//
//===----------------------------------------------------------------------===//
#ifndef PLUMB_UNIT_DIALECT_EVALUATOR_H
#define PLUMB_UNIT_DIALECT_EVALUATOR_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/ExecutionEngine/ExecutionEngine.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "plumb/Dialect/NN/NN.h"
#include <map>
#include <random>
#include <string>
#include <vector>

namespace plumb::nn::test {

using Shape = std::vector<int64_t>;

/// Numbers in row-major order, whatever the element type.
struct Array {
  Shape shape;
  std::vector<double> values;

  explicit Array(Shape shape = {});
  static Array random(mlir::RankedTensorType type, std::mt19937 &random, int64_t integerLimit = 4);

  /// The element that the broadcast index names: dims aligned to the right, size 1 repeated.
  double operator()(const Shape &index) const;
};

int64_t elementCount(const Shape &shape);

/// The index of element number `linear` of a row-major tensor.
Shape indexOf(const Shape &shape, int64_t linear);

/// A tensor computed index by index.
Array generate(Shape shape, llvm::function_ref<double(const Shape &)> element);

void expectNear(const Array &actual, const Array &expected, double tolerance, const std::string &what);

mlir::MLIRContext &context();

/// Parses and verifies a module; a failure is a failure of the test.
mlir::OwningOpRef<mlir::ModuleOp> parse(const std::string &text);

/// The text of `func.func @f` that applies one op to its arguments %0, %1, …, read from the op's printed
/// types.
std::string functionOf(const std::string &op);

/// The only function and the first op of such a module.
mlir::func::FuncOp functionIn(mlir::ModuleOp module);
mlir::Operation *opIn(mlir::ModuleOp module);

/// Adds `@f.backward`, which takes f's arguments and one cotangent per float result, and returns the gradient
/// of each float argument (zeros where the results do not depend on it). Built by the ops' own `backward`.
void addBackward(mlir::func::FuncOp function);

/// The compiled functions of a module of nn ops. The module is consumed.
class Program {
public:
  explicit Program(mlir::OwningOpRef<mlir::ModuleOp> module);

  std::vector<Array> run(const std::string &function, const std::vector<Array> &inputs) const;

private:
  std::map<std::string, mlir::FunctionType> signatures;
  std::unique_ptr<mlir::ExecutionEngine> engine;
};

/// Compiles and runs one op.
std::vector<Array> evaluate(const std::string &op, const std::vector<Array> &inputs);

} // namespace plumb::nn::test

#endif // PLUMB_UNIT_DIALECT_EVALUATOR_H
