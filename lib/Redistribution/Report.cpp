//===- Report.cpp - Plans as text and JSON --------------------------------===//
#include "plumb/Redistribution/Report.h"
#include "plumb/Redistribution/IndexSet.h"
#include "plumb/Redistribution/LayoutText.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>
#include <nlohmann/json.hpp>

using namespace plumb::redistribution;
using Json = nlohmann::ordered_json;

namespace {

double fraction(const Plan &plan, double bytes) {
  return plan.globalBytes() ? bytes / double(plan.globalBytes()) : 0;
}

/// How far the plan may be from the best one: 0 when it is proven to be that.
double gapOf(const Plan &plan) {
  if (plan.optimal || plan.cost == 0)
    return 0;
  return plan.provenCost > 0 ? plan.cost / plan.provenCost - 1 : std::numeric_limits<double>::infinity();
}

Json asJson(const Index &index) { return Json(std::vector<int64_t>(index.begin(), index.end())); }

/// `shapes` and `offsets` of every rank.
void addLocals(Json &object, llvm::StringRef prefix, const Plan &plan, const Layout &layout) {
  Json shapes = Json::array(), offsets = Json::array();
  for (int64_t rank = 0; rank < plan.mesh.numRanks(); ++rank) {
    shapes.push_back(asJson(localShape(plan.mesh, layout, plan.shape, rank)));
    offsets.push_back(asJson(localOffset(plan.mesh, layout, plan.shape, plan.mesh.coordinates(rank))));
  }
  object[(prefix + "local_shapes").str()] = std::move(shapes);
  object[(prefix + "offsets").str()] = std::move(offsets);
}

Json toJson(const Plan &plan) {
  Json object;
  object["label"] = plan.label().str();
  object["steps"] = Json::array();
  for (const Step &step : plan.steps) {
    Json entry;
    entry["kind"] = stepKindName(step.kind).str();
    entry["axes"] = Json::array();
    for (const AxisRef &axis : step.axes)
      entry["axes"].push_back(toString(plan.mesh, axis));
    entry["dims"] = std::vector<unsigned>(step.dims.begin(), step.dims.end());
    entry["bytes"] = step.bytes;
    entry["layout"] = toString(plan.mesh, step.after);
    object["steps"].push_back(std::move(entry));
  }
  object["bytes_fraction"] = fraction(plan, plan.bytes);
  object["bound_fraction"] = fraction(plan, plan.boundBytes);
  object["ratio"] = plan.boundBytes > 0 ? Json(plan.bytes / plan.boundBytes) : Json(nullptr);
  object["peak_fraction"] = fraction(plan, plan.peakMemory);
  object["optimal"] = plan.optimal;
  double gap = gapOf(plan);
  object["gap"] = std::isfinite(gap) ? Json(gap) : Json(nullptr);
  addLocals(object, "", plan, plan.to);
  addLocals(object, "source_", plan, plan.from);
  return object;
}

std::string number(double value) {
  return value == std::floor(value) && std::abs(value) < 1e15 ? llvm::itostr(int64_t(value))
                                                              : llvm::formatv("{0:f3}", value).str();
}

/// A line for every run of ranks with the same shape and offset.
void printLocals(llvm::raw_ostream &os, const Plan &plan) {
  auto describe = [&](int64_t rank) {
    Index coordinates = plan.mesh.coordinates(rank);
    return llvm::formatv("shape [{0}] at [{1}]", toString(localShape(plan.mesh, plan.to, plan.shape, rank)),
                         toString(localOffset(plan.mesh, plan.to, plan.shape, coordinates)))
        .str();
  };
  for (int64_t rank = 0; rank < plan.mesh.numRanks();) {
    std::string text = describe(rank);
    int64_t last = rank;
    while (last + 1 < plan.mesh.numRanks() && describe(last + 1) == text)
      ++last;
    os << "  rank " << rank;
    if (last > rank)
      os << '-' << last;
    os << ": " << text << '\n';
    rank = last + 1;
  }
}

std::string costText(const Plan &plan) {
  return llvm::formatv("{0} bytes", number(plan.bytes)).str() +
         (plan.cost != plan.bytes ? llvm::formatv(", {0:f3} us", plan.cost * 1e6).str() : "");
}

/// Reads the axes of a batch row through the parser of layouts, so that both accept the same.
std::string layoutText(const Json &dims, const Json *partial) {
  auto join = [](const Json &names) {
    std::vector<std::string> parts = names.get<std::vector<std::string>>();
    return llvm::join(parts, ",");
  };
  std::string text = "[";
  for (const Json &dim : dims)
    text += (text.size() > 1 ? ",{" : "{") + join(dim) + "}";
  text += "]";
  if (partial && !partial->empty())
    text += " partial{" + join(*partial) + "}";
  return text;
}

llvm::Expected<Json> answer(const Json &row, const PlanOptions &options, PlanCache &cache) {
  Mesh mesh;
  for (const auto &[name, size] : row.at("mesh").items())
    mesh.axes.push_back({name, size.get<int64_t>()});
  if (llvm::Error error = checkMesh(mesh))
    return error;
  auto sizes = row.at("shape").get<std::vector<int64_t>>();
  // Columns of the text that is made here would tell nobody anything.
  auto layoutOf = [&](const char *dims, const char *partial) -> llvm::Expected<Layout> {
    auto layout =
        parseLayout(mesh, layoutText(row.at(dims), row.contains(partial) ? &row[partial] : nullptr));
    if (layout)
      return layout;
    return llvm::handleErrors(layout.takeError(), [&](const TextError &error) {
      return llvm::createStringError(llvm::formatv("{0}: {1}", dims, error.message).str());
    });
  };
  llvm::Expected<Layout> from = layoutOf("src", "partial");
  if (!from)
    return from.takeError();
  llvm::Expected<Layout> to = layoutOf("dst", "dst_partial");
  if (!to)
    return to.takeError();
  llvm::Expected<const Plan *> plan = cache.get(mesh, sizes, 4, *from, *to, options);
  if (!plan)
    return plan.takeError();
  return toJson(**plan);
}

} // namespace

std::string plumb::redistribution::planText(const Plan &plan) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << toString(plan.mesh, plan.from) << " -> " << toString(plan.mesh, plan.to) << " on "
     << toString(plan.mesh) << ", shape [" << toString(plan.shape) << "]: " << plan.label() << '\n';
  for (auto [i, step] : llvm::enumerate(plan.steps))
    os << "  " << i + 1 << ". " << toString(plan.mesh, step) << "  " << number(step.bytes) << " bytes\n";
  os << "cost " << costText(plan) << "; lower bound " << number(plan.boundBytes) << " bytes";
  if (plan.boundBytes > 0)
    os << llvm::formatv(" (ratio {0:f3})", plan.bytes / plan.boundBytes);
  os << "\npeak memory " << plan.peakMemory << " bytes per rank\n";
  if (plan.optimal)
    os << "optimal: no plan of these kinds of steps costs less\n";
  else
    os << "not proven optimal: the search was cut short; no plan costs less than " << number(plan.provenCost)
       << '\n';
  printLocals(os, plan);
  return text;
}

std::string plumb::redistribution::alternativesText(const Plan &plan,
                                                    llvm::ArrayRef<Alternative> alternatives) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "chosen: " << costText(plan) << '\n';
  for (const Alternative &alternative : alternatives) {
    os << "rejected, " << alternative.description << ": ";
    if (!alternative.plan) {
      os << "does not lead to the target\n";
      continue;
    }
    os << costText(*alternative.plan);
    if (plan.cost > 0)
      os << llvm::formatv(" ({0:f3} of the chosen)", alternative.plan->cost / plan.cost);
    os << '\n';
    for (const Step &step : alternative.plan->steps)
      os << "  " << toString(plan.mesh, step) << "  " << number(step.bytes) << " bytes\n";
  }
  return text;
}

std::string plumb::redistribution::planJson(const Plan &plan) { return toJson(plan).dump(); }

static std::string dumped(const Json &object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

BatchAnswer plumb::redistribution::refuseBatchRow(llvm::StringRef text, std::string error) {
  Json row = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false), object;
  if (row.is_object() && row.contains("id"))
    object["id"] = row["id"];
  object["error"] = error;
  return {dumped(object), std::move(error)};
}

BatchAnswer plumb::redistribution::answerBatchRow(llvm::StringRef text, const PlanOptions &options,
                                                  PlanCache &cache) {
  try {
    Json row = Json::parse(text.begin(), text.end()), object;
    llvm::Expected<Json> answered = answer(row, options, cache);
    if (!answered) {
      llvm::Error refusal = answered.takeError();
      bool wrong = refusal.isA<WrongPlan>();
      BatchAnswer refused = refuseBatchRow(text, llvm::toString(std::move(refusal)));
      refused.wrong = wrong;
      return refused;
    }
    if (row.contains("id"))
      object["id"] = row["id"];
    object.update(*answered);
    return {dumped(object), ""};
  } catch (const nlohmann::json::exception &exception) {
    return refuseBatchRow(text, exception.what());
  }
}
