//===- Evaluator.cpp - Runs functions of nn ops ---------------------------===//

#include "Evaluator.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Verifier.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "llvm/Support/TargetSelect.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace plumb::nn::test {

//===-- Arrays ------------------------------------------------------------===//

int64_t elementCount(const Shape &shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

Array::Array(Shape shape) : shape(std::move(shape)), values(elementCount(this->shape)) {}

Array Array::random(RankedTensorType type, std::mt19937 &random, int64_t integerLimit) {
  Array array(type.getShape().vec());
  bool isFloat = isa<FloatType>(type.getElementType());
  int64_t limit = type.getElementType().isInteger(1) ? 2 : integerLimit;
  std::uniform_real_distribution<double> magnitude(0.25, 1.25); // away from 0: divisors, and the kink of relu
  for (double &value : array.values)
    value = isFloat ? magnitude(random) * (random() % 2 ? 1 : -1) : static_cast<double>(random() % limit);
  return array;
}

double Array::operator()(const Shape &index) const {
  int64_t linear = 0;
  for (size_t i = 0, added = index.size() - shape.size(); i < shape.size(); ++i)
    linear = linear * shape[i] + (shape[i] == 1 ? 0 : index[added + i]);
  return values[linear];
}

Shape indexOf(const Shape &shape, int64_t linear) {
  Shape index(shape.size());
  for (size_t i = shape.size(); i-- > 0; linear /= shape[i])
    index[i] = linear % shape[i];
  return index;
}

Array generate(Shape shape, function_ref<double(const Shape &)> element) {
  Array array(std::move(shape));
  for (size_t i = 0; i < array.values.size(); ++i)
    array.values[i] = element(indexOf(array.shape, static_cast<int64_t>(i)));
  return array;
}

void expectNear(const Array &actual, const Array &expected, double tolerance, const std::string &what) {
  ASSERT_EQ(actual.shape, expected.shape) << what;
  for (size_t i = 0; i < actual.values.size(); ++i)
    ASSERT_NEAR(actual.values[i], expected.values[i], tolerance * std::max(1.0, std::abs(expected.values[i])))
        << what << ", element " << i;
}

//===-- IR ----------------------------------------------------------------===//

MLIRContext &context() {
  static MLIRContext *shared = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    registerAllPasses();
    DialectRegistry registry;
    registerAllDialects(registry);
    registerAllExtensions(registry);
    registerAllToLLVMIRTranslations(registry);
    registry.insert<NNDialect>();
    auto *context = new MLIRContext(registry, MLIRContext::Threading::DISABLED);
    context->loadDialect<NNDialect, func::FuncDialect>();
    return context;
  }();
  return *shared;
}

OwningOpRef<ModuleOp> parse(const std::string &text) {
  auto module = parseSourceString<ModuleOp>(text, &context());
  if (!module)
    throw std::runtime_error("cannot parse:\n" + text);
  return module;
}

std::string functionOf(const std::string &op) {
  size_t colon = op.rfind(" : "), arrow = op.rfind(" -> ");
  std::string operands, results = op.substr(colon + 3);
  if (arrow != std::string::npos && arrow > colon) {
    operands = op.substr(colon + 4, arrow - colon - 5);
    results = op.substr(arrow + 4);
  }
  std::string arguments;
  for (size_t start = 0, number = 0; start < operands.size(); ++number) {
    size_t end = std::min(operands.find(", ", start), operands.size());
    arguments += (number ? ", %" : "%") + std::to_string(number) + ": " + operands.substr(start, end - start);
    start = end + 2;
  }
  bool several = results[0] == '(';
  std::string types = several ? results.substr(1, results.size() - 2) : results;
  auto count = static_cast<int64_t>(StringRef(types).count(", ")) + 1;
  std::string values;
  for (int64_t i = 0; i < count; ++i)
    values += (i ? ", %r#" : "%r#") + std::to_string(i);
  return "func.func @f(" + arguments + ") -> (" + types + ") {\n  %r:" + std::to_string(count) + " = " + op +
         "\n  return " + values + " : " + types + "\n}\n";
}

func::FuncOp functionIn(ModuleOp module) { return *module.getOps<func::FuncOp>().begin(); }
Operation *opIn(ModuleOp module) { return &functionIn(module).front().front(); }

static bool isFloatTensor(Type type) { return isa<FloatType>(cast<RankedTensorType>(type).getElementType()); }

void addBackward(func::FuncOp function) {
  func::FuncOp backward = function.clone();
  backward.setName((function.getName() + ".backward").str());
  cast<ModuleOp>(function->getParentOp()).push_back(backward);
  Block &body = backward.front();
  Operation *terminator = body.getTerminator();
  Location loc = backward.getLoc();
  OpBuilder builder(terminator);

  SmallVector<Value> arguments(body.getArguments());
  llvm::DenseMap<Value, Value> cotangentOf;
  auto accumulate = [&](Value value, Value cotangent) {
    Value &sum = cotangentOf[value];
    sum = sum ? AddOp::create(builder, loc, sum, cotangent).getResult() : cotangent;
  };
  std::vector<Operation *> forward;
  for (Operation &op : body.without_terminator())
    forward.push_back(&op);
  for (Value result : terminator->getOperands())
    if (isFloatTensor(result.getType()))
      accumulate(result, body.addArgument(result.getType(), loc));

  for (Operation *op : llvm::reverse(forward)) {
    SmallVector<Value> cotangents;
    for (Value result : op->getResults())
      cotangents.push_back(cotangentOf.lookup(result));
    if (llvm::none_of(cotangents, [](Value value) { return static_cast<bool>(value); }))
      continue;
    SmallVector<bool> wanted(op->getNumOperands(), true);
    auto gradients = cast<TensorOpInterface>(op).backward(builder, cotangents, wanted);
    for (auto [operand, gradient] : llvm::zip_equal(op->getOperands(), gradients))
      if (gradient)
        accumulate(operand, gradient);
  }
  SmallVector<Value> gradients;
  for (Value argument : arguments)
    if (auto type = cast<RankedTensorType>(argument.getType()); isFloatTensor(type)) {
      Value gradient = cotangentOf.lookup(argument);
      gradients.push_back(gradient ? gradient : FillOp::create(builder, loc, type, APFloat(0.0)).getResult());
    }
  func::ReturnOp::create(builder, loc, gradients);
  terminator->erase();
  backward.setType(builder.getFunctionType(body.getArgumentTypes(), ValueRange(gradients).getTypes()));
}

//===-- Compilation -------------------------------------------------------===//

static void require(bool condition, const char *what) {
  if (!condition)
    throw std::runtime_error(what);
}

static void lowerToLinalg(ModuleOp module) {
  std::vector<TensorOpInterface> ops;
  module.walk([&](TensorOpInterface op) { ops.push_back(op); });
  for (TensorOpInterface op : ops) {
    OpBuilder builder(op);
    op->replaceAllUsesWith(op.lower(builder, op->getOperands()));
    op->erase();
  }
  require(succeeded(verify(module)), "lowered module does not verify");
}

static void runPasses(ModuleOp module, StringRef pipeline) {
  PassManager passes(module.getContext());
  require(succeeded(parsePassPipeline(pipeline, passes)) && succeeded(passes.run(module)), pipeline.data());
}

/// Copies become loops (LLVM has no call for strided ones), temporaries go on the stack.
static void settleBuffers(ModuleOp module) {
  std::vector<memref::CopyOp> copies;
  std::vector<memref::AllocOp> allocations;
  module.walk([&](memref::CopyOp copy) { copies.push_back(copy); });
  module.walk([&](memref::AllocOp allocation) { allocations.push_back(allocation); });
  for (memref::CopyOp copy : copies) {
    OpBuilder builder(copy);
    linalg::makeMemRefCopyOp(builder, copy.getLoc(), copy.getSource(), copy.getTarget());
    copy.erase();
  }
  for (memref::AllocOp allocation : allocations) {
    require(!allocation->getParentOfType<LoopLikeOpInterface>(),
            "a loop allocates: it was not bufferised in place");
    OpBuilder builder(allocation);
    Value buffer = memref::AllocaOp::create(builder, allocation.getLoc(), allocation.getType());
    allocation.replaceAllUsesWith(buffer);
    allocation.erase();
  }
}

Program::Program(OwningOpRef<ModuleOp> module) {
  require(succeeded(verify(*module)), "module does not verify");
  for (auto function : module->getOps<func::FuncOp>()) {
    signatures[function.getName().str()] = function.getFunctionType();
    function->setAttr("llvm.emit_c_interface", UnitAttr::get(&context()));
  }
  lowerToLinalg(*module);
  runPasses(*module, "one-shot-bufferize{bufferize-function-boundaries "
                     "function-boundary-type-conversion=identity-layout-map},"
                     "buffer-results-to-out-params{modify-public-functions},canonicalize");
  settleBuffers(*module);
  runPasses(*module,
            "func.func(convert-linalg-to-loops),expand-strided-metadata,lower-affine,convert-scf-to-cf,"
            "arith-expand{include-bf16},convert-math-to-llvm,convert-math-to-libm,finalize-memref-to-llvm,"
            "convert-arith-to-llvm,convert-index-to-llvm,convert-func-to-llvm,convert-cf-to-llvm,"
            "reconcile-unrealized-casts");
  ExecutionEngineOptions options;
  options.jitCodeGenOptLevel = llvm::CodeGenOptLevel::None;
  auto created = ExecutionEngine::create(*module, options);
  require(static_cast<bool>(created), "cannot compile");
  engine = std::move(*created);
}

//===-- Execution ---------------------------------------------------------===//

namespace {
/// A tensor in memory, described as MLIR's calling convention wants it.
struct Buffer {
  RankedTensorType type;
  std::vector<char> bytes;
  std::vector<int64_t> descriptor;

  explicit Buffer(RankedTensorType type) : type(type), bytes(type.getNumElements() * width() + 8) {
    auto address = reinterpret_cast<int64_t>(bytes.data());
    descriptor = {address, address, 0};
    llvm::append_range(descriptor, type.getShape());
    int64_t stride = type.getNumElements();
    for (int64_t size : type.getShape()) {
      stride = size == 0 ? 0 : stride / size;
      descriptor.push_back(stride);
    }
  }

  size_t width() const { return (type.getElementTypeBitWidth() + 7) / 8; }

  void store(const Array &array) {
    for (auto [i, value] : llvm::enumerate(array.values)) {
      uint64_t bits;
      if (auto floatType = dyn_cast<FloatType>(type.getElementType()))
        bits = cast<FloatAttr>(FloatAttr::get(floatType, value)).getValue().bitcastToAPInt().getZExtValue();
      else
        bits = static_cast<uint64_t>(static_cast<int64_t>(value));
      std::memcpy(&bytes[i * width()], &bits, width());
    }
  }

  Array load() const {
    Array array(type.getShape().vec());
    for (auto [i, value] : llvm::enumerate(array.values)) {
      uint64_t bits = 0;
      std::memcpy(&bits, &bytes[i * width()], width());
      llvm::APInt integer(type.getElementTypeBitWidth(), bits, /*isSigned=*/false, /*implicitTrunc=*/true);
      if (auto floatType = dyn_cast<FloatType>(type.getElementType()))
        value = APFloat(floatType.getFloatSemantics(), integer).convertToDouble();
      else
        value = static_cast<double>(integer.getBitWidth() == 1 ? static_cast<int64_t>(bits)
                                                               : integer.getSExtValue());
    }
    return array;
  }
};
} // namespace

std::vector<Array> Program::run(const std::string &function, const std::vector<Array> &inputs) const {
  FunctionType signature = signatures.at(function);
  require(signature.getNumInputs() == inputs.size(), "wrong number of inputs");
  std::vector<std::unique_ptr<Buffer>> buffers;
  for (Type type : llvm::concat<const Type>(signature.getInputs(), signature.getResults()))
    buffers.push_back(std::make_unique<Buffer>(cast<RankedTensorType>(type)));
  for (auto [buffer, input] : llvm::zip(buffers, inputs)) {
    require(buffer->type.getShape() == ArrayRef<int64_t>(input.shape), "input has another shape");
    buffer->store(input);
  }
  std::vector<void *> descriptors;
  for (auto &buffer : buffers)
    descriptors.push_back(buffer->descriptor.data());
  SmallVector<void *> arguments;
  for (void *&descriptor : descriptors)
    arguments.push_back(&descriptor);
  auto error = engine->invokePacked("_mlir_ciface_" + function, arguments);
  require(!error, "cannot call");
  std::vector<Array> results;
  for (size_t i = inputs.size(); i < buffers.size(); ++i)
    results.push_back(buffers[i]->load());
  return results;
}

std::vector<Array> evaluate(const std::string &op, const std::vector<Array> &inputs) {
  return Program(parse(functionOf(op))).run("f", inputs);
}

} // namespace plumb::nn::test
