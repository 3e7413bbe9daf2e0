//===- PlanEvaluator.cpp - Runs a step on all ranks of a mesh --------------===//

#include "PlanEvaluator.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Transforms/Utils.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <numeric>

using namespace mlir;

namespace plumb::test {

//===----------------------------------------------------------------------===//
// Arrays
//===----------------------------------------------------------------------===//

static int64_t countOf(const Shape &shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

static Shape indexOf(const Shape &shape, int64_t linear) {
  Shape index(shape.size());
  for (size_t dim = shape.size(); dim-- > 0; linear /= shape[dim])
    index[dim] = linear % shape[dim];
  return index;
}

static int64_t linearOf(const Shape &shape, const Shape &index) {
  int64_t linear = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim)
    linear = linear * shape[dim] + index[dim];
  return linear;
}

Array::Array(Shape shape) : shape(std::move(shape)), values(countOf(this->shape)) {}

double Array::at(const Shape &index) const {
  int64_t linear = 0;
  for (size_t dim = 0, added = index.size() - shape.size(); dim < shape.size(); ++dim)
    linear = linear * shape[dim] + (shape[dim] == 1 ? 0 : index[added + dim]);
  return values[linear];
}

static Shape shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape().vec(); }

static Array generate(Shape shape, llvm::function_ref<double(const Shape &)> element) {
  Array array(std::move(shape));
  for (size_t linear = 0; linear < array.values.size(); ++linear)
    array.values[linear] = element(indexOf(array.shape, static_cast<int64_t>(linear)));
  return array;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

static Array evaluateEinsum(nn::EinsumOp op, const Array &lhs, const Array &rhs) {
  auto [operands, result] = op.getEquation().split("->");
  auto [left, right] = operands.split(',');
  std::string letters = (left + right).str();
  std::map<char, int64_t> sizes;
  for (auto [letter, size] : llvm::zip(left, lhs.shape))
    sizes[letter] = size;
  for (auto [letter, size] : llvm::zip(right, rhs.shape))
    sizes[letter] = size;
  std::string loops;
  Shape extents;
  for (auto [letter, size] : sizes) {
    loops += letter;
    extents.push_back(size);
  }
  auto pick = [&](StringRef names, const Shape &index) {
    Shape picked;
    for (char name : names)
      picked.push_back(index[loops.find(name)]);
    return picked;
  };
  Array array(shapeOf(op));
  for (int64_t point = 0; point < countOf(extents); ++point) {
    Shape index = indexOf(extents, point);
    array.values[linearOf(array.shape, pick(result, index))] +=
        lhs.at(pick(left, index)) * rhs.at(pick(right, index));
  }
  return array;
}

/// Reduces over dims, which the result lacks or has with size 1.
static Array evaluateReduction(Value result, const Array &input, ArrayRef<int64_t> dims, double first,
                               llvm::function_ref<double(double, double)> combine) {
  Shape kept = input.shape;
  for (int64_t dim : dims)
    kept[dim] = 1;
  Array array(kept);
  array.values.assign(array.values.size(), first);
  for (size_t linear = 0; linear < input.values.size(); ++linear) {
    Shape index = indexOf(input.shape, static_cast<int64_t>(linear));
    for (int64_t dim : dims)
      index[dim] = 0;
    double &value = array.values[linearOf(kept, index)];
    value = combine(value, input.values[linear]);
  }
  array.shape = shapeOf(result);
  return array;
}

/// Joins arrays along a dim.
static Array join(ArrayRef<const Array *> pieces, int64_t dim, Shape shape) {
  Array whole(std::move(shape));
  int64_t offset = 0;
  for (const Array *piece : pieces) {
    for (size_t linear = 0; linear < piece->values.size(); ++linear) {
      Shape index = indexOf(piece->shape, static_cast<int64_t>(linear));
      index[dim] += offset;
      whole.values[linearOf(whole.shape, index)] = piece->values[linear];
    }
    offset += piece->shape[dim];
  }
  return whole;
}

/// The indices of tables: the dims that count tables, then the row.
static Shape rowOf(const Array &indices, const Shape &index, const Array &table) {
  Shape place(index.begin(), index.begin() + static_cast<int64_t>(table.shape.size()) - 2);
  auto row = static_cast<int64_t>(indices.at(index));
  place.push_back(std::clamp<int64_t>(row, 0, table.shape[table.shape.size() - 2] - 1));
  return place;
}

static Array evaluateEmbedding(Value result, const Array &table, const Array &indices) {
  return generate(shapeOf(result), [&](const Shape &index) {
    Shape place = rowOf(indices, Shape(index.begin(), index.end() - 1), table);
    place.push_back(index.back());
    return table.at(place);
  });
}

static Array evaluateEmbeddingBackward(Value result, const Array &cotangent, const Array &indices) {
  Array table(shapeOf(result));
  for (size_t linear = 0; linear < cotangent.values.size(); ++linear) {
    Shape index = indexOf(cotangent.shape, static_cast<int64_t>(linear));
    Shape place = rowOf(indices, Shape(index.begin(), index.end() - 1), table);
    place.push_back(index.back());
    table.values[linearOf(table.shape, place)] += cotangent.values[linear];
  }
  return table;
}

using Operands = ArrayRef<const Array *>;
using Row = MutableArrayRef<double>;

/// Calls `visit` with the number of each row, of the last dim, and the rows of all arrays.
static void forRows(MutableArrayRef<Array> arrays,
                    llvm::function_ref<void(int64_t number, ArrayRef<Row> rows)> visit) {
  int64_t width = arrays[0].shape.back(), count = countOf(arrays[0].shape) / width;
  for (int64_t number = 0; number < count; ++number) {
    SmallVector<Row> rows;
    for (Array &array : arrays) {
      int64_t own = static_cast<int64_t>(array.values.size()) / count;
      rows.push_back(Row(array.values).slice(number * own, own));
    }
    visit(number, rows);
  }
}

static double sumOf(ArrayRef<double> row) { return std::accumulate(row.begin(), row.end(), 0.0); }

static double dot(ArrayRef<double> a, ArrayRef<double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

static std::vector<Array> evaluateSoftmax(const Array &scores, bool causal) {
  std::vector<Array> arrays{scores};
  forRows(arrays, [&](int64_t number, ArrayRef<Row> rows) {
    Row row = rows[0];
    int64_t seen = causal ? number % scores.shape[scores.shape.size() - 2] + 1 : scores.shape.back();
    double largest = *llvm::max_element(row.take_front(seen));
    for (auto [position, value] : llvm::enumerate(row))
      value = static_cast<int64_t>(position) < seen ? std::exp(value - largest) : 0;
    double sum = sumOf(row);
    for (double &value : row)
      value /= sum;
  });
  return arrays;
}

static std::vector<Array> evaluateSoftmaxBackward(const Array &cotangent, const Array &probabilities) {
  std::vector<Array> arrays{cotangent, probabilities};
  forRows(arrays, [](int64_t, ArrayRef<Row> rows) {
    double sum = dot(rows[0], rows[1]);
    for (auto [value, p] : llvm::zip(rows[0], rows[1]))
      value = p * (value - sum);
  });
  return {arrays[0]};
}

/// Over the last dim alone.
static std::vector<Array> evaluateNormalize(const Array &input, double eps, bool uncentered) {
  Array scales(Shape(input.shape.begin(), input.shape.end() - 1));
  std::vector<Array> arrays{input, scales};
  forRows(arrays, [&](int64_t, ArrayRef<Row> rows) {
    auto width = static_cast<double>(rows[0].size());
    double mean = uncentered ? 0 : sumOf(rows[0]) / width;
    for (double &value : rows[0])
      value -= mean;
    rows[1][0] = 1 / std::sqrt(dot(rows[0], rows[0]) / width + eps);
    for (double &value : rows[0])
      value *= rows[1][0];
  });
  return arrays;
}

static std::vector<Array> evaluateNormalizeBackward(Operands in, bool uncentered) {
  std::vector<Array> arrays{*in[0], *in[1], *in[2]};
  forRows(arrays, [&](int64_t, ArrayRef<Row> rows) {
    auto width = static_cast<double>(rows[0].size());
    double mean = uncentered ? 0 : sumOf(rows[0]) / width, along = dot(rows[0], rows[1]) / width;
    for (auto [value, normalized] : llvm::zip(rows[0], rows[1]))
      value = rows[2][0] * (value - mean - normalized * along);
  });
  return {arrays[0]};
}

static std::vector<Array> evaluateCrossEntropy(const Array &logits, const Array &targets, double ignored) {
  std::vector<Array> arrays{logits, targets, Array(targets.shape), Array(targets.shape)};
  forRows(arrays, [&](int64_t, ArrayRef<Row> rows) {
    double largest = *llvm::max_element(rows[0]), sum = 0, target = rows[1][0];
    for (double value : rows[0])
      sum += std::exp(value - largest);
    rows[3][0] = std::log(sum) + largest;
    rows[2][0] = target == ignored ? 0 : rows[3][0] - rows[0][static_cast<size_t>(target)];
  });
  return {arrays[2], arrays[3]};
}

static std::vector<Array> evaluateCrossEntropyBackward(Operands in, double ignored) {
  std::vector<Array> arrays{*in[1], *in[0], *in[2], *in[3]};
  forRows(arrays, [&](int64_t, ArrayRef<Row> rows) {
    for (auto [position, value] : llvm::enumerate(rows[0])) {
      double hit = static_cast<double>(position) == rows[2][0];
      value = rows[2][0] == ignored ? 0 : (std::exp(value - rows[3][0]) - hit) * rows[1][0];
    }
  });
  return {arrays[0]};
}

/// Elementwise ops: the formula on broadcast operands.
static std::function<double(ArrayRef<double>)> formulaOf(Operation *op) {
  using F = std::function<double(ArrayRef<double>)>;
  return llvm::TypeSwitch<Operation *, F>(op)
      .Case<nn::AddOp>([](auto) -> F { return [](ArrayRef<double> x) { return x[0] + x[1]; }; })
      .Case<nn::SubOp>([](auto) -> F { return [](ArrayRef<double> x) { return x[0] - x[1]; }; })
      .Case<nn::MulOp>([](auto) -> F { return [](ArrayRef<double> x) { return x[0] * x[1]; }; })
      .Case<nn::DivOp>([](auto) -> F { return [](ArrayRef<double> x) { return x[0] / x[1]; }; })
      .Case<nn::EqualOp>([](auto) -> F { return [](ArrayRef<double> x) { return x[0] == x[1]; }; })
      .Case<nn::ExpOp>([](auto) -> F { return [](ArrayRef<double> x) { return std::exp(x[0]); }; })
      .Case<nn::LogOp>([](auto) -> F { return [](ArrayRef<double> x) { return std::log(x[0]); }; })
      .Case<nn::TanhOp>([](auto) -> F { return [](ArrayRef<double> x) { return std::tanh(x[0]); }; })
      .Case<nn::TanhBackwardOp>(
          [](auto) -> F { return [](ArrayRef<double> x) { return x[0] * (1 - x[1] * x[1]); }; })
      .Case<nn::IsValidOp>([](nn::IsValidOp valid) -> F {
        auto ignored = static_cast<double>(valid->getAttrOfType<IntegerAttr>("ignore_index").getInt());
        return [ignored](ArrayRef<double> x) { return x[0] != ignored; };
      })
      .Case<nn::ReluOp>([](auto) -> F { return [](ArrayRef<double> x) { return std::max(x[0], 0.0); }; })
      .Case<nn::ReluBackwardOp>(
          [](auto) -> F { return [](ArrayRef<double> x) { return x[1] > 0 ? x[0] : 0; }; })
      .Case<nn::LessOp>([](auto) -> F { return [](ArrayRef<double> x) { return x[0] < x[1]; }; })
      .Case<nn::LessEqualOp>([](auto) -> F { return [](ArrayRef<double> x) { return x[0] <= x[1]; }; })
      .Case<nn::WhereOp>([](auto) -> F { return [](ArrayRef<double> x) { return x[0] != 0 ? x[1] : x[2]; }; })
      .Case<nn::ConvertOp, nn::BroadcastOp>([](auto) -> F { return [](ArrayRef<double> x) { return x[0]; }; })
      .Case<nn::ScaleOp>([](nn::ScaleOp scale) -> F {
        double factor = cast<FloatAttr>(scale->getAttr("factor")).getValueAsDouble();
        return [factor](ArrayRef<double> x) { return x[0] * factor; };
      })
      .Case<nn::SgdOp>([](auto) -> F { return [](ArrayRef<double> x) { return x[0] - x[2] * x[1]; }; })
      .Case<nn::FillOp>([](nn::FillOp fill) -> F {
        double value = fill.getValue().convertToDouble();
        return [value](ArrayRef<double>) { return value; };
      })
      .Default([](Operation *) { return F(); });
}

static std::vector<Array> evaluateOp(Operation *op, Operands in) {
  if (auto formula = formulaOf(op))
    return {generate(shapeOf(op->getResult(0)), [&](const Shape &index) {
      SmallVector<double> x;
      for (const Array *operand : in)
        x.push_back(operand->at(index));
      return formula(x);
    })};
  using R = std::vector<Array>;
  return llvm::TypeSwitch<Operation *, R>(op)
      .Case<nn::EinsumOp>([&](auto einsum) -> R { return {evaluateEinsum(einsum, *in[0], *in[1])}; })
      .Case<nn::SumOp>([&](auto sum) -> R {
        return {evaluateReduction(sum, *in[0], sum.getDims(), 0, std::plus<double>())};
      })
      .Case<nn::MaxOp>([&](auto max) -> R {
        return {evaluateReduction(max, *in[0], max.getDims(), -std::numeric_limits<double>::infinity(),
                                  [](double a, double b) { return std::max(a, b); })};
      })
      .Case<nn::SoftmaxOp>([&](auto softmax) -> R { return evaluateSoftmax(*in[0], softmax.getCausal()); })
      .Case<nn::SoftmaxBackwardOp>([&](auto) -> R { return evaluateSoftmaxBackward(*in[0], *in[1]); })
      .Case<nn::NormalizeOp>([&](auto norm) -> R {
        return evaluateNormalize(*in[0], norm.getEps().convertToDouble(), norm.getUncentered());
      })
      .Case<nn::NormalizeBackwardOp>(
          [&](auto norm) -> R { return evaluateNormalizeBackward(in, norm.getUncentered()); })
      .Case<nn::CrossEntropyOp>([&](auto loss) -> R {
        return evaluateCrossEntropy(*in[0], *in[1], static_cast<double>(loss.getIgnoreIndex()));
      })
      .Case<nn::CrossEntropyBackwardOp>([&](auto loss) -> R {
        return evaluateCrossEntropyBackward(in, static_cast<double>(loss.getIgnoreIndex()));
      })
      .Case<nn::ViewOp>([&](auto view) -> R {
        Array array = *in[0];
        array.shape = shapeOf(view);
        return {array};
      })
      .Case<nn::TransposeOp>([&](auto transpose) -> R {
        return {generate(shapeOf(transpose), [&](const Shape &index) {
          Shape source(index.size());
          for (auto [dim, from] : llvm::enumerate(transpose.getPermutation()))
            source[from] = index[dim];
          return in[0]->at(source);
        })};
      })
      .Case<nn::SplitOp>([&](auto split) -> R {
        R pieces;
        int64_t offset = 0, dim = split.getDim();
        for (Value piece : split->getResults()) {
          pieces.push_back(generate(shapeOf(piece), [&](Shape index) {
            index[dim] += offset;
            return in[0]->at(index);
          }));
          offset += shapeOf(piece)[dim];
        }
        return pieces;
      })
      .Case<nn::CatOp>([&](auto cat) -> R { return {join(in, cat.getDim(), shapeOf(cat))}; })
      .Case<ccl::RotateOp>([&](auto rotate) -> R {
        auto dim = static_cast<size_t>(rotate.getDim());
        int64_t size = in[0]->shape[dim], by = static_cast<int64_t>(rotate.getBy());
        return {generate(shapeOf(rotate), [&](Shape index) {
          index[dim] = ((index[dim] - by) % size + size) % size;
          return in[0]->at(index);
        })};
      })
      .Case<nn::IotaOp>([&](auto iota) -> R {
        return {generate(shapeOf(iota), [&](const Shape &index) {
          return static_cast<double>(iota.getStart() + iota.getStep() * index[0]);
        })};
      })
      .Case<nn::EmbeddingOp>([&](auto look) -> R { return {evaluateEmbedding(look, *in[0], *in[1])}; })
      .Case<nn::EmbeddingBackwardOp>(
          [&](auto back) -> R { return {evaluateEmbeddingBackward(back, *in[0], *in[1])}; })
      .Default([&](Operation *unknown) -> R {
        llvm::report_fatal_error(Twine("the evaluator does not know ") + unknown->getName().getStringRef());
      });
}

//===----------------------------------------------------------------------===//
// Ranks and their parts
//===----------------------------------------------------------------------===//

namespace {
/// Coordinates of ranks on the axes of the mesh, and of a microbatch.
struct World {
  std::vector<std::string> names;
  Shape sizes;
  int64_t microbatches = 1;

  explicit World(ModuleOp module) : microbatches(getMicrobatches(module)) {
    auto mesh = findOp<MeshOp>(module);
    for (auto [name, size] : llvm::zip(mesh.getAxes().getAsValueRange<StringAttr>(), mesh.getSizes())) {
      names.push_back(name.str());
      sizes.push_back(size);
    }
  }

  int64_t ranks() const { return countOf(sizes); }

  static constexpr int64_t padding = -1;

  int64_t coordinate(int64_t rank, StringRef name) const {
    auto found = llvm::find(names, name);
    return found == names.end() ? 0 : indexOf(sizes, rank)[found - names.begin()];
  }

  /// The part of a global tensor that a rank has of one microbatch. Where parts differ in size, what is
  /// behind a smaller one is no number: nothing may depend on it.
  Array part(const Array &whole, LayoutAttr layout, int64_t rank, int64_t microbatch) const {
    std::vector<std::vector<int64_t>> rows(whole.shape.size());
    Shape shape;
    for (auto [dim, sharding] : llvm::enumerate(layout.getDims())) {
      int64_t next = 0;
      for (int64_t block : sharding.getBlockSizes(whole.shape[dim])) {
        int64_t begin = next, count = block, end = next += block;
        for (AxisRefAttr axis : sharding.getAxes()) {
          auto [parts, index] = digit(axis, rank, microbatch);
          count = (count + parts - 1) / parts;
          begin += index * count;
          end = std::min(end, begin + count);
        }
        for (int64_t row = 0; row < count; ++row)
          rows[dim].push_back(begin + row < end ? begin + row : padding);
      }
      shape.push_back(static_cast<int64_t>(rows[dim].size()));
    }
    return generate(shape, [&](Shape index) {
      for (size_t dim = 0; dim < index.size(); ++dim) {
        index[dim] = rows[dim][index[dim]];
        if (index[dim] == padding)
          return std::numeric_limits<double>::quiet_NaN();
      }
      return whole.at(index);
    });
  }

  std::pair<int64_t, int64_t> digit(AxisRefAttr axis, int64_t rank, int64_t microbatch) const {
    StringRef name = axis.getName().getValue();
    if (name == kMicrobatchAxis)
      return {microbatches, microbatch};
    int64_t size = sizes[llvm::find(names, name) - names.begin()], index = coordinate(rank, name);
    if (axis.isWhole())
      return {size, index};
    int64_t inner = size / (axis.getPreSize() * axis.getSize());
    return {axis.getSize(), index / inner % axis.getSize()};
  }

  /// The number of a rank along the given axes, the first of which is outermost.
  int64_t position(int64_t rank, ArrayAttr axes) const {
    int64_t result = 0;
    for (const ccl::Axis &axis : ccl::parseAxes(axes)) {
      auto [parts, index, stride] = digitOf(axis, rank);
      result = result * parts + index;
    }
    return result;
  }

  /// The ranks that differ from `rank` along the given axes alone, in the order of their numbers.
  std::vector<int64_t> group(int64_t rank, ArrayAttr axes) const {
    std::vector<int64_t> members;
    for (int64_t other = 0; other < ranks(); ++other)
      if (outside(other, axes) == outside(rank, axes))
        members.push_back(other);
    llvm::sort(members, [&](int64_t a, int64_t b) { return position(a, axes) < position(b, axes); });
    return members;
  }

private:
  /// Parts, digit of the rank, and its weight in the coordinate.
  std::tuple<int64_t, int64_t, int64_t> digitOf(const ccl::Axis &axis, int64_t rank) const {
    int64_t size = sizes[llvm::find(names, axis.name) - names.begin()];
    int64_t parts = axis.isWhole() ? size : axis.size, inner = size / (axis.preSize * parts);
    return {parts, coordinate(rank, axis.name) / inner % parts, inner};
  }

  /// The coordinates without the digits of the given axes.
  Shape outside(int64_t rank, ArrayAttr axes) const {
    Shape index = indexOf(sizes, rank);
    for (const ccl::Axis &axis : ccl::parseAxes(axes)) {
      auto [parts, digit, weight] = digitOf(axis, rank);
      index[llvm::find(names, axis.name) - names.begin()] -= digit * weight;
    }
    return index;
  }
};

using PerRank = std::vector<Array>;

/// Runs all stages on all ranks, whatever their coordinate on the pipeline axis: no two stages share a
/// parameter.
class PlanRunner {
public:
  PlanRunner(ModuleOp module, const Tensors &inputs, const Tensors &parameters, const Tensors &expected)
      : module(module), world(module), inputs(inputs), expected(expected) {
    for (ParameterOp parameter : module.getOps<ParameterOp>())
      for (int64_t rank = 0; rank < world.ranks(); ++rank)
        symbols[parameter.getSymName().str()].push_back(
            world.part(parameters.at(parameter.getSymName().str()), *parameter.getLayout(), rank, 0));
    for (StateOp state : module.getOps<StateOp>())
      states[state.getSymName().str()] = state;
  }

  std::string run() {
    SmallVector<StageOp> stages(module.getOps<StageOp>());
    llvm::sort(stages, [](StageOp a, StageOp b) { return a.getIndex() < b.getIndex(); });
    SmallVector<StageOp> reversed(llvm::reverse(stages));
    auto runPhases = [&](ArrayRef<StageOp> order, ArrayRef<Phase> phases, int64_t microbatch) {
      for (StageOp stage : order)
        for (Operation &op : stage.getBody().front())
          if (llvm::is_contained(phases, getPhase(&op)) && difference.empty())
            execute(op, microbatch);
    };
    for (int64_t microbatch = 0; microbatch < world.microbatches; ++microbatch)
      runPhases(stages, {Phase::Prologue}, microbatch);
    runPhases(stages, {Phase::Begin}, 0);
    for (int64_t microbatch = 0; microbatch < world.microbatches; ++microbatch) {
      runPhases(stages, {Phase::Forward}, microbatch);
      runPhases(reversed, {Phase::BackwardInput, Phase::BackwardWeight}, microbatch);
    }
    runPhases(stages, {Phase::Reduce}, 0);
    runPhases(stages, {Phase::Update}, 0);
    for (ParameterOp parameter : module.getOps<ParameterOp>())
      compare(parameter.getSymName(), *parameter.getLayout(), 0);
    for (auto &[name, state] : states)
      if (expected.count(name) && !state.getLayoutAttr().isShardedOver(kMicrobatchAxis))
        compare(name, state.getLayoutAttr(), 0);
    return difference;
  }

private:
  void execute(Operation &op, int64_t microbatch) {
    if (auto load = dyn_cast<LoadOp>(op)) {
      values[load.getResult()] = stateOf(load.getSymbol(), shapeOf(load.getResult()));
    } else if (auto store = dyn_cast<StoreOp>(op)) {
      symbols[store.getSymbol().str()] = values.at(store.getValue());
      if (auto state = states.find(store.getSymbol().str());
          state != states.end() && state->second.getLayoutAttr().isShardedOver(kMicrobatchAxis))
        compare(store.getSymbol(), state->second.getLayoutAttr(), microbatch);
    } else if (auto input = dyn_cast<InputOp>(op)) {
      PerRank parts;
      for (int64_t rank = 0; rank < world.ranks(); ++rank)
        parts.push_back(
            world.part(inputs.at(input.getName().str()), getLayout(input.getResult()), rank, microbatch));
      values[input.getResult()] = parts;
    } else if (auto send = dyn_cast<ccl::SendOp>(op)) {
      sent[{send.getCommunicator(), getPhase(send)}].push_back(values.at(send.getValue()));
    } else if (auto recv = dyn_cast<ccl::RecvOp>(op)) {
      auto &channel = sent[{recv.getCommunicator(), getPhase(recv)}];
      values[recv.getResult()] = channel.front();
      channel.pop_front();
    } else if (isa<nn::TensorOpInterface>(op)) {
      compute(op);
    } else {
      communicate(op);
    }
  }

  PerRank stateOf(StringRef name, const Shape &shape) {
    auto [entry, isNew] = symbols.try_emplace(name.str());
    if (isNew)
      entry->second.assign(world.ranks(), Array(shape));
    return entry->second;
  }

  void compute(Operation &op) {
    std::vector<PerRank> results(op.getNumResults());
    for (int64_t rank = 0; rank < world.ranks(); ++rank) {
      SmallVector<const Array *> operands;
      for (Value operand : op.getOperands())
        operands.push_back(&values.at(operand)[rank]);
      std::vector<Array> made = evaluateOp(&op, operands);
      for (auto [list, array] : llvm::zip(results, made))
        list.push_back(std::move(array));
    }
    for (auto [result, list] : llvm::zip(op.getResults(), results))
      values[result] = std::move(list);
  }

  /// Collectives by their definition: buffers have a leading dim of the members.
  void communicate(Operation &op) {
    for (auto [input, output] : llvm::zip(op.getOperands(), op.getResults()))
      communicate(op, values.at(input), output);
  }

  void communicate(Operation &op, const PerRank &in, Value result) {
    PerRank out;
    for (int64_t rank = 0; rank < world.ranks(); ++rank) {
      Array array(shapeOf(result));
      if (auto slice = dyn_cast<ccl::SliceOp>(op)) {
        int64_t position = positionOf(rank, slice.getAxes()), count = array.values.size();
        if ((position + 1) * count > static_cast<int64_t>(in[rank].values.size())) {
          difference = "a slice has less than it takes";
          return;
        }
        std::copy_n(in[rank].values.begin() + position * count, count, array.values.begin());
      } else if (auto keep = dyn_cast<ccl::KeepFirstOp>(op)) {
        if (positionOf(rank, keep.getAxes()) == 0)
          array = in[rank];
      } else if (auto extract = dyn_cast<ccl::ExtractOp>(op)) {
        moveBlocks(in[rank], positionOf(rank, extract.getAxes()), array,
                   [&](int64_t large, int64_t small) { array.values[small] = in[rank].values[large]; });
      } else if (auto insert = dyn_cast<ccl::InsertOp>(op)) {
        moveBlocks(array, positionOf(rank, insert.getAxes()), in[rank],
                   [&](int64_t large, int64_t small) { array.values[large] = in[rank].values[small]; });
      } else if (auto copy = dyn_cast<ccl::CopyOp>(op)) {
        copyPieces(copy, rank, array);
      } else if (auto transfer = dyn_cast<ccl::ExchangeOp>(op)) {
        exchange(transfer, rank, in, array);
      } else {
        collect(op, rank, in, array);
      }
      out.push_back(std::move(array));
    }
    values[result] = std::move(out);
  }

  int64_t positionOf(int64_t rank, ArrayAttr axes) { return world.position(rank, axes); }

  /// Blocks along the second dim of the larger tensor.
  static void moveBlocks(const Array &large, int64_t position, const Array &small,
                         llvm::function_ref<void(int64_t large, int64_t small)> move) {
    for (int64_t i = 0; i < countOf(small.shape); ++i) {
      int64_t rest = countOf(Shape(large.shape.begin() + 2, large.shape.end()));
      move((i / rest * large.shape[1] + position) * rest + i % rest, i);
    }
  }

  void copyPieces(ccl::CopyOp op, int64_t rank, Array &array) {
    int64_t member = positionOf(rank, op.getAxes());
    for (auto [input, list] : llvm::zip(op.getInputs(), op.getPieces().getAsRange<ArrayAttr>())) {
      const std::vector<double> &source = values.at(input)[rank].values;
      ArrayRef<int64_t> pieces = cast<DenseI64ArrayAttr>(list[member]).asArrayRef();
      for (; !pieces.empty(); pieces = pieces.drop_front(6))
        for (int64_t row = 0; row < pieces[3]; ++row)
          std::copy_n(source.begin() + pieces[0] + row * pieces[4], pieces[2],
                      array.values.begin() + pieces[1] + row * pieces[5]);
    }
  }

  void exchange(ccl::ExchangeOp op, int64_t rank, const PerRank &in, Array &array) {
    ArrayAttr axes =
        cast<ccl::CommunicatorOp>(SymbolTable::lookupSymbolIn(module, op.getCommunicatorAttr())).getAxes();
    std::vector<int64_t> members = world.group(rank, axes);
    int64_t own = positionOf(rank, axes);
    ArrayRef<int64_t> receives = cast<DenseI64ArrayAttr>(op.getReceives()[own]).asArrayRef();
    for (; !receives.empty(); receives = receives.drop_front(3)) {
      ArrayRef<int64_t> sends = cast<DenseI64ArrayAttr>(op.getSends()[receives[0]]).asArrayRef();
      for (; !sends.empty(); sends = sends.drop_front(3))
        if (sends[0] == own)
          std::copy_n(in[members[receives[0]]].values.begin() + sends[1], sends[2],
                      array.values.begin() + receives[1]);
    }
  }

  void collect(Operation &op, int64_t rank, const PerRank &in, Array &array) {
    auto symbol = op.getAttrOfType<FlatSymbolRefAttr>("communicator");
    ArrayAttr axes = cast<ccl::CommunicatorOp>(SymbolTable::lookupSymbolIn(module, symbol)).getAxes();
    std::vector<int64_t> members = world.group(rank, axes);
    int64_t own = positionOf(rank, axes), count = array.values.size();
    auto size = static_cast<int64_t>(members.size());
    auto sent = static_cast<int64_t>(in[rank].values.size());
    int64_t wanted = isa<ccl::AllGatherOp>(op)       ? sent * size
                     : isa<ccl::ReduceScatterOp>(op) ? sent / size
                                                     : sent;
    if (count != wanted) {
      difference = "a collective over " + std::to_string(size) + " ranks makes " + std::to_string(count) +
                   " elements of " + std::to_string(sent);
      return;
    }
    for (auto [number, member] : llvm::enumerate(members)) {
      const std::vector<double> &source = in[member].values;
      if (isa<ccl::AllReduceOp>(op)) {
        for (int64_t i = 0; i < count; ++i)
          array.values[i] += source[i];
      } else if (isa<ccl::ReduceScatterOp>(op)) {
        for (int64_t i = 0; i < count; ++i)
          array.values[i] += source[own * count + i];
      } else if (isa<ccl::AllGatherOp>(op)) {
        std::copy(source.begin(), source.end(), array.values.begin() + number * source.size());
      } else {
        int64_t block = count / static_cast<int64_t>(members.size());
        std::copy_n(source.begin() + own * block, block, array.values.begin() + number * block);
      }
    }
  }

  void compare(StringRef name, LayoutAttr layout, int64_t microbatch) {
    for (int64_t rank = 0; rank < world.ranks() && difference.empty(); ++rank) {
      Array wanted = world.part(expected.at(name.str()), layout, rank, microbatch);
      const Array &got = symbols.at(name.str())[rank];
      if (got.shape != wanted.shape)
        difference = (name + " has another shape on rank " + Twine(rank)).str();
      for (size_t i = 0; i < wanted.values.size() && difference.empty(); ++i)
        if (!std::isnan(wanted.values[i]) &&
            !(std::abs(got.values[i] - wanted.values[i]) <= 1e-9 * std::max(1.0, std::abs(wanted.values[i]))))
          difference = (name + "[" + Twine(i) + "] is " + Twine(std::to_string(got.values[i])) +
                        " instead of " + Twine(std::to_string(wanted.values[i])) + " on rank " + Twine(rank))
                           .str();
    }
  }

  ModuleOp module;
  World world;
  const Tensors &inputs, &expected;
  std::map<std::string, PerRank> symbols;
  std::map<std::string, StateOp> states;
  llvm::DenseMap<Value, PerRank> values;
  std::map<std::pair<StringRef, Phase>, std::deque<PerRank>> sent; ///< And not received yet.
  std::string difference;
};
} // namespace

Tensors runProgram(ModuleOp module, const Tensors &inputs, const Tensors &parameters) {
  Tensors symbols = parameters;
  llvm::DenseMap<Value, Array> values;
  for (Operation &op : *findOp<ProgramOp>(module).getBody().begin()) {
    if (auto load = dyn_cast<LoadOp>(op)) {
      values[load.getResult()] = symbols.at(load.getSymbol().str());
    } else if (auto store = dyn_cast<StoreOp>(op)) {
      symbols[store.getSymbol().str()] = values.at(store.getValue());
    } else if (auto accumulate = dyn_cast<AccumulateOp>(op)) {
      const Array &term = values.at(accumulate.getValue());
      Array &sum = symbols.try_emplace(accumulate.getSymbol().str(), Array(term.shape)).first->second;
      for (size_t i = 0; i < term.values.size(); ++i)
        sum.values[i] += term.values[i];
    } else if (auto input = dyn_cast<InputOp>(op)) {
      values[input.getResult()] = inputs.at(input.getName().str());
    } else if (isa<BoundaryOp>(op)) {
      Array input = values.at(op.getOperand(0)); // Not where the new entry may move it from.
      values[op.getResult(0)] = std::move(input);
    } else {
      SmallVector<const Array *> operands;
      for (Value operand : op.getOperands())
        operands.push_back(&values.at(operand));
      std::vector<Array> results = evaluateOp(&op, operands);
      for (auto [result, array] : llvm::zip(op.getResults(), results))
        values[result] = array;
    }
  }
  return symbols;
}

std::string comparePlan(ModuleOp module, const Tensors &inputs, const Tensors &parameters,
                        const Tensors &expected) {
  return PlanRunner(module, inputs, parameters, expected).run();
}

} // namespace plumb::test
