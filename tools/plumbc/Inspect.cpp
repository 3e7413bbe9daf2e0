//===- Inspect.cpp - What is in a model ---------------------------------------===//

#include "Inspect.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Import/ImportModel.h"
#include "plumb/Transforms/Utils.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace plumb;

/// "8x32xi64"
static std::string typeText(Type type) {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto tensor = cast<RankedTensorType>(type);
  for (int64_t size : tensor.getShape())
    os << size << "x";
  os << tensor.getElementType();
  return text;
}

static void printParameter(ParameterOp parameter, StringRef name, bool used, unsigned indent,
                           llvm::raw_ostream &os) {
  os.indent(indent) << name << " : " << typeText(parameter.getType())
                    << (parameter.getTrainable() ? "" : ", frozen");
  if (name != parameter.getSymName().rsplit('.').second && name != parameter.getSymName())
    os << ", is " << parameter.getSymName();
  if (ArrayAttr aliases = parameter.getAliasesAttr())
    for (StringRef alias : aliases.getAsValueRange<StringAttr>())
      os << ", also " << alias;
  os << (used ? "" : ", unused") << "\n";
}

static void printModules(mlir::ModuleOp module, ProgramOp program, llvm::raw_ostream &os) {
  llvm::StringSet<> loaded;
  for (LoadOp load : program.getBody().getOps<LoadOp>())
    if (!load->use_empty())
      loaded.insert(load.getSymbol());
  auto printOwned = [&](StringRef owner, unsigned indent) {
    for (ParameterOp parameter : module.getOps<ParameterOp>()) {
      auto [prefix, leaf] = parameter.getSymName().contains('.')
                                ? parameter.getSymName().rsplit('.')
                                : std::pair<StringRef, StringRef>("", parameter.getSymName());
      if (prefix == owner)
        printParameter(parameter, leaf, loaded.contains(parameter.getSymName()), indent, os);
    }
  };
  os << "modules\n";
  printOwned("", 2);
  for (ModuleNameOp name : module.getOps<ModuleNameOp>()) {
    unsigned indent = 2 + 2 * name.getSymName().count('.');
    os.indent(indent) << name.getSymName();
    if (auto type = name.getType())
      os << " (" << *type << ")";
    os << "\n";
    printOwned(name.getSymName(), indent + 2);
  }
}

void plumb::inspect(mlir::ModuleOp module, llvm::raw_ostream &os) {
  auto program = findOp<ProgramOp>(module);
  os << "model " << program.getSymName() << "\n";
  printModules(module, program, os);
  os << "inputs\n";
  for (InputOp input : program.getBody().getOps<InputOp>())
    os << "  " << static_cast<int64_t>(input.getIndex()) << " " << input.getName() << " : "
       << typeText(input.getResult().getType()) << (input->use_empty() ? ", unused" : "") << "\n";
  os << "outputs\n";
  for (OutputOp output : program.getBody().getOps<OutputOp>())
    os << "  " << static_cast<int64_t>(output.getIndex()) << (output.getName().empty() ? "" : " ")
       << output.getName() << " : " << typeText(output.getValue().getType()) << "\n";
  os << "split points\n";
  unsigned markers = 0, ops = 0, dead = 0;
  for (Operation &op : *program.getBody().begin()) {
    if (isa<PipeSplitOp>(op))
      os << "  " << ++markers << " " << describe(&op) << "\n";
    if (isa<nn::TensorOpInterface>(op)) {
      ++ops;
      dead += op.use_empty();
    }
  }
  if (!markers)
    os << "  none\n";
  os << "operations: " << ops << (dead ? ", of which " + std::to_string(dead) + " reach no output" : "")
     << "\n";
}

void plumb::printOperators(llvm::raw_ostream &os) {
  std::vector<OperatorFamily> families = operatorFamilies();
  size_t count = 0;
  for (const OperatorFamily &family : families)
    count += family.operators.size();
  os << "# ATen operators\n\nModels may use these " << count
     << " operators. Any other is refused by name, with its module and Python line.\n";
  for (const OperatorFamily &family : families) {
    os << "\n## " << static_cast<char>(llvm::toUpper(family.name.front()))
       << StringRef(family.name).drop_front() << "\n\n";
    StringRef separator;
    for (const std::string &name : family.operators) {
      // An overload called "default" is what is meant without its name.
      StringRef shown(name);
      shown.consume_back(".default");
      os << separator << "`" << shown << "`";
      separator = " ";
    }
    os << "\n";
  }
}
