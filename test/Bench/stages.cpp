// Times the passes that cut a model into stages and assign its parameters, on models of growing size:
// apply-spec with a policy, split-stages, assign-ownership. Times are of the processor, on one core.
//
//   tools/bench stages [OPS]...     5000 10000 20000 40000 if not given
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Dialect/Plumb/Plumb.h"
#include "plumb/Dialect/Registration.h"
#include "plumb/Transforms/Passes.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

using namespace plumb;

/// Half a second for 20,000 ops, and linear growth.
static constexpr double kMostMicrosecondsPerOp = 25;

/// A row of residual layers of ten ops and two parameters each, with a tied embedding at both ends.
static std::string modelOf(int64_t ops) {
  std::string text;
  llvm::raw_string_ostream os(text);
  int64_t layers = ops / 10;
  os << "plumb.mesh @mesh [\"pp\" = 8]\n"
        "plumb.pipeline axis \"pp\" schedule \"1f1b\" microbatches 8 stages_per_rank 2\n"
        "plumb.split_policy \"balanced\" stages 16\n"
        "plumb.sharing_rule \"*\" \"transmit\"\n"
        "plumb.module @h\n";
  for (int64_t layer = 0; layer < layers; ++layer)
    os << "plumb.module @h." << layer << "\nplumb.parameter @h." << layer
       << ".up trainable : tensor<64x16xf32>\nplumb.parameter @h." << layer
       << ".down trainable : tensor<16x64xf32>\n";
  os << "plumb.parameter @wte trainable : tensor<128x16xf32>\nplumb.program @model {\n"
        "  %i = plumb.input \"i\" index 0 : tensor<64xi64>\n  %t = plumb.load @wte : tensor<128x16xf32>\n"
        "  %x0 = nn.embedding %t, %i {plumb.module = \"wte\"} : (tensor<128x16xf32>, tensor<64xi64>) -> "
        "tensor<64x16xf32>\n";
  for (int64_t layer = 0; layer < layers; ++layer) {
    std::string module = " {plumb.module = \"h." + std::to_string(layer) + "\"} : ",
                v = std::to_string(layer);
    os << "  %u" << v << " = plumb.load @h." << v << ".up : tensor<64x16xf32>\n  %d" << v
       << " = plumb.load @h." << v << ".down : tensor<16x64xf32>\n  %a" << v
       << " = nn.einsum \"bi,oi->bo\"(%x" << v << ", %u" << v << ")" << module
       << "(tensor<64x16xf32>, tensor<64x16xf32>) -> tensor<64x64xf32>\n";
    std::string last = "%a" + v;
    for (int step = 0; step < 7; ++step) {
      std::string next = "%r" + v + "_" + std::to_string(step);
      os << "  " << next << " = nn.relu " << last << module << "(tensor<64x64xf32>) -> tensor<64x64xf32>\n";
      last = next;
    }
    os << "  %b" << v << " = nn.einsum \"bi,oi->bo\"(" << last << ", %d" << v << ")" << module
       << "(tensor<64x64xf32>, tensor<16x64xf32>) -> tensor<64x16xf32>\n  %x" << layer + 1 << " = nn.add %x"
       << v << ", %b" << v << module << "(tensor<64x16xf32>, tensor<64x16xf32>) -> tensor<64x16xf32>\n";
  }
  os << "  %y = nn.einsum \"bi,oi->bo\"(%x" << layers
     << ", %t) {plumb.module = \"head\"} : (tensor<64x16xf32>, tensor<128x16xf32>) -> tensor<64x128xf32>\n"
        "  plumb.output \"y\" index 0 %y : tensor<64x128xf32>\n}\n";
  return text;
}

static bool measure(mlir::MLIRContext &context, int64_t ops) {
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceString<mlir::ModuleOp>(
      modelOf(ops), mlir::ParserConfig(&context, /*verifyAfterParse=*/false));
  if (!module)
    return false;
  mlir::PassManager manager(&context);
  manager.enableVerifier(false);
  manager.addPass(createApplySpec());
  manager.addPass(createSplitStages());
  manager.addPass(createAssignOwnership());
  std::clock_t begin = std::clock();
  if (mlir::failed(manager.run(*module)))
    return false;
  double time = 1000 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  std::printf("%7lld ops: %8.1f ms, %.2f us per op\n", static_cast<long long>(ops), time,
              1000 * time / static_cast<double>(ops));
  return 1000 * time <= kMostMicrosecondsPerOp * static_cast<double>(ops);
}

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  std::vector<int64_t> sizes{5000, 10000, 20000, 40000};
  if (argc > 1)
    sizes.clear();
  for (int argument = 1; argument < argc; ++argument)
    sizes.push_back(std::max(10L, std::atol(argv[argument])));
  for (int64_t ops : sizes)
    if (!measure(context, ops))
      return 1;
  return 0;
}
