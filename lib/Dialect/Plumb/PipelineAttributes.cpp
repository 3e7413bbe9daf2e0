//===- PipelineAttributes.cpp - What a plan may say of its pipeline --------===//

#include "plumb/Dialect/Plumb/PipelineAttributes.h"

using namespace mlir;
using namespace plumb;

int64_t plumb::countCopies(PipelineOp pipeline) {
  auto copies = pipeline ? pipeline->getAttrOfType<IntegerAttr>(kCopiesAttr) : IntegerAttr();
  return copies ? copies.getInt() : 1;
}

static bool isPositive(Attribute attribute) {
  auto number = dyn_cast<IntegerAttr>(attribute);
  return number && number.getType().isSignlessInteger(64) && number.getInt() >= 1;
}

static bool isSize(Attribute attribute) {
  auto number = dyn_cast<IntegerAttr>(attribute);
  return number && number.getType().isSignlessInteger(64) && number.getInt() >= 0;
}

static bool isRanks(Attribute attribute) {
  auto ranks = dyn_cast<DenseI64ArrayAttr>(attribute);
  return ranks && llvm::all_of(ranks.asArrayRef(), [](int64_t rank) { return rank >= 0; });
}

static bool isActions(Attribute attribute) {
  auto actions = dyn_cast<DictionaryAttr>(attribute);
  return actions && actions.getAs<StringAttr>("file") && actions.getAs<StringAttr>("text");
}

static bool isCosts(Attribute attribute) {
  auto costs = dyn_cast<DictionaryAttr>(attribute);
  auto stages = costs ? costs.getAs<DenseF64ArrayAttr>("stages") : DenseF64ArrayAttr();
  auto transfer = costs ? costs.getAs<FloatAttr>("transfer") : FloatAttr();
  return stages && transfer && stages.size() % 3 == 0 && transfer.getValueAsDouble() >= 0 &&
         llvm::all_of(stages.asArrayRef(), [](double cost) { return cost >= 0; });
}

static bool isContextParallel(Attribute attribute) {
  auto context = dyn_cast<DictionaryAttr>(attribute);
  auto attention = context ? context.getAs<StringAttr>("attention") : StringAttr();
  return attention && context.getAs<StringAttr>("axis") &&
         llvm::is_contained({"auto", "gather", "ring"}, attention.getValue());
}

LogicalResult plumb::verifyPipelineAttribute(Operation *op, NamedAttribute attribute) {
  struct Rule {
    StringRef name;
    bool (*isValid)(Attribute);
    StringRef meaning;
  };
  static constexpr Rule rules[] = {
      {kRanksAttr, isRanks, "the rank of each stage"},
      {kCopiesAttr, isPositive, "a number of copies, an i64 of at least 1"},
      {kActionsAttr, isActions, "the name and the text of a CSV file"},
      {kCostsAttr, isCosts, "three times per stage and the time of a transfer, none of them negative"},
      {kMemoryLimitAttr, isPositive, "a number of bytes, an i64 of at least 1"},
      {kContextParallelAttr, isContextParallel, "an axis and one of \"auto\", \"gather\" and \"ring\""},
      {kBucketBytesAttr, isSize, "a number of bytes, an i64 of at least 0"},
  };
  for (const Rule &rule : rules)
    if (attribute.getName() == rule.name && (!isa<PipelineOp>(op) || !rule.isValid(attribute.getValue())))
      return op->emitOpError("'") << rule.name << "' must be on a plumb.pipeline and hold " << rule.meaning;
  return success();
}
