//===- ImportRecurrent.cpp - LSTM, GRU and plain recurrent networks -----------===//
//
// A recurrence is unrolled: one cell for each position of the sequence. The product of all inputs with the
// weights stands before the loop, since it does not depend on the state. In training, dropout lies between
// layers, and not behind the last.
//
//===----------------------------------------------------------------------===//

#include "AtenTargets.h"
#include "ImportSupport.h"

using namespace mlir;

namespace plumb {

namespace {

/// Weights of one layer in one direction, and its biases if it has them.
struct Weights {
  Value input, hidden, inputBias, hiddenBias;
};

/// Hidden state, and cell state of an LSTM; (batch, features).
struct State {
  Value hidden, cell;
};

using Cell = State (*)(NodeBuilder &, Value gates, const State &state, const Weights &weights);

} // namespace

static Value withBias(NodeBuilder &node, Value value, Value bias) {
  return bias ? add(node, value, bias) : value;
}

static Value linear(NodeBuilder &node, Value rows, Value weight, Value bias) {
  return withBias(node, einsum(node, "bi,oi->bo", rows, weight), bias);
}

static Value piece(NodeBuilder &node, Value gates, int64_t index, int64_t count) {
  int64_t size = shapeOf(gates)[1] / count;
  return sliceOf(node, gates, 1, index * size, size);
}

/// i, f, g, o = pieces of the gates; c' = f c + i g; h' = o tanh(c').
static State lstmCell(NodeBuilder &node, Value gates, const State &state, const Weights &weights) {
  Value all = add(node, gates, linear(node, state.hidden, weights.hidden, weights.hiddenBias));
  auto gate = [&](int64_t index) { return apply<nn::SigmoidOp>(node, piece(node, all, index, 4)); };
  Value candidate = apply<nn::TanhOp>(node, piece(node, all, 2, 4));
  Value cell = add(node, multiply(node, gate(1), state.cell), multiply(node, gate(0), candidate));
  return {multiply(node, gate(3), apply<nn::TanhOp>(node, cell)), cell};
}

/// r, z, n; n = tanh(x_n + r h_n); h' = (1 − z) n + z h.
static State gruCell(NodeBuilder &node, Value gates, const State &state, const Weights &weights) {
  Value hidden = linear(node, state.hidden, weights.hidden, weights.hiddenBias);
  auto gate = [&](int64_t index) {
    return apply<nn::SigmoidOp>(node, add(node, piece(node, gates, index, 3), piece(node, hidden, index, 3)));
  };
  Value inner = multiply(node, gate(0), piece(node, hidden, 2, 3));
  Value candidate = apply<nn::TanhOp>(node, add(node, piece(node, gates, 2, 3), inner));
  Value kept = multiply(node, gate(1), subtract(node, state.hidden, candidate));
  return {add(node, candidate, kept), Value()};
}

template <typename Activation>
static State plainCell(NodeBuilder &node, Value gates, const State &state, const Weights &weights) {
  Value sum = add(node, gates, linear(node, state.hidden, weights.hidden, weights.hiddenBias));
  return {apply<Activation>(node, sum), Value()};
}

//===-- Sequences ---------------------------------------------------------===//

/// One layer in one direction over (time, batch, features): its outputs, and the last state.
static std::pair<Value, State> runLayer(NodeBuilder &node, Value sequence, State state,
                                        const Weights &weights, Cell cell, bool backwards) {
  Value gates = withBias(node, einsum(node, "tbi,oi->tbo", sequence, weights.input), weights.inputBias);
  int64_t steps = shapeOf(gates)[0], batch = shapeOf(gates)[1], size = shapeOf(gates)[2];
  SmallVector<Value> outputs(steps);
  for (int64_t step = 0; step < steps; ++step) {
    int64_t at = backwards ? steps - 1 - step : step;
    state = cell(node, viewAs(node, sliceOf(node, gates, 0, at, 1), {batch, size}), state, weights);
    outputs[at] = viewAs(node, state.hidden, {1, batch, shapeOf(state.hidden)[1]});
  }
  return {joined(node, outputs, 0), state};
}

static Value layerOf(NodeBuilder &node, Value states, int64_t index) {
  return viewAs(node, sliceOf(node, states, 0, index, 1), shapeOf(states).drop_front());
}

static Value stacked(NodeBuilder &node, ArrayRef<Value> states) {
  SmallVector<Value> parts;
  for (Value state : states)
    parts.push_back(viewAs(node, state, {1, shapeOf(state)[0], shapeOf(state)[1]}));
  return joined(node, parts, 0);
}

/// All layers. The states come as one tensor, or two for an LSTM, with a leading dim of layers and
/// directions.
static void importSequence(NodeBuilder &node, Cell cell, bool hasCellState) {
  constexpr int64_t mostSteps = 4096;
  Value sequence = node.tensor("input");
  if (node.hasValue("batch_sizes") || rankOf(sequence) != 3)
    node.refuse("packed sequences and sequences without a batch are not supported");
  SmallVector<Value> initial = hasCellState ? node.tensors("hx") : SmallVector<Value>{node.tensor("hx")};
  SmallVector<Value> parameters = node.tensors("params");
  bool hasBiases = node.boolean("has_biases"), bothWays = node.boolean("bidirectional");
  bool batchFirst = node.boolean("batch_first");
  int64_t layers = node.integer("num_layers"), directions = bothWays ? 2 : 1, each = hasBiases ? 4 : 2;
  double probability = node.number("dropout");
  bool isTraining = node.boolean("train");
  if (initial.size() != (hasCellState ? 2u : 1u) || layers < 1 ||
      static_cast<int64_t>(parameters.size()) != layers * directions * each)
    node.refuse("the number of weights does not fit the number of layers (projections are not supported)");
  for (Value states : initial)
    if (rankOf(states) != 3)
      node.refuse("the initial state must be (layers and directions, batch, features)");
  if (batchFirst)
    sequence = swapDims(node, sequence, 0, 1);
  if (shapeOf(sequence)[0] < 1 || shapeOf(sequence)[0] > mostSteps)
    node.refuse("a sequence of " + std::to_string(shapeOf(sequence)[0]) +
                " positions is not supported, only 1 to " + std::to_string(mostSteps));

  SmallVector<Value> hidden, cells;
  for (int64_t layer = 0; layer < layers; ++layer) {
    SmallVector<Value> outputs;
    for (int64_t direction = 0; direction < directions; ++direction) {
      int64_t index = layer * directions + direction;
      auto parameter = [&](int64_t i) { return i < each ? parameters[index * each + i] : Value(); };
      State state{layerOf(node, initial[0], index),
                  hasCellState ? layerOf(node, initial[1], index) : Value()};
      Weights weights{parameter(0), parameter(1), parameter(2), parameter(3)};
      auto [output, last] = runLayer(node, sequence, state, weights, cell, direction == 1);
      outputs.push_back(output);
      hidden.push_back(last.hidden);
      cells.push_back(last.cell);
    }
    sequence = joined(node, outputs, 2);
    if (isTraining && layer + 1 < layers)
      sequence = dropped(node, sequence, probability).value;
  }
  SmallVector<Value> results{batchFirst ? swapDims(node, sequence, 0, 1) : sequence, stacked(node, hidden)};
  if (hasCellState)
    results.push_back(stacked(node, cells));
  node.setResults(results);
}

static void importLstm(NodeBuilder &node) { importSequence(node, lstmCell, true); }
static void importGru(NodeBuilder &node) { importSequence(node, gruCell, false); }
static void importTanhRnn(NodeBuilder &node) { importSequence(node, plainCell<nn::TanhOp>, false); }
static void importReluRnn(NodeBuilder &node) { importSequence(node, plainCell<nn::ReluOp>, false); }

//===-- Cells -------------------------------------------------------------===//

static void importCell(NodeBuilder &node, Cell cell, bool hasCellState) {
  Value input = node.tensor("input");
  Weights weights{node.tensor("w_ih"), node.tensor("w_hh"), node.optionalTensor("b_ih"),
                  node.optionalTensor("b_hh")};
  SmallVector<Value> initial = hasCellState ? node.tensors("hx") : SmallVector<Value>{node.tensor("hx")};
  if (rankOf(input) != 2 || initial.size() != (hasCellState ? 2u : 1u))
    node.refuse("a cell needs a batch of inputs and its state");
  Value gates = linear(node, input, weights.input, weights.inputBias);
  State state = cell(node, gates, {initial[0], hasCellState ? initial[1] : Value()}, weights);
  SmallVector<Value> results{state.hidden};
  if (hasCellState)
    results.push_back(state.cell);
  node.setResults(results);
}

static void importLstmCell(NodeBuilder &node) { importCell(node, lstmCell, true); }
static void importGruCell(NodeBuilder &node) { importCell(node, gruCell, false); }
static void importTanhCell(NodeBuilder &node) { importCell(node, plainCell<nn::TanhOp>, false); }
static void importReluCell(NodeBuilder &node) { importCell(node, plainCell<nn::ReluOp>, false); }

ArrayRef<AtenTarget> recurrentTargets() {
  static constexpr AtenTarget targets[] = {
      {"torch.ops.aten.lstm.input", importLstm},
      {"torch.ops.aten.gru.input", importGru},
      {"torch.ops.aten.rnn_tanh.input", importTanhRnn},
      {"torch.ops.aten.rnn_relu.input", importReluRnn},
      {"torch.ops.aten.lstm_cell.default", importLstmCell},
      {"torch.ops.aten.gru_cell.default", importGruCell},
      {"torch.ops.aten.rnn_tanh_cell.default", importTanhCell},
      {"torch.ops.aten.rnn_relu_cell.default", importReluCell},
  };
  return targets;
}

} // namespace plumb
