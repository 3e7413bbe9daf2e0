//===- NNRandomOps.cpp - Random numbers ---------------------------------------===//

#include "Lowering.h"
#include "OpSupport.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include <array>

using namespace mlir;
using namespace plumb::nn;

#define GET_OP_CLASSES
#include "plumb/Dialect/NN/NNRandomOps.cpp.inc"

LogicalResult UniformOp::inferTypes(Adaptor adaptor, EmitError emitError, SmallVectorImpl<Type> &types) {
  if (tensorType(adaptor.getStep()).getRank() != 0)
    return emitError() << "the step must be one number, but is " << adaptor.getStep().getType();
  if (adaptor.getPositions().size() != adaptor.getWhole().size())
    return emitError() << "has positions along " << adaptor.getPositions().size() << " dims of a tensor of "
                       << adaptor.getWhole().size() << " dims";
  SmallVector<int64_t> shape;
  for (auto [positions, size] : llvm::zip_equal(adaptor.getPositions(), adaptor.getWhole())) {
    if (tensorType(positions).getRank() != 1 || shapeOf(positions)[0] > size)
      return emitError() << "positions along a dim of " << size << " elements cannot be "
                         << positions.getType();
    shape.push_back(shapeOf(positions)[0]);
  }
  types.push_back(RankedTensorType::get(shape, Float32Type::get(adaptor.getStep().getContext())));
  return success();
}

ShardingRule UniformOp::getShardingRule() {
  ShardingRule rule;
  ShardingRule::Tensor dims;
  rule.operands.emplace_back();
  for (int64_t size : getType().getShape()) {
    dims.push_back({rule.addFactor(size)});
    rule.operands.push_back({dims.back()});
  }
  rule.results = {dims};
  return rule;
}

SmallVector<Value> UniformOp::backward(OpBuilder &, ArrayRef<Value>, ArrayRef<bool>) {
  return SmallVector<Value>(getNumOperands());
}

namespace {
/// Philox4x32-10, as in Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3" (2011), on
/// words that lie in the lower halves of i64.
struct Philox {
  std::array<Scalar, 4> words;

  void mix(ScalarBuilder &scalars, uint64_t seed) {
    uint32_t key[] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
    for (int round = 0; round < 10; ++round) {
      Scalar first = scalars.integer(0xD2511F53) * words[0], second = scalars.integer(0xCD9E8D57) * words[2];
      words = {exclusiveOr(exclusiveOr(upper(second), words[1]), scalars.integer(key[0])), lower(second),
               exclusiveOr(exclusiveOr(upper(first), words[3]), scalars.integer(key[1])), lower(first)};
      key[0] += 0x9E3779B9;
      key[1] += 0xBB67AE85;
    }
  }

  static Scalar exclusiveOr(Scalar a, Scalar b) {
    return {a.builder, arith::XOrIOp::create(*a.builder, a.value, b.value)};
  }
  static Scalar upper(Scalar word) { return shiftedRight(word, 32); }
  static Scalar lower(Scalar word) {
    Scalar mask{word.builder, arith::ConstantIntOp::create(*word.builder, 0xFFFFFFFF, 64)};
    return {word.builder, arith::AndIOp::create(*word.builder, word.value, mask.value)};
  }
  static Scalar shiftedRight(Scalar word, int64_t bits) {
    Value by = arith::ConstantIntOp::create(*word.builder, bits, 64);
    return {word.builder, arith::ShRUIOp::create(*word.builder, word.value, by)};
  }
};
} // namespace

SmallVector<Value> UniformOp::lower(OpBuilder &builder, ValueRange operands) {
  RankedTensorType type = getType();
  auto rank = static_cast<unsigned>(type.getRank());
  SmallVector<MappedTensor> inputs{alignedRight(operands[0], type.getShape())};
  for (auto [dim, positions] : llvm::enumerate(operands.drop_front()))
    inputs.push_back({positions, AffineMap::get(rank, 0, builder.getAffineDimExpr(dim))});
  auto number = [&](ScalarBuilder &scalars, ArrayRef<Scalar> x) {
    Scalar element = scalars.integer(0);
    for (auto [position, size] : llvm::zip_equal(x.drop_front(), getWhole()))
      element = element * scalars.integer(size) + toI64(position);
    Scalar step = convert(x[0], scalars.builder.getI64Type());
    Philox philox{
        {Philox::lower(element), Philox::upper(element), scalars.integer(getStream()), Philox::lower(step)}};
    philox.mix(scalars, getSeed());
    // The upper 24 bits: all of them are numbers of f32.
    Type f32 = scalars.builder.getF32Type();
    return convert(Philox::shiftedRight(philox.words[0], 8), f32) * scalars.real(f32, 0x1p-24);
  };
  return {pointwise(builder, getLoc(), inputs, type, number)};
}
