//===- LowerRotations.cpp - Rotations of sharded dims become exchanges -------===//

#include "LowerRotations.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Transforms/Utils.h"

using namespace mlir;
using namespace plumb;
using ccl::RotateOp;

namespace {

/// Rows of numbers, one per member of a communicator.
using Rows = SmallVector<SmallVector<int64_t>>;

/// What a rotation of a dim moves, `count` elements of which lie on each of `ranks` members.
struct Rotation {
  int64_t ranks, count, by;
  int64_t outer, inner; ///< Elements of the dims in front of the rotated one, and behind it.

  Rows packs, kept, unpacks; ///< Pieces as in `ccl.copy`.
  Rows sends, receives;      ///< Messages as in `ccl.exchange`.
  int64_t sent = 0;          ///< Elements that each member sends.

  void fill() {
    for (Rows *rows : {&packs, &kept, &unpacks, &sends, &receives})
      rows->resize(ranks);
    for (int64_t member = 0; member < ranks; ++member)
      fill(member);
  }

private:
  /// One message for each other member, in ascending order: elements by their place before the rotation.
  void fill(int64_t member) {
    int64_t out = 0, in = 0, row = outer * inner;
    for (int64_t other = 0; other < ranks; ++other) {
      if (other == member) {
        forMoves(member, member, [&](int64_t from, int64_t to) {
          piece(kept[member], from * inner, to * inner, count * inner, count * inner);
        });
        continue;
      }
      int64_t firstOut = out, firstIn = in;
      forMoves(member, other, [&](int64_t from, int64_t) {
        piece(packs[member], from * inner, out, count * inner, inner);
        out += row;
      });
      forMoves(other, member, [&](int64_t, int64_t to) {
        piece(unpacks[member], in, to * inner, inner, count * inner);
        in += row;
      });
      if (out > firstOut)
        sends[member].append({other, firstOut, out - firstOut});
      if (in > firstIn)
        receives[member].append({other, firstIn, in - firstIn});
    }
    sent = out;
  }

  /// Calls `visit` with the places, before and after, of what `source` has for `target`.
  void forMoves(int64_t source, int64_t target, llvm::function_ref<void(int64_t, int64_t)> visit) const {
    int64_t size = ranks * count;
    for (int64_t from = 0; from < count; ++from) {
      int64_t place = ((source * count + from + by) % size + size) % size;
      if (place / count == target)
        visit(from, place % count);
    }
  }

  void piece(SmallVector<int64_t> &row, int64_t from, int64_t to, int64_t fromPitch, int64_t toPitch) const {
    row.append({from, to, inner, outer, fromPitch, toPitch});
  }
};

class Lowering {
public:
  explicit Lowering(ModuleOp module) : module(module), builder(module.getContext()) {
    for (auto communicator : module.getOps<ccl::CommunicatorOp>())
      if (communicator.getPipeline().empty())
        known.try_emplace(communicator.getAxesAttr(), communicator.getSymNameAttr());
  }

  LogicalResult lower(RotateOp op);

private:
  FlatSymbolRefAttr communicator(Location loc, ArrayAttr axes);
  ArrayAttr toAttribute(const Rows &rows) {
    return builder.getArrayAttr(llvm::map_to_vector(
        rows, [&](ArrayRef<int64_t> row) -> Attribute { return builder.getDenseI64ArrayAttr(row); }));
  }

  ModuleOp module;
  OpBuilder builder;
  DenseMap<ArrayAttr, StringAttr> known; ///< Communicators by their axes.
};

} // namespace

FlatSymbolRefAttr Lowering::communicator(Location loc, ArrayAttr axes) {
  StringAttr &name = known[axes];
  if (!name) {
    std::string text = "rotate";
    for (StringRef axis : axes.getAsValueRange<StringAttr>())
      text += "_" + axis.take_while([](char c) { return c != ':'; }).str();
    while (SymbolTable::lookupSymbolIn(module, text))
      text += "_";
    name = builder.getStringAttr(text);
    OpBuilder outside(module.getContext());
    outside.setInsertionPoint(*module.getOps<StageOp>().begin());
    ccl::CommunicatorOp::create(outside, loc, text, axes, builder.getDenseI64ArrayAttr({}));
  }
  return FlatSymbolRefAttr::get(name);
}

/// Where each member has one element of the dim, its tensor is the message; otherwise messages are packed.
LogicalResult Lowering::lower(RotateOp op) {
  LayoutAttr layout = getLayout(op.getResult());
  auto dim = static_cast<int64_t>(op.getDim());
  DimShardingAttr sharding = layout ? layout.getDims()[dim] : DimShardingAttr();
  if (!sharding || sharding.getAxes().empty())
    return success();
  if (sharding.countBlocks() > 1)
    return emitModelError(op) << "rotates a dim of which " << sharding.countBlocks()
                              << " blocks are sharded, which is not supported";
  SmallVector<StringRef> names;
  std::vector<std::string> texts;
  int64_t ranks = 1;
  for (AxisRefAttr axis : sharding.getAxes()) {
    if (axis.getName() == kMicrobatchAxis)
      return emitModelError(op) << "rotates a dim that is walked in microbatches, of which only one is there";
    ranks *= getAxisSize(module, axis);
    texts.push_back(axis.getName().str() + (axis.isWhole() ? ""
                                                           : ":(" + std::to_string(axis.getPreSize()) + ")" +
                                                                 std::to_string(axis.getSize())));
  }
  llvm::append_range(names, texts);
  ArrayAttr axes = builder.getStrArrayAttr(names);
  auto type = cast<RankedTensorType>(op.getType());
  Rotation rotation{ranks,
                    type.getDimSize(dim),
                    static_cast<int64_t>(op.getBy()),
                    llvm::product_of(type.getShape().take_front(dim)),
                    llvm::product_of(type.getShape().drop_front(dim + 1)),
                    {},
                    {},
                    {},
                    {},
                    {}};
  rotation.fill();
  builder.setInsertionPoint(op);
  ProvenanceScope scope(builder, op, getPhase(op));
  bool isWhole = rotation.count == 1 && rotation.sent > 0;
  Type buffer = isWhole ? type : type.clone(ArrayRef(rotation.sent));
  Value value = op.getInput(), moved = value;
  if (!isWhole)
    moved = ccl::CopyOp::create(builder, op.getLoc(), buffer, value, axes,
                                builder.getArrayAttr({toAttribute(rotation.packs)}));
  moved = ccl::ExchangeOp::create(builder, op.getLoc(), buffer, moved, communicator(op.getLoc(), axes),
                                  toAttribute(rotation.sends), toAttribute(rotation.receives));
  moved.getDefiningOp()->setAttr("plumb.boundary",
                                 builder.getStringAttr("blocks of dim " + Twine(dim) + " walk on by " +
                                                       Twine(static_cast<int64_t>(op.getBy()))));
  if (!isWhole)
    moved = ccl::CopyOp::create(
        builder, op.getLoc(), type, ValueRange{value, moved}, axes,
        builder.getArrayAttr({toAttribute(rotation.kept), toAttribute(rotation.unpacks)}));
  setLayouts(moved.getDefiningOp(), {layout});
  op.getResult().replaceAllUsesWith(moved);
  op.erase();
  return success();
}

LogicalResult plumb::lowerRotations(ModuleOp module) {
  SmallVector<RotateOp> rotations;
  for (StageOp stage : module.getOps<StageOp>())
    llvm::append_range(rotations, stage.getBody().getOps<RotateOp>());
  Lowering lowering(module);
  return success(llvm::all_of(rotations, [&](RotateOp op) { return succeeded(lowering.lower(op)); }));
}
