//===- Driver.cpp - From files to a compiled module --------------------------===//

#include "Driver.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "plumb/Dialect/Plumb/Plumb.h"
#include "plumb/Dialect/Registration.h"
#include "plumb/Import/ImportModel.h"
#include "plumb/Import/ImportPlan.h"
#include "plumb/Transforms/Passes.h"
#include "plumb/Transforms/PlanAttributes.h"
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <unistd.h>

using namespace mlir;
using namespace plumb;

Driver::Driver() {
  DialectRegistry registry;
  registerDialects(registry);
  context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  context->printOpOnDiagnostic(false);
  context->getDiagEngine().registerHandler(
      [this](mlir::Diagnostic &diagnostic) { return collect(diagnostic); });
}

Driver::~Driver() = default;

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

bool Driver::loadModel(const std::string &path) {
  std::optional<Source> source = Source::open(path, reported);
  if (!source)
    return false;
  name = path == "-" ? "model" : std::filesystem::path(path).stem().string();
  std::string_view text = source->text();
  if (pt2::Pt2Archive::looksLikeArchive(text)) {
    model = path == "-" ? pt2::Pt2Archive::read(path, std::string(text), reported)
                        : pt2::Pt2Archive::open(path, reported);
    return model != nullptr;
  }
  size_t first = text.find_first_not_of(" \t\r\n");
  bool isText = text.find('\0') == std::string_view::npos && first != std::string_view::npos;
  if (isText && (text.substr(first, 2) == "//" || std::isalpha(text[first]) || text[first] == '#' ||
                 text[first] == '"')) {
    modelText = text;
    this->path = path;
    return true;
  }
  reported.error(Place{path},
                 "this is neither a torch.export archive (.pt2) nor MLIR text; save the model with "
                 "torch.export.save");
  return false;
}

bool Driver::loadPlan(const std::string &path) {
  std::optional<Source> source = Source::open(path, reported);
  if (!source)
    return false;
  plan = spec::parsePlanSpec(std::make_shared<const Source>(std::move(*source)), reported);
  return plan && spec::readReferencedFiles(*plan, reported);
}

void Driver::usePlanOfOneRank(mlir::ModuleOp compiled) {
  if (auto rows = compiled->getAttrOfType<IntegerAttr>(kBatchAttr); rows && plan->batch)
    plan->batch = {plan->batch->range, "global", rows.getInt()};
  if (auto parts = compiled->getAttrOfType<DenseI64ArrayAttr>(kBatchPartsAttr); parts && plan->batchNorm)
    plan->batchNorm->parts = parts.asArrayRef();
  for (spec::MeshAxis &axis : plan->mesh)
    axis.size.value = 1;
  plan->pipeline.microbatches.value = 1;
  plan->pipeline.schedule.value = "gpipe";
  plan->pipeline.stagesPerRank.reset();
  plan->pipeline.placement.reset();
  plan->pipeline.ranks.reset();
  plan->pipeline.actions.reset();
  plan->costs.reset();
  plan->memoryLimit.reset();
}

//===----------------------------------------------------------------------===//
// Compiling
//===----------------------------------------------------------------------===//

OwningOpRef<mlir::ModuleOp> Driver::import() {
  OwningOpRef<mlir::ModuleOp> module;
  if (model)
    module = importModel(*model, *context, reported);
  else
    module = parseSourceString<mlir::ModuleOp>(modelText, ParserConfig(context.get()), path);
  if (module && plan && failed(importPlan(*plan, *module)))
    return {};
  return module;
}

OwningOpRef<mlir::ModuleOp> Driver::applyPlan() {
  PassManager manager(context.get());
  manager.addPass(createApplySpec());
  return run(manager);
}

OwningOpRef<mlir::ModuleOp> Driver::compile(const CompileOptions &options) {
  PassManager manager(context.get());
  if (!options.dumps.empty()) {
    DumpValuesOptions dumps;
    dumps.modules.assign(options.dumps.begin(), options.dumps.end());
    manager.addPass(createDumpValues(std::move(dumps)));
  }
  buildCompilePipeline(manager, {options.target, options.cpu, options.gpu, options.kernels});
  return run(manager);
}

OwningOpRef<mlir::ModuleOp> Driver::run(PassManager &manager) {
  OwningOpRef<mlir::ModuleOp> module = import();
  if (!module)
    return {};
  if (failed(manager.run(*module))) {
    if (!reported.hasErrors())
      reported.error(Place{name}, "internal error: a pass failed without saying why");
    return {};
  }
  return module;
}

//===----------------------------------------------------------------------===//
// Diagnostics
//===----------------------------------------------------------------------===//

Place Driver::placeOf(Location location) const {
  auto position = location->findInstanceOf<FileLineColLoc>();
  if (!position)
    return {};
  std::string file = position.getFilename().str();
  if (!plan || file != plan->source->name())
    return Place{file, position.getLine(), position.getColumn()};
  // The source knows offsets; find that of the line.
  std::string_view text = plan->source->text();
  size_t offset = 0;
  for (unsigned line = 1; line < position.getLine() && offset != std::string_view::npos; ++line)
    offset = text.find('\n', offset) + 1;
  offset += position.getColumn() ? position.getColumn() - 1 : 0;
  return plan->source->place({offset, offset + 1});
}

LogicalResult Driver::collect(mlir::Diagnostic &diagnostic) {
  plumb::Diagnostic converted;
  switch (diagnostic.getSeverity()) {
  case DiagnosticSeverity::Error:
    converted.severity = Severity::Error;
    break;
  case DiagnosticSeverity::Warning:
    converted.severity = Severity::Warning;
    break;
  default:
    converted.severity = Severity::Note;
  }
  converted.place = placeOf(diagnostic.getLocation());
  converted.message = diagnostic.str();
  for (mlir::Diagnostic &note : diagnostic.getNotes())
    converted.note(placeOf(note.getLocation()), note.str());
  // What compiling the same plan again has to say is known.
  auto isSame = [&](const plumb::Diagnostic &known) {
    return known.severity == converted.severity && known.message == converted.message &&
           known.place.line == converted.place.line && known.place.file == converted.place.file;
  };
  if (llvm::none_of(reported.all(), isSame))
    reported.add(std::move(converted));
  return success();
}

bool Driver::report(bool errorsOnly) {
  Diagnostics fresh;
  for (; printed < reported.all().size(); ++printed)
    if (!errorsOnly || reported.all()[printed].severity == Severity::Error)
      fresh.add(reported.all()[printed]);
  fresh.print(std::cerr, isatty(STDERR_FILENO) && !getenv("NO_COLOR"));
  return reported.hasErrors();
}

ExitCode Driver::failureCode() const {
  bool isInternal = std::ranges::any_of(reported.all(), [](const auto &diagnostic) {
    return diagnostic.severity == Severity::Error && diagnostic.message.starts_with("internal error:");
  });
  return isInternal ? kInternalError : kRejected;
}
