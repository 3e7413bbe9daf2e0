//===- Driver.h - From files to a compiled module ---------------*- C++ -*-===//
//
// What the subcommands share: reading model and plan, running the chain of passes, and printing what went
// wrong with the line that it is about.
//
//===----------------------------------------------------------------------===//
#ifndef PLUMB_TOOLS_PLUMBC_DRIVER_H
#define PLUMB_TOOLS_PLUMBC_DRIVER_H

#include "ExitCode.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "plumb/Import/PlanSpec.h"
#include "plumb/Import/Pt2Archive.h"
#include "plumb/Support/Diagnostic.h"
#include "plumb/Target/Kernels.h"
#include <memory>
#include <optional>
#include <string>

namespace mlir {
class PassManager;
}

namespace plumb {

/// A compilation: owns the context, the model and what was said about them.
class Driver {
public:
  Driver();
  ~Driver();

  /// Reads a model, told apart by content: a torch.export archive, or MLIR text. `-` is standard input.
  bool loadModel(const std::string &path);
  bool loadPlan(const std::string &path);

  /// The plan with all axes of size 1 and one microbatch: the unsplit model, on the whole batch of
  /// `compiled`.
  void usePlanOfOneRank(mlir::ModuleOp compiled);

  struct CompileOptions {
    KernelTarget target = KernelTarget::Host;
    std::string cpu = "native", gpu = "sm_90";
    /// Whether the kernels are compiled to objects.
    bool kernels = true;
    /// Modules whose results become outputs.
    std::vector<std::string> dumps = {};
  };

  /// Runs the whole chain on the loaded model and plan.
  mlir::OwningOpRef<mlir::ModuleOp> compile(const CompileOptions &options);

  /// The model with its plan, before the first pass.
  mlir::OwningOpRef<mlir::ModuleOp> import();

  /// The model with its plan, after apply-spec.
  mlir::OwningOpRef<mlir::ModuleOp> applyPlan();

  /// Null for a model that is MLIR text.
  const pt2::Pt2Archive *archive() const { return model.get(); }
  /// There is one once `loadPlan` has succeeded.
  const spec::PlanSpec &planSpec() const { return *plan; }
  const std::string &modelName() const { return name; }
  Diagnostics &diagnostics() { return reported; }

  /// Prints to standard error what was reported since the last call, or the errors of it; answers whether an
  /// error was among all.
  bool report(bool errorsOnly = false);
  /// The exit code after an error was reported: `kInternalError` if one says that Plumb is wrong.
  ExitCode failureCode() const;

private:
  /// Imports model and plan and runs the passes on them.
  mlir::OwningOpRef<mlir::ModuleOp> run(mlir::PassManager &manager);
  mlir::LogicalResult collect(mlir::Diagnostic &diagnostic);
  Place placeOf(mlir::Location location) const;

  std::unique_ptr<mlir::MLIRContext> context;
  std::unique_ptr<pt2::Pt2Archive> model;
  std::string modelText; ///< A model that is MLIR text.
  std::string path;      ///< Where the text comes from.
  std::string name;
  std::optional<spec::PlanSpec> plan;
  Diagnostics reported;
  size_t printed = 0;
};

} // namespace plumb

#endif // PLUMB_TOOLS_PLUMBC_DRIVER_H
