//===- PlanSpecFuzzer.cpp - libFuzzer target for plan specs -----------------===//

#include "plumb/Import/PlanSpec.h"

using namespace plumb;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string input(reinterpret_cast<const char *>(data), size);
  Diagnostics diagnostics;
  std::optional<spec::PlanSpec> plan =
      spec::parsePlanSpec(std::make_shared<Source>("plan.json", std::move(input)), diagnostics);
  // A refusal says why, and only a refusal does.
  if (plan.has_value() == diagnostics.hasErrors())
    __builtin_trap();
  diagnostics.str();
  return 0;
}
