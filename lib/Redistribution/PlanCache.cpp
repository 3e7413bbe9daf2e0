//===- PlanCache.cpp - Plans by everything they depend on -----------------===//
#include "plumb/Redistribution/Interpreter.h"
#include "plumb/Redistribution/LayoutText.h"
#include "plumb/Redistribution/Planner.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

using namespace plumb::redistribution;

namespace {

void print(llvm::raw_ostream &os, const Link &link) {
  // Hexadecimal: two topologies that differ in the last bit are two topologies.
  os << llvm::format("%a,%a,%a;", link.bandwidth, link.latency, link.messageLatency);
}

void print(llvm::raw_ostream &os, const PlanOptions &options) {
  os << options.exchange << options.uneven << ' ' << options.maxMoves << ' '
     << options.memoryLimit.value_or(-1) << ' ';
  for (StepKind kind : options.excluded)
    os << stepKindName(kind) << ',';
  for (unsigned axis : options.foreign)
    os << axis << ',';
  if (!options.topology)
    return;
  os << options.topology->nodeSize << ' ';
  print(os, options.topology->node);
  print(os, options.topology->network);
  for (const std::optional<Link> &link : options.topology->axes) {
    if (link)
      print(os, *link);
    os << '|';
  }
}

} // namespace

char WrongPlan::ID;

void WrongPlan::log(llvm::raw_ostream &os) const {
  os << "internal error: a wrong plan (" << finding << "); to see it again: plumbc " << question;
}

std::error_code WrongPlan::convertToErrorCode() const { return llvm::inconvertibleErrorCode(); }

llvm::Expected<const Plan *> PlanCache::get(const Mesh &mesh, llvm::ArrayRef<int64_t> shape,
                                            int64_t elementBytes, const Layout &from, const Layout &to,
                                            const PlanOptions &options) {
  std::string key;
  llvm::raw_string_ostream os(key);
  os << toString(mesh) << ' ' << toString(shape) << ' ' << elementBytes << ' ' << toString(mesh, from) << ' '
     << toString(mesh, to) << ' ';
  print(os, options);
  auto known = plans.find(key);
  if (known == plans.end()) {
    llvm::Expected<Plan> plan = planRedistribution(mesh, shape, elementBytes, from, to, options);
    if (!plan)
      return plan.takeError();
    if (llvm::Error error = verifyPlan(*plan))
      return llvm::make_error<WrongPlan>(
          llvm::formatv("redistribute --mesh {0} --shape {1} --from '{2}' --to '{3}'", toString(mesh),
                        toString(shape), toString(mesh, from), toString(mesh, to)),
          llvm::toString(std::move(error)));
    known = plans.emplace(std::move(key), std::move(*plan)).first;
  }
  return &known->second;
}
