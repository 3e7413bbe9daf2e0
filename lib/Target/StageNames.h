//===- StageNames.h - What the values of a stage are called in C++ -*- C++ -*-===//

#ifndef PLUMB_LIB_TARGET_STAGENAMES_H
#define PLUMB_LIB_TARGET_STAGENAMES_H

#include "ProgramWriter.h"
#include "llvm/ADT/DenseMap.h"

namespace plumb::target {

/// Names of a stage's values, and C++ expressions for where they lie.
class StageNames {
public:
  StageNames(const ProgramPlan &plan, int64_t stage);

  /// The value whose local pointer stands for this one: views and in-place results have none of their own.
  mlir::Value resolve(mlir::Value value) const;
  /// The local pointer of a resolved value.
  llvm::StringRef getLocal(mlir::Value value) const { return locals.find(value)->second; }
  /// The address of a value: `rank.at<float>(…)`; of a slice, an offset to its operand's.
  std::string getAddress(mlir::Value value) const;
  /// The address of the state that a store sets.
  std::string getAddress(StoreOp store) const;
  std::string getScratch(LaunchOp launch) const;
  /// The slot of the microbatch at hand, ready to be added or multiplied; empty if there is only one.
  std::string getSlot(int64_t slotClass, bool standsAlone) const;
  /// The rank's number along several axes, the first slowest.
  std::string getCoordinate(mlir::ArrayAttr axes) const;

  /// "submod_pp_0", also the namespace of the stage's offsets and tables.
  const std::string &getPrefix() const { return prefix; }
  /// The text of that namespace; empty if it is.
  std::string getDeclarations() const;

private:
  void nameResult(mlir::OpResult result, Identifiers &identifiers);
  std::string getPlace(mlir::Operation *op, unsigned result, mlir::Type type,
                       llvm::StringRef enumerator) const;

  const ProgramPlan &plan;
  StageOp stage;
  std::string prefix, arena; ///< Namespaces of the stage's and of its coordinate's offsets.
  llvm::SmallVector<SlotClass> slots;
  llvm::SmallVector<std::string> slotNames, placeNames;
  llvm::DenseMap<mlir::Value, std::string> locals;
  llvm::DenseMap<mlir::Value, mlir::Value> sameAs; ///< By views and in-place results: the operand.
  llvm::StringMap<std::string> outside; ///< Locals of parameters, states and inputs, by their names.
};

} // namespace plumb::target

#endif // PLUMB_LIB_TARGET_STAGENAMES_H
