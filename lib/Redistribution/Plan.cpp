//===- Plan.cpp - Steps that turn one layout into another -----------------===//
#include "plumb/Redistribution/Plan.h"
#include "plumb/Redistribution/IndexSet.h"
#include "plumb/Redistribution/LayoutText.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace plumb::redistribution;

llvm::StringRef plumb::redistribution::stepKindName(StepKind kind) {
  switch (kind) {
  case StepKind::Slice:
    return "slice";
  case StepKind::Mask:
    return "mask";
  case StepKind::AllGather:
    return "all_gather";
  case StepKind::ReduceScatter:
    return "reduce_scatter";
  case StepKind::AllReduce:
    return "all_reduce";
  case StepKind::AllToAll:
    return "all_to_all";
  case StepKind::Permute:
    return "permute";
  case StepKind::Exchange:
    return "exchange";
  }
  return "slice";
}

int64_t Step::groupSize() const {
  int64_t size = 1;
  for (const AxisRef &ref : axes)
    size *= ref.size;
  return size;
}

int64_t Plan::globalBytes() const { return numElements(shape) * elementBytes; }

llvm::StringRef Plan::label() const {
  if (steps.empty())
    return "identity";
  if (llvm::all_of(steps, [](const Step &step) { return isLocal(step.kind); }))
    return "local";
  StepKind kind = steps.front().kind;
  bool uniform = llvm::all_of(steps, [&](const Step &step) { return step.kind == kind; });
  return uniform && kind != StepKind::Exchange ? stepKindName(kind) : "mixed";
}

std::string plumb::redistribution::toString(const Mesh &mesh, const Step &step) {
  std::string axes =
      llvm::join(llvm::map_range(step.axes, [&](const AxisRef &ref) { return toString(mesh, ref); }), ",");
  return (stepKindName(step.kind) + "{" + axes + "} " + toString(mesh, step.before) + " -> " +
          toString(mesh, step.after))
      .str();
}
