//===- BoundInputs.cpp - What the integers among the inputs may be ------------===//

#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/NN/NN.h"
#include "plumb/Dialect/Plumb/Plumb.h"
#include "plumb/Transforms/Passes.h"
#include "plumb/Transforms/PlanAttributes.h"
#include "plumb/Transforms/Utils.h"

namespace plumb {
#define GEN_PASS_DEF_BOUNDINPUTS
#include "plumb/Transforms/Passes.h.inc"
} // namespace plumb

using namespace mlir;
using namespace plumb;

/// The ops that take the values of an input, in their order or another shape, as indices. Slices of an input
/// are left alone: the rest of it may hold anything.
static void findReaders(Value value, SmallVector<nn::IndexingOpInterface> &readers) {
  for (Operation *user : value.getUsers())
    if (auto reader = dyn_cast<nn::IndexingOpInterface>(user);
        reader && reader.getIndexRange().indices == value)
      readers.push_back(reader);
    else if (user->hasTrait<nn::Reinterprets>())
      findReaders(user->getResult(0), readers);
}

static void bound(InputOp input) {
  SmallVector<nn::IndexingOpInterface> readers;
  findReaders(input.getResult(), readers);
  if (readers.empty())
    return;
  // All readers must be content; the first with the fewest rows is named. Users are listed last one first.
  nn::IndexingOpInterface narrowest = readers.back();
  std::optional<int64_t> ignored = narrowest.getIndexRange().ignored;
  for (nn::IndexingOpInterface reader : llvm::reverse(readers)) {
    if (reader.getIndexRange().count < narrowest.getIndexRange().count)
      narrowest = reader;
    if (reader.getIndexRange().ignored != ignored)
      ignored.reset();
  }
  SmallVector<int64_t> range{narrowest.getIndexRange().count};
  if (ignored)
    range.push_back(*ignored);
  Builder builder(input.getContext());
  input->setAttr(kIndexRangeAttr, builder.getDenseI64ArrayAttr(range));
  input->setAttr(kIndexReaderAttr, builder.getStringAttr(describe(narrowest)));
}

namespace {
struct BoundInputsPass : plumb::impl::BoundInputsBase<BoundInputsPass> {
  void runOnOperation() override {
    if (auto program = findOp<ProgramOp>(getOperation()))
      for (InputOp input : program.getBody().getOps<InputOp>())
        if (!input.getCounts())
          bound(input);
  }
};
} // namespace
