//===- DumpValues.cpp - Makes what modules return outputs of the model --------===//

#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Support/Suggest.h"
#include "plumb/Transforms/Passes.h"
#include "plumb/Transforms/Utils.h"
#include "llvm/ADT/SetVector.h"
#include <set>

namespace plumb {
#define GEN_PASS_DEF_DUMPVALUES
#include "plumb/Transforms/Passes.h.inc"
} // namespace plumb

using namespace mlir;
using namespace plumb;

static StringRef getModulePath(Operation *op) {
  auto path = op->getAttrOfType<StringAttr>(kModuleAttr);
  return path ? path.getValue() : "";
}

namespace {
class DumpValuesPass : public plumb::impl::DumpValuesBase<DumpValuesPass> {
public:
  using DumpValuesBase::DumpValuesBase;

private:
  void runOnOperation() override {
    auto program = findOp<ProgramOp>(getOperation());
    if (!program)
      return;
    // All are found before the first is made an output, which would be a reader outside of the module.
    SmallVector<SetVector<Value>> values(modules.size());
    for (auto [name, leaving] : llvm::zip(modules, values))
      if (failed(findLeaving(program, name, leaving)))
        return signalPassFailure();
    for (auto [name, leaving] : llvm::zip(modules, values))
      addOutputs(program, name, leaving.getArrayRef());
  }

  LogicalResult findLeaving(ProgramOp program, const std::string &name, SetVector<Value> &values) {
    bool isKnown = false;
    for (auto op : program.getBody().getOps<nn::TensorOpInterface>()) {
      if (!isInModule(getModulePath(op), name))
        continue;
      isKnown = true;
      for (Value result : op->getResults())
        if (llvm::any_of(result.getUsers(), [&](Operation *user) {
              return !isa<nn::TensorOpInterface>(user) || !isInModule(getModulePath(user), name);
            }))
          values.insert(result);
    }
    if (!isKnown)
      return program.emitError("no module of the model is called \"")
             << name << "\"" << didYouMean(name, namesOfModules(program));
    return success();
  }

  void addOutputs(ProgramOp program, const std::string &name, ArrayRef<Value> values) {
    int64_t index = llvm::range_size(program.getBody().getOps<OutputOp>());
    auto builder = OpBuilder::atBlockEnd(&*program.getBody().begin());
    for (auto [number, value] : llvm::enumerate(values)) {
      std::string label = "dump." + name + (values.size() > 1 ? "." + std::to_string(number) : "");
      OutputOp::create(builder, value.getLoc(), value, label, index++);
    }
  }

  static std::vector<std::string> namesOfModules(ProgramOp program) {
    std::set<std::string> names;
    for (auto op : program.getBody().getOps<nn::TensorOpInterface>())
      for (StringRef path = getModulePath(op); !path.empty();
           path = path.contains('.') ? path.rsplit('.').first : "")
        names.insert(path.str());
    return {names.begin(), names.end()};
  }
};
} // namespace
