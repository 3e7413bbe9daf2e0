//===- Report.cpp - A plan for people and trace viewers -----------------------===//

#include "plumb/Target/Report.h"
#include "plumb/Dialect/CCL/CCL.h"
#include "plumb/Dialect/Plumb/PipelineAttributes.h"
#include "plumb/Schedule/CriticalPath.h"
#include "plumb/Target/PlanFile.h"
#include "plumb/Transforms/Buffers.h"
#include "plumb/Transforms/PlanAttributes.h"
#include "plumb/Transforms/ScheduleProblem.h"
#include "plumb/Transforms/Utils.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>
#include <nlohmann/json.hpp>
#include <set>

using namespace mlir;
using namespace plumb;
using llvm::formatv;
using Json = nlohmann::ordered_json;

//===----------------------------------------------------------------------===//
// Pieces of HTML
//===----------------------------------------------------------------------===//

static const char kStyle[] = R"css(
:root { color-scheme: light dark; --line: #8884; --f: #4878cf; --b: #59a14f; --w: #8cd17d; --o: #e08b3c; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: 0; } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
.verdict { color: #2e7d32; font-weight: 600; } .cards { display: flex; flex-wrap: wrap; gap: 1rem; padding: 0; }
.cards li { list-style: none; border: 1px solid var(--line); border-radius: .5rem; padding: .5rem 1rem; }
.cards b { display: block; font-size: 1.3rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--line); }
td.n, th.n { text-align: right; } code { font-size: 13px; } svg text { fill: currentColor; font-size: 11px; }
.F { fill: var(--f); } .B, .I { fill: var(--b); } .W { fill: var(--w); } .O { fill: var(--o); } .critical { stroke: #c22; stroke-width: 2; }
)css";

static std::string escape(StringRef text) {
  std::string result;
  for (char c : text)
    switch (c) {
    case '&':
      result += "&amp;";
      break;
    case '<':
      result += "&lt;";
      break;
    case '>':
      result += "&gt;";
      break;
    case '"':
      result += "&quot;";
      break;
    default:
      result += c;
    }
  return result;
}

static std::string toText(const Json &value) {
  return escape(value.is_string() ? value.get<std::string>()
                                  : value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

static std::string toNumber(double number) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.4g", number);
  return text;
}

static std::string toSize(double bytes) {
  const char *units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  size_t unit = 0;
  for (; bytes >= 999.5 && unit + 1 < std::size(units); ++unit)
    bytes /= 1000;
  return formatv(unit == 0 ? "{0:F0} {1}" : "{0:F2} {1}", bytes, units[unit]);
}

namespace {

/// A table; cells are HTML. Columns whose title ends with "#" hold numbers.
class Table {
public:
  Table(raw_ostream &os, ArrayRef<StringRef> titles) : os(os) {
    os << "<div class=\"wide\"><table><thead><tr>";
    for (StringRef title : titles) {
      isNumber.push_back(title.consume_back("#"));
      os << (isNumber.back() ? "<th scope=\"col\" class=\"n\">" : "<th scope=\"col\">") << title << "</th>";
    }
    os << "</tr></thead><tbody>\n";
  }
  ~Table() { os << "</tbody></table></div>\n"; }
  void row(ArrayRef<std::string> cells) {
    os << "<tr>";
    for (auto [cell, number] : llvm::zip(cells, isNumber))
      os << (number ? "<td class=\"n\">" : "<td>") << cell << "</td>";
    os << "</tr>\n";
  }

private:
  raw_ostream &os;
  SmallVector<bool> isNumber;
};

class Report {
public:
  Report(ModuleOp module, const Json &plan, const Timeline &timeline, raw_ostream &os)
      : module(module), plan(plan), timeline(timeline), os(os) {}
  void write();

private:
  void writeHead();
  void writeCards();
  void writeTimeline();
  void writeMemory();
  void writeStages();
  void writeCalls();
  void writeParameters();
  int64_t countRanks() const;
  void heading(StringRef title) { os << "<h2>" << title << "</h2>\n"; }

  ModuleOp module;
  const Json &plan;
  const Timeline &timeline;
  raw_ostream &os;
};

} // namespace

//===----------------------------------------------------------------------===//
// Sections
//===----------------------------------------------------------------------===//

int64_t Report::countRanks() const {
  int64_t ranks = 1;
  for (const Json &axis : plan["mesh"]["axes"])
    ranks *= axis["size"].get<int64_t>();
  return ranks;
}

void Report::writeHead() {
  std::string model = toText(plan["model"]), proved;
  for (const Json &part : plan["certificate"]["proved"])
    proved += (proved.empty() ? "" : ", ") + toText(part);
  os << "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Plan of " << model
     << "</title>\n<meta name=\"viewport\" content=\"width=device-width\"><style>" << kStyle
     << "</style></head><body>\n<h1>Plan of " << model
     << "</h1>\n<p class=\"verdict\">The plan is right. Proved: " << proved << ", over "
     << toText(plan["certificate"]["consecutive_steps"]) << " consecutive steps.</p>\n";
}

void Report::writeCards() {
  std::string mesh;
  for (const Json &axis : plan["mesh"]["axes"])
    mesh += (mesh.empty() ? "" : " ") + toText(axis["name"]) + "=" + toText(axis["size"]);
  int64_t least = std::numeric_limits<int64_t>::max(), most = 0;
  for (const Json &memory : plan["memory"]) {
    least = std::min(least, memory["arena"].get<int64_t>());
    most = std::max(most, memory["arena"].get<int64_t>());
  }
  auto card = [&](StringRef title, const std::string &value) {
    os << "<li>" << title << "<b>" << value << "</b></li>\n";
  };
  os << "<ul class=\"cards\">\n";
  card("ranks", std::to_string(countRanks()));
  card("mesh", mesh);
  card("stages", std::to_string(plan["stages"].size()));
  card("schedule", toText(plan["pipeline"]["schedule"]));
  card("microbatches", toText(plan["pipeline"]["microbatches"]));
  card("memory of a rank", least >= most ? toSize(most) : toSize(least) + " to " + toSize(most));
  card("bubble", formatv("{0:F2} %", 100 * timeline.simulation.bubble));
  os << "</ul>\n";
}

/// As many actions as a page bears.
static constexpr size_t kMostDrawn = 20000;

void Report::writeTimeline() {
  const schedule::Schedule &list = timeline.solution;
  const schedule::Simulation &simulation = timeline.simulation;
  heading("Timeline");
  os << "<p>One step as simulated: makespan " << llvm::format("%.6g", simulation.makespan)
     << " in the unit of costs. Blue is forward, green backward, light green weight gradients, orange a "
        "pair; the critical path has a red edge.</p>\n";
  if (list.numActions() > kMostDrawn || !(simulation.makespan > 0)) {
    os << "<p>" << list.numActions()
       << " actions are not drawn here; open the trace in ui.perfetto.dev.</p>\n";
    return;
  }
  std::set<std::pair<int, int>> critical;
  for (auto cell : schedule::criticalPath(timeline.problem, list, simulation))
    critical.insert(cell);
  constexpr int width = 1100, height = 22, left = 40;
  os << formatv("<div class=\"wide\"><svg role=\"img\" aria-label=\"timeline of the ranks\" width=\"{0}\" "
                "height=\"{1}\">\n",
                width + left, list.rows.size() * (height + 4));
  for (auto [rank, row] : llvm::enumerate(list.rows)) {
    size_t y = rank * (height + 4);
    os << formatv("<text x=\"0\" y=\"{0}\">{1}</text>\n", y + 15, rank);
    for (auto [cell, action] : llvm::enumerate(row)) {
      if (!action.isCompute())
        continue;
      const schedule::Interval &span = simulation.spans[rank][cell];
      std::string text = schedule::toString(action);
      char letter = action.kind == schedule::ActionKind::Overlap ? 'O' : schedule::toString(action.kind)[0];
      bool isCritical = critical.count({static_cast<int>(rank), static_cast<int>(cell)});
      os << formatv("<rect class=\"{0}{1}\" x=\"{2:F2}\" y=\"{3}\" width=\"{4:F2}\" "
                    "height=\"{5}\"><title>{6}</title></rect>\n",
                    letter, isCritical ? " critical" : "", left + width * span.start / simulation.makespan, y,
                    std::max(0.5, width * (span.end - span.start) / simulation.makespan - 1), height, text);
    }
  }
  os << "</svg></div>\n";
}

void Report::writeMemory() {
  heading("Memory of a rank");
  SmallVector<StringRef> titles{"pipeline coordinate"};
  SmallVector<std::string> uses;
  for (const auto &[use, bytes] : plan["memory"][0].items())
    if (bytes.is_number())
      uses.push_back(use);
  SmallVector<std::string> columns =
      llvm::map_to_vector(uses, [](const std::string &use) { return use + "#"; });
  llvm::append_range(titles, columns);
  titles.push_back("most temporary memory in");
  Table table(os, titles);
  for (auto [coordinate, memory] : llvm::enumerate(plan["memory"])) {
    SmallVector<std::string> cells{std::to_string(coordinate)};
    for (const std::string &use : uses)
      cells.push_back(toSize(memory[use].get<double>()));
    cells.push_back(toText(memory["largest"]));
    table.row(cells);
  }
}

void Report::writeStages() {
  heading("Stages");
  Table table(os, {"stage", "coordinate#", "forward#", "input gradients#", "weight gradients#", "parameters#",
                   "receives from", "sends to"});
  auto peers = [](const Json &transfers) {
    std::set<int64_t> stages;
    for (const Json &transfer : transfers)
      stages.insert(transfer["stage"].get<int64_t>());
    std::string text;
    for (int64_t stage : stages)
      text += (text.empty() ? "" : ", ") + std::to_string(stage);
    return text;
  };
  for (auto [index, stage] : llvm::enumerate(plan["stages"])) {
    SmallVector<std::string> cells{toText(stage["name"]), toText(plan["pipeline"]["stages"][index])};
    const schedule::StageCost &cost = timeline.problem.costs[index % timeline.problem.costs.size()];
    for (double number : {cost.forward, cost.inputGrad, cost.weightGrad})
      cells.push_back(toNumber(number));
    cells.push_back(std::to_string(stage["parameters"].size()));
    cells.push_back(peers(stage["receives"]));
    cells.push_back(peers(stage["sends"]));
    table.row(cells);
  }
}

/// Calls that serve like boundaries in one row.
void Report::writeCalls() {
  struct Calls {
    int64_t perStep = 0;
    double bytes = 0;
    std::set<std::string> modules;
  };
  std::map<std::vector<std::string>, Calls> rows;
  int64_t microbatches = plan["pipeline"]["microbatches"].get<int64_t>();
  for (StageOp stage : module.getOps<StageOp>())
    for (Operation &op : stage.getBody().front()) {
      auto communicator = op.getAttrOfType<FlatSymbolRefAttr>("communicator");
      if (!communicator)
        continue;
      auto boundary = op.getAttrOfType<StringAttr>("plumb.boundary");
      int64_t bytes = 0;
      for (Type type : op.getNumOperands() ? TypeRange(op.getOperandTypes()) : TypeRange(op.getResultTypes()))
        bytes += getByteSize(type);
      bool once = !getPart(&op).isPerMicrobatch() && !getPart(&op).isTransfer();
      Calls &calls = rows[{op.getName().stripDialect().str(), communicator.getValue().str(),
                           boundary ? boundary.str() : std::string(), stringifyPhase(getPhase(&op)).str()}];
      int64_t times = once ? 1 : microbatches;
      calls.perStep += times;
      calls.bytes += static_cast<double>(times * bytes);
      auto where = op.getAttrOfType<StringAttr>("plumb.module");
      calls.modules.insert(where ? where.str() : std::string());
    }
  heading("Calls between ranks");
  Table table(os, {"call", "communicator", "boundary", "phase", "per step, all stages#", "bytes handed over#",
                   "for"});
  for (const auto &[key, calls] : rows) {
    std::string modules = escape(*calls.modules.begin());
    if (calls.modules.size() > 1)
      modules += " and " + std::to_string(calls.modules.size() - 1) + " more";
    table.row({escape(key[0]), escape(key[1]), "<code>" + escape(key[2]) + "</code>", escape(key[3]),
               std::to_string(calls.perStep), toSize(calls.bytes), modules});
  }
}

void Report::writeParameters() {
  heading("Parameters");
  Table table(os, {"name", "also called", "type", "layout", "owner#", "held by stages"});
  for (const Json &parameter : plan["parameters"]) {
    std::string aliases, holders;
    for (const Json &alias : parameter["aliases"])
      aliases += (aliases.empty() ? "" : ", ") + toText(alias);
    for (const Json &holder : parameter["holders"])
      holders += (holders.empty() ? "" : ", ") + toText(holder);
    table.row({toText(parameter["name"]), aliases,
               toText(parameter["dtype"]) + " " + toText(parameter["shape"]),
               "<code>" + toText(parameter["layout"]) + "</code>", toText(parameter["owner"]), holders});
  }
}

void Report::write() {
  writeHead();
  writeCards();
  writeTimeline();
  writeMemory();
  writeStages();
  writeCalls();
  writeParameters();
  os << "</body></html>\n";
}

//===----------------------------------------------------------------------===//
// The files
//===----------------------------------------------------------------------===//

LogicalResult plumb::emitReport(ModuleOp module, raw_ostream &os) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (failed(emitPlanFile(module, stream)))
    return failure();
  FailureOr<Pipeline> pipeline = Pipeline::read(module);
  FailureOr<Timeline> timeline = simulatePlan(*pipeline);
  if (failed(timeline))
    return failure();
  Report(module, Json::parse(text), *timeline, os).write();
  return success();
}
