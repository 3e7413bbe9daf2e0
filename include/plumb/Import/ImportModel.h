//===- ImportModel.h - From an archive to nn and plumb operations -*- C++ -*-===//

#ifndef PLUMB_IMPORT_IMPORTMODEL_H
#define PLUMB_IMPORT_IMPORTMODEL_H

#include "plumb/Import/Pt2Archive.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace plumb {

/// Builds the module of a model: its `plumb.module` tree, its parameters under their canonical names (buffers
/// and constants are parameters that are not trained), and one flat `plumb.program` in global shapes. ATen
/// operators are decomposed into few `nn` operations, which carry the module and the Python line of their
/// node.
///
/// Reports at once all operators that are not supported, otherwise all nodes that cannot be built, each with
/// its module and Python line, and returns null: arguments that an operator's builder does not know are
/// refused, never dropped, and each result must have the type that the archive recorded. The context must
/// have the dialects of `registerDialects`, which are loaded here. Single-threaded contexts are not needed.
mlir::OwningOpRef<mlir::ModuleOp> importModel(const pt2::Pt2Archive &archive, mlir::MLIRContext &context,
                                              Diagnostics &diagnostics);

/// The ATen operators that can be imported, without `torch.ops.`, by family, in the order of the alphabet.
struct OperatorFamily {
  std::string name;
  std::vector<std::string> operators;
};
std::vector<OperatorFamily> operatorFamilies();

} // namespace plumb

#endif // PLUMB_IMPORT_IMPORTMODEL_H
