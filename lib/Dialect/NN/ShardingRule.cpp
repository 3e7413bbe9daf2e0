//===- ShardingRule.cpp - How the dims of an op move together -------------===//

#include "plumb/Dialect/NN/ShardingRule.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace plumb::nn {

ShardingRule ShardingRule::elementwise(ArrayRef<ArrayRef<int64_t>> operandShapes, ArrayRef<int64_t> shape,
                                       int resultCount) {
  ShardingRule rule;
  Tensor result(shape.size());
  for (auto [size, dim] : zip(shape, result))
    if (size != 1)
      dim = {rule.addFactor(size)};
  for (ArrayRef<int64_t> operand : operandShapes) {
    Tensor dims(operand.size());
    for (size_t i = 0, added = shape.size() - operand.size(); i < operand.size(); ++i)
      if (operand[i] != 1)
        dims[i] = result[added + i];
    rule.operands.push_back(std::move(dims));
  }
  rule.results.assign(resultCount, result);
  return rule;
}

static std::string factorName(size_t factor) {
  return factor < 26 ? std::string(1, static_cast<char>('a' + factor)) : "f" + std::to_string(factor);
}

static void print(raw_ostream &os, ArrayRef<ShardingRule::Tensor> tensors) {
  interleave(
      tensors,
      [&](const ShardingRule::Tensor &tensor) {
        os << "[";
        interleave(
            tensor,
            [&](const ShardingRule::Dim &dim) {
              if (dim.empty())
                os << "1";
              interleave(dim, [&](int factor) { os << factorName(factor); }, [&] { os << "*"; });
            },
            [&] { os << " "; });
        os << "]";
      },
      [&] { os << ", "; });
}

std::string toString(const ShardingRule &rule) {
  std::string text;
  raw_string_ostream os(text);
  print(os, rule.operands);
  os << (rule.operands.empty() ? "-> " : " -> ");
  print(os, rule.results);
  os << " {";
  interleave(
      enumerate(rule.factors),
      [&](auto entry) {
        const Factor &factor = entry.value();
        os << factorName(entry.index()) << "=" << factor.size;
        if (factor.kind != FactorKind::Parallel)
          os << (factor.kind == FactorKind::Reduction ? " reduction" : " replicated");
      },
      [&] { os << ", "; });
  os << "}";
  for (const auto &[i, set] : enumerate(rule.linear)) {
    os << (i ? ", " : " linear ") << "{";
    interleave(set, [&](int operand) { os << operand; }, [&] { os << ", "; });
    os << "}";
  }
  return text;
}

} // namespace plumb::nn
