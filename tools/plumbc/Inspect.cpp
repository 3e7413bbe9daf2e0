//===- Inspect.cpp - What is in a model ---------------------------------------===//

#include "Inspect.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Import/ImportModel.h"
#include "plumb/Transforms/Utils.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"
#include <map>

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
                    << (parameter.getTrainable() ? "" : ", frozen")
                    << (parameter.getNonpersistent() ? ", not saved" : "");
  if (name != parameter.getSymName().rsplit('.').second && name != parameter.getSymName())
    os << ", is " << parameter.getSymName();
  if (ArrayAttr aliases = parameter.getAliasesAttr())
    for (StringRef alias : aliases.getAsValueRange<StringAttr>())
      os << ", also " << alias;
  os << (used ? "" : ", unused") << "\n";
}

namespace {

/// The values that enter a module and leave it, in order of first use.
struct Ports {
  llvm::SetVector<Value> inputs, outputs;
};

class Inspector {
public:
  Inspector(mlir::ModuleOp module, llvm::raw_ostream &os)
      : module(module), program(findOp<ProgramOp>(module)), body(*program.getBody().begin()), os(os) {
    findLiveOps();
    findPorts();
  }

  void print() {
    os << "model " << program.getSymName() << "\n";
    printModules();
    printInterface();
    printMarkers();
    printDropped();
  }

private:
  /// What reaches an output. Marker and output ops are live by themselves.
  void findLiveOps() {
    for (Operation &op : llvm::reverse(body)) {
      bool isPure = isa<InputOp, LoadOp, BatchNormOp, DropoutOp, nn::TensorOpInterface>(op);
      if (!isPure || llvm::any_of(op.getUsers(), [&](Operation *user) { return live.contains(user); }))
        live.insert(&op);
    }
    for (LoadOp load : body.getOps<LoadOp>())
      if (live.contains(load))
        loaded.insert(load.getSymbol());
  }

  static StringRef pathOf(Operation *op) {
    auto path = op->getAttrOfType<StringAttr>(kModuleAttr);
    return path ? path.getValue() : StringRef();
  }

  /// Every value is a port of the modules around its maker that a reader is not in, and the reverse.
  void findPorts() {
    for (auto op : body.getOps<nn::TensorOpInterface>()) {
      SmallVector<StringRef> around;
      for (StringRef path = pathOf(op); !path.empty(); path = path.rsplit('.').first) {
        around.push_back(path.split('@').first);
        if (!path.contains('.'))
          break;
      }
      for (StringRef name : around) {
        for (Value operand : op->getOperands())
          if (Operation *maker = operand.getDefiningOp();
              !isa<LoadOp>(maker) && !isInModule(pathOf(maker), name))
            ports[name].inputs.insert(operand);
        for (Value result : op->getResults())
          if (llvm::any_of(result.getUsers(), [&](Operation *user) {
                return isa<OutputOp>(user) || !isInModule(pathOf(user), name);
              }))
            ports[name].outputs.insert(result);
      }
    }
  }

  void printParameters(StringRef owner, unsigned indent) {
    for (ParameterOp parameter : module.getOps<ParameterOp>()) {
      auto [prefix, leaf] = parameter.getSymName().contains('.')
                                ? parameter.getSymName().rsplit('.')
                                : std::pair<StringRef, StringRef>("", parameter.getSymName());
      if (prefix == owner)
        printParameter(parameter, leaf, loaded.contains(parameter.getSymName()), indent, os);
    }
  }

  void printPorts(StringRef name, unsigned indent) {
    auto found = ports.find(name);
    if (found == ports.end())
      return;
    auto print = [&](StringRef side, const llvm::SetVector<Value> &values) {
      for (auto [number, value] : llvm::enumerate(values))
        os.indent(indent) << side << "." << number << " : " << typeText(value.getType()) << "\n";
    };
    print("input", found->second.inputs);
    print("output", found->second.outputs);
  }

  void printModules() {
    os << "modules\n";
    printParameters("", 2);
    for (ModuleNameOp name : module.getOps<ModuleNameOp>()) {
      unsigned indent = 2 + 2 * name.getSymName().count('.');
      os.indent(indent) << name.getSymName();
      if (auto type = name.getType())
        os << " (" << *type << ")";
      os << "\n";
      printParameters(name.getSymName(), indent + 2);
      printPorts(name.getSymName(), indent + 2);
    }
  }

  void printInterface() {
    os << "inputs\n";
    for (InputOp input : body.getOps<InputOp>())
      os << "  " << static_cast<int64_t>(input.getIndex()) << " " << input.getName() << " : "
         << typeText(input.getResult().getType()) << (live.contains(input) ? "" : ", unused") << "\n";
    os << "outputs\n";
    for (OutputOp output : body.getOps<OutputOp>())
      os << "  " << static_cast<int64_t>(output.getIndex()) << (output.getName().empty() ? "" : " ")
         << output.getName() << " : " << typeText(output.getValue().getType()) << "\n";
  }

  void printMarkers() {
    os << "split points\n";
    unsigned markers = 0;
    for (PipeSplitOp marker : body.getOps<PipeSplitOp>())
      os << "  " << ++markers << " " << describe(marker) << "\n";
    if (!markers)
      os << "  none\n";
  }

  /// What no stage will have, since it reaches no output.
  void printDropped() {
    unsigned ops = 0, dead = 0;
    std::map<std::string, unsigned> places;
    for (auto op : body.getOps<nn::TensorOpInterface>()) {
      ++ops;
      if (live.contains(op))
        continue;
      ++dead;
      ++places[describe(op)];
    }
    os << "operations: " << ops << (dead ? ", of which " + std::to_string(dead) + " reach no output" : "")
       << "\n";
    bool isComplete = true;
    for (ParameterOp parameter : module.getOps<ParameterOp>())
      isComplete &= loaded.contains(parameter.getSymName());
    if (!dead && isComplete)
      return;
    os << "dropped\n";
    for (const auto &[place, count] : places)
      os << "  " << count << (count == 1 ? " operation" : " operations") << (place.empty() ? "" : " of ")
         << place << "\n";
    for (ParameterOp parameter : module.getOps<ParameterOp>())
      if (!loaded.contains(parameter.getSymName()))
        os << "  parameter " << parameter.getSymName() << "\n";
  }

  mlir::ModuleOp module;
  ProgramOp program;
  Block &body;
  llvm::raw_ostream &os;
  llvm::DenseSet<Operation *> live;
  llvm::StringSet<> loaded;     ///< Parameters that live ops read.
  llvm::StringMap<Ports> ports; ///< By module.
};

} // namespace

void plumb::inspect(mlir::ModuleOp module, llvm::raw_ostream &os) { Inspector(module, os).print(); }

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
