//===- LayoutPropertyTest.cpp - Layouts never change what is computed ------===//
//
// Random small models under random legal layouts: one training step on all ranks gives every rank its part of
// what the unsplit model gives. PLUMB_LAYOUT_CASES and PLUMB_LAYOUT_SEED choose how many and which.
//
//===----------------------------------------------------------------------===//

#include "PlanEvaluator.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "plumb/Dialect/Registration.h"
#include "plumb/Transforms/Passes.h"
#include "plumb/Transforms/Utils.h"
#include <gtest/gtest.h>
#include <random>

using namespace mlir;

namespace plumb::test {
namespace {

/// Writes a model and a plan for it.
class Generator {
public:
  explicit Generator(unsigned seed) : random(seed) {}

  std::string write() {
    chooseMesh();
    start();
    int count = 2 + below(5);
    bool isSplit = !hasAxis("pp");
    for (int layer = 0; layer < count; ++layer) {
      size_t before = values.size();
      addLayer();
      if (isSplit || values.size() == before || (flip() && layer + 1 < count))
        continue;
      body += "  plumb.pipe_split\n";
      isSplit = true;
    }
    // So that there is a last stage, and nothing is left out of it.
    if (!isSplit)
      body += "  plumb.pipe_split\n";
    module = "";
    values.push_back({emit("nn.tanh " + values.back().name, values.back().type(), values.back().shape),
                      values.back().shape});
    std::string text = header + parameters + "plumb.program @model {\n" + body +
                       "  plumb.output \"y\" index 0 " + values.back().name + " : " + values.back().type() +
                       "\n}\n";
    return text;
  }

private:
  struct Value {
    std::string name;
    Shape shape;
    std::string type() const { return typeOf(shape); }
  };
  struct Axis {
    std::string name;
    int64_t size;
  };

  static std::string typeOf(const Shape &shape, const char *element = "f32") {
    std::string text = "tensor<";
    for (int64_t size : shape)
      text += std::to_string(size) + "x";
    return text + element + ">";
  }

  int64_t below(int64_t limit) { return static_cast<int64_t>(random() % static_cast<uint64_t>(limit)); }
  bool flip() { return below(2) == 0; }

  void chooseMesh() {
    static const std::vector<std::vector<Axis>> meshes = {{{"tp", 2}},
                                                          {{"tp", 4}},
                                                          {{"dp", 2}, {"tp", 2}},
                                                          {{"a", 2}, {"b", 2}},
                                                          {{"tp", 2}, {"dp", 2}},
                                                          {{"dp", 2}, {"a", 2}, {"b", 2}},
                                                          {{"pp", 2}, {"tp", 2}},
                                                          {{"dp", 2}, {"pp", 2}, {"a", 2}}};
    axes = meshes[below(static_cast<int64_t>(meshes.size()))];
    header = "plumb.mesh @mesh [";
    for (const Axis &axis : axes)
      header += (&axis == &axes.front() ? "\"" : ", \"") + axis.name + "\" = " + std::to_string(axis.size);
    static const char *buckets[] = {"", " {plumb.bucket_bytes = 0}", " {plumb.bucket_bytes = 512}"};
    header += "]\nplumb.pipeline axis \"pp\" schedule \"gpipe\" microbatches " +
              std::to_string(1 + below(2)) + buckets[below(3)] + "\nplumb.loss_rule output 0 reduce ";
    header += flip() ? "\"mean_square\"\n" : "\"cross_entropy\" target \"labels\" : i64 ignore 3\n";
    bool hasData = hasAxis("dp");
    header += "plumb.optimizer \"sgd\" rate 0.5" +
              std::string(hasData && below(3) == 0 ? " state {dp = \"shard(0)\"}" : "") + "\n";
    static const char *modes[] = {"step", "pass", "layer"};
    if (hasData && below(3) == 0)
      header += "plumb.storage_rule \"*\" axis \"dp\" gather \"" + std::string(modes[below(3)]) + "\"\n";
  }

  bool hasAxis(const char *name) const {
    return llvm::any_of(axes, [&](const Axis &axis) { return axis.name == name; });
  }

  /// A placement of a dim of a tensor, on the axes that shard no batch; of a value also a sum that is
  /// pending.
  std::string placements(const Shape &shape, bool isValue = false, const Shape &blocks = {}) {
    std::string text = "{";
    for (const Axis &axis : axes) {
      int64_t dim = below(static_cast<int64_t>(shape.size()) + 1);
      if (isValue && axis.name != "dp" && axis.name != "pp" && below(8) == 0) {
        text += (text.size() > 1 ? ", " : "") + axis.name + " = \"partial(sum)\"";
        continue;
      }
      if (axis.name == "dp" || axis.name == "pp" || dim == static_cast<int64_t>(shape.size()) ||
          shape[dim] % axis.size)
        continue;
      text += (text.size() > 1 ? ", " : "") + axis.name + " = \"shard(" + std::to_string(dim) +
              (dim == 0 && !blocks.empty() ? ", blocks=" + listOf(blocks) : "") + ")\"";
    }
    return text + "}";
  }

  static std::string listOf(const Shape &numbers) {
    std::string text;
    for (int64_t number : numbers)
      text += (text.empty() ? "[" : ", ") + std::to_string(number);
    return text + "]";
  }

  /// Opens a module, with a rule for its parameters (of the given shapes, and in the given blocks of dim 0)
  /// and sometimes for its ports.
  void open(const std::vector<Shape> &weights, const Shape &in, const Shape &out, const Shape &blocks = {}) {
    std::string number = std::to_string(modules++);
    module = "m" + number;
    header += "plumb.module @" + module + "\n";
    std::string params, attributes;
    for (size_t i = 0; i < weights.size(); ++i) {
      params +=
          (i ? ", w" : "w") + std::to_string(i) + " = " + placements(weights[i], /*isValue=*/false, blocks);
      parameters += "plumb.parameter @" + module + ".w" + std::to_string(i) +
                    " trainable : " + typeOf(weights[i]) + "\n";
    }
    if (below(3) == 0)
      attributes +=
          "in_src = {input.0 = " + placements(in) + "}, in_dst = {input.0 = " + placements(in, true) + "}";
    if (below(4) == 0)
      attributes += std::string(attributes.empty() ? "" : ", ") +
                    "out_dst = {output.0 = " + placements(out, true) + "}";
    if (params.empty() && attributes.empty())
      return;
    header += "plumb.layout_rule \"" + module + "\"" + (params.empty() ? "" : " params {" + params + "}") +
              (attributes.empty() ? "" : " {" + attributes + "}") + "\n";
  }

  std::string weight(int number, const Shape &shape) {
    return emit("plumb.load @" + module + ".w" + std::to_string(number), "", shape);
  }

  /// Adds an op whose operand types are written already.
  std::string emit(const std::string &op, const std::string &operandTypes, const Shape &result) {
    std::string name = "%" + std::to_string(names++);
    std::string type = typeOf(result);
    body += "  " + name + " = " + op + " {plumb.module = \"" + module +
            "\"} : " + (operandTypes.empty() ? type : "(" + operandTypes + ") -> " + type) + "\n";
    return name;
  }
  std::string binary(const std::string &op, const Value &a, const Value &b) {
    return emit("nn." + op + " " + a.name + ", " + b.name, a.type() + ", " + b.type(), a.shape);
  }
  std::string einsum(const std::string &equation, const Value &a, const Value &b, const Shape &result) {
    return emit("nn.einsum \"" + equation + "\"(" + a.name + ", " + b.name + ")", a.type() + ", " + b.type(),
                result);
  }

  void start() {
    Shape shape{8, 4, 8};
    if (flip()) {
      body = "  %x = plumb.input \"x\" index 0 : " + typeOf(shape) + "\n";
      values.push_back({"%x", shape});
      return;
    }
    body = "  %x = plumb.input \"x\" index 0 : tensor<8x4xi64>\n";
    open({{16, 8}}, {8, 4}, shape);
    Value table{weight(0, {16, 8}), {16, 8}};
    values.push_back(
        {emit("nn.embedding " + table.name + ", %x", table.type() + ", tensor<8x4xi64>", shape), shape});
  }

  void addLayer() {
    Value x = values[flip() ? values.size() - 1 : below(static_cast<int64_t>(values.size()))];
    int64_t width = x.shape.back();
    switch (below(12)) {
    case 0:
    case 1: {
      int64_t features = flip() ? 8 : 16;
      Shape out{8, 4, features};
      open({{features, width}, {features}}, x.shape, out);
      Value product{einsum("bti,oi->bto", x, {weight(0, {features, width}), {features, width}}, out), out};
      values.push_back({binary("add", product, {weight(1, {features}), {features}}), out});
      return;
    }
    case 2:
      open({}, x.shape, x.shape);
      values.push_back({emit((isExact ? "nn.relu " : "nn.tanh ") + x.name, x.type(), x.shape), x.shape});
      return;
    case 3:
      open({{width}}, x.shape, x.shape);
      values.push_back({binary("mul", x, {weight(0, {width}), {width}}), x.shape});
      return;
    case 4:
      for (const Value &other : values)
        if (other.shape == x.shape && other.name != x.name) {
          open({}, x.shape, x.shape);
          values.push_back({binary("add", x, other), x.shape});
          return;
        }
      return;
    case 5:
    case 6:
      return addAttention(x);
    case 7:
      return addNorm(x);
    case 8:
      return addSum(x);
    case 9:
      open({}, x.shape, x.shape);
      values.push_back({emit("ccl.rotate " + x.name + " dim " + std::to_string(1 + below(2)) + " by " +
                                 std::to_string(below(7) - 3),
                             "", x.shape),
                        x.shape});
      return;
    case 10:
      return addGrouped(x);
    default:
      return addFused(x);
    }
  }

  void addAttention(const Value &x) {
    int64_t width = x.shape.back(), heads = flip() ? 2 : 4, size = width / heads;
    open({{width, width}}, x.shape, x.shape);
    Value q{einsum("bti,oi->bto", x, {weight(0, {width, width}), {width, width}}, x.shape), x.shape};
    auto cut = [&](const Value &value) {
      Shape parts{8, 4, heads, size}, turned{8, heads, 4, size};
      Value view{emit("nn.view " + value.name, value.type(), parts), parts};
      return Value{emit("nn.transpose " + view.name + " [0, 2, 1, 3]", view.type(), turned), turned};
    };
    Value a = cut(q), b = cut(x);
    Shape scores{8, heads, 4, 4}, turned{8, 4, heads, size};
    Value s{einsum("bhid,bhjd->bhij", a, b, scores), scores};
    if (flip()) {
      isExact = false;
      s.name = emit("nn.softmax " + s.name + (flip() ? " causal" : ""), s.type(), scores);
    }
    Value y{einsum("bhij,bhjd->bhid", s, b, a.shape), a.shape};
    Value t{emit("nn.transpose " + y.name + " [0, 2, 1, 3]", y.type(), turned), turned};
    values.push_back({emit("nn.view " + t.name, t.type(), x.shape), x.shape});
  }

  void addNorm(const Value &x) {
    isExact = false;
    int64_t width = x.shape.back();
    open({{width}}, x.shape, x.shape);
    std::string name = "%" + std::to_string(names++);
    body += "  " + name + ":2 = nn.normalize " + x.name + " count 1 eps 1.0e-2" +
            (flip() ? " uncentered" : "") + " {plumb.module = \"" + module + "\"} : (" + x.type() + ") -> (" +
            x.type() + ", " + typeOf({8, 4}) + ")\n";
    values.push_back({binary("mul", {name + "#0", x.shape}, {weight(0, {width}), {width}}), x.shape});
  }

  /// A value beside its sums over a dim, which are broadcast.
  void addSum(const Value &x) {
    open({}, x.shape, x.shape);
    int64_t dim = 1 + below(2);
    Shape sums = x.shape, wide = x.shape;
    sums[dim] = 1;
    Value sum{emit("nn.sum " + x.name + " dims [" + std::to_string(dim) + "] keepdim", x.type(), sums), sums};
    Value product{binary("mul", x, sum), x.shape};
    wide[2] *= 2;
    values.push_back(
        {emit("nn.cat " + x.name + ", " + product.name + " dim 2", x.type() + ", " + x.type(), wide), wide});
  }

  void addFused(const Value &x) {
    int64_t width = x.shape.back();
    Shape wide{8, 4, 3 * width};
    open({{3 * width, width}}, x.shape, x.shape);
    Value all{einsum("bti,oi->bto", x, {weight(0, {3 * width, width}), {3 * width, width}}, wide), wide};
    std::string name = "%" + std::to_string(names++);
    body += "  " + name + ":3 = nn.split " + all.name + " dim 2 {plumb.module = \"" + module + "\"} : (" +
            all.type() + ") -> (" + x.type() + ", " + x.type() + ", " + x.type() + ")\n";
    Value product{binary("mul", {name + "#0", x.shape}, {name + "#1", x.shape}), x.shape};
    values.push_back({binary("sub", product, {name + "#2", x.shape}), x.shape});
  }

  /// Parts of different sizes from one product.
  void addGrouped(const Value &x) {
    int64_t width = x.shape.back(), all = 2 * width;
    Shape parts{width, width / 2, width / 2}, wide{8, 4, all}, half{8, 4, width / 2};
    open({{all, width}}, x.shape, x.shape, flip() ? parts : Shape());
    Value product{einsum("bti,oi->bto", x, {weight(0, {all, width}), {all, width}}, wide), wide};
    std::string name = "%" + std::to_string(names++), type = typeOf(half);
    body += "  " + name + ":3 = nn.split " + product.name + " dim 2 {plumb.module = \"" + module + "\"} : (" +
            product.type() + ") -> (" + x.type() + ", " + type + ", " + type + ")\n";
    Value joined{emit("nn.cat " + name + "#1, " + name + "#2 dim 2", type + ", " + type, x.shape), x.shape};
    values.push_back({binary("mul", {name + "#0", x.shape}, joined), x.shape});
  }

  std::mt19937 random;
  std::vector<Axis> axes;
  std::string header, parameters, body, module;
  std::vector<Value> values;
  int names = 0, modules = 0;
  /// Whether all values are sums of products of inputs, the same in any order: a kink at 0 is safe then.
  bool isExact = true;
};

/// Integers are rows of the table, or classes.
constexpr int64_t kRows = 16, kFewestClasses = 8;

Array randomArray(RankedTensorType type, std::mt19937 &random, int64_t limit = kRows) {
  Array array(type.getShape().vec());
  for (double &value : array.values)
    value = type.getElementType().isInteger() ? static_cast<double>(random() % limit)
                                              : static_cast<double>(static_cast<int>(random() % 9) - 4) / 4;
  return array;
}

class LayoutProperty : public ::testing::Test {
protected:
  LayoutProperty() : context(registry(), MLIRContext::Threading::DISABLED) {
    context.loadAllAvailableDialects();
    context.getDiagEngine().registerHandler([this](mlir::Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
        error += diagnostic.str();
    });
  }

  static DialectRegistry registry() {
    DialectRegistry registry;
    registerDialects(registry);
    return registry;
  }

  /// Nothing if the plan is right or was rejected (then `error` says why), else the first difference.
  std::string check(const std::string &text, unsigned seed) {
    error.clear();
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    if (!module)
      return "does not parse: " + error;
    PassManager step(&context), layouts(&context);
    step.addPass(createApplySpec());
    step.addPass(createSplitStages());
    step.addPass(createAssignOwnership());
    step.addPass(createBuildBackward());
    step.addPass(createCSEPass());
    step.addPass(createBuildStep());
    if (failed(step.run(*module)))
      return "";
    std::mt19937 random(seed);
    Tensors inputs, parameters;
    for (InputOp input : findOp<ProgramOp>(*module).getBody().getOps<InputOp>())
      inputs.emplace(input.getName().str(),
                     randomArray(cast<RankedTensorType>(input.getType()), random,
                                 input.getName() == "labels" ? kFewestClasses : kRows));
    for (ParameterOp parameter : module->getOps<ParameterOp>())
      parameters.emplace(parameter.getSymName().str(),
                         randomArray(cast<RankedTensorType>(parameter.getType()), random));
    Tensors expected = runProgram(*module, inputs, parameters);
    layouts.addPass(createPropagateLayouts());
    layouts.addPass(createPlanBoundaries());
    layouts.addPass(createPartition());
    layouts.addPass(createLowerRedistributions());
    layouts.addPass(createBucketCollectives());
    if (failed(layouts.run(*module)))
      return "";
    return comparePlan(*module, inputs, parameters, expected);
  }

  MLIRContext context;
  std::string error;
};

int64_t fromEnvironment(const char *name, int64_t otherwise) {
  const char *text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

TEST_F(LayoutProperty, StepEqualsUnsplitModel) {
  int64_t wanted = fromEnvironment("PLUMB_LAYOUT_CASES", 500), seed = fromEnvironment("PLUMB_LAYOUT_SEED", 1);
  int64_t accepted = 0, rejected = 0;
  for (; accepted < wanted; ++seed) {
    std::string text = Generator(static_cast<unsigned>(seed)).write();
    std::string difference = check(text, static_cast<unsigned>(seed));
    ASSERT_EQ(difference, "") << "seed " << seed << "\n" << text;
    bool isRejected = !error.empty();
    accepted += !isRejected;
    rejected += isRejected;
    // A plan is rejected because sizes do not divide, because nothing reads a module whose port it names,
    // because a port cuts the batch so far that no row is left for each microbatch, or because no output
    // needs what a stage computes or a parameter that could be stored.
    bool isDue = error.find("divide") != std::string::npos ||
                 error.find("no such ports") != std::string::npos ||
                 error.find("not walked in microbatches") != std::string::npos ||
                 error.find("makes in microbatches") != std::string::npos ||
                 error.find("add split points") != std::string::npos ||
                 error.find("matches none of 0 parameters") != std::string::npos ||
                 error.find("blocks are sharded, which is not supported") != std::string::npos;
    ASSERT_TRUE(!isRejected || isDue) << "seed " << seed << ": " << error << "\n" << text;
    ASSERT_LE(rejected, wanted) << "most plans are rejected, the last: " << error;
  }
}

} // namespace
} // namespace plumb::test
