#include "plumb/Schedule/Command.h"
#include "plumb/Schedule/Location.h"
#include "plumb/Schedule/Report.h"
#include "plumb/Schedule/Verifier.h"
#include "plumb/Support/Bounds.h"
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

using namespace plumb::schedule;
using namespace plumb::bounds;

static CommandOutput fail(int exitCode, const std::string &message) {
  return {exitCode, "", "error: " + message + "\n"};
}

/// Reads exactly `count` numbers within `bounds`, separated by commas (any number of them if `count` is 0).
static bool parseNumbers(const std::string &text, size_t count, const plumb::Bounds &bounds,
                         std::vector<double> &numbers) {
  const char *at = text.data(), *end = at + text.size();
  numbers.clear();
  while (true) {
    double number = 0;
    auto [next, status] = std::from_chars(at, end, number);
    if (status != std::errc() || !bounds.contains(number))
      return false;
    numbers.push_back(number);
    if (next == end)
      return count == 0 || numbers.size() == count;
    if (*next != ',')
      return false;
    at = next + 1;
  }
}

static size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

static std::string unknownKind(const std::string &name) {
  if (name == "custom")
    return "--kind custom: a custom schedule is a CSV file; check it with --validate FILE";
  std::string all, nearest;
  for (Kind kind : allKinds()) {
    std::string known = toString(kind);
    all += (all.empty() ? "" : ", ") + known;
    if (nearest.empty() || editDistance(name, known) < editDistance(name, nearest))
      nearest = known;
  }
  return "--kind " + name + ": no such schedule; did you mean '" + nearest + "'? Known are " + all;
}

namespace {

/// The numbers of a request.
struct Numbers {
  std::vector<double> costs{1, 1, 1, 0}, activations{1, 0, -1};
  double memoryLimit = std::numeric_limits<double>::infinity();
};

} // namespace

static std::string parseRequest(const GenerateRequest &request, Numbers &numbers) {
  if (request.ranks < 1 || request.microbatches < 1 || request.stagesPerRank < 0)
    return "--ranks and --microbatches are needed, and --stages-per-rank counts from 1";
  auto wrong = [](const char *option, const std::string &text, const std::string &expected) {
    return std::string(option) + " " + text + ": expected " + expected;
  };
  if (!request.costs.empty() && !parseNumbers(request.costs, 4, kCost, numbers.costs))
    return wrong("--costs", request.costs,
                 "four numbers F,I,W,C" + kCost.str() + ", for example 1,1,1,0, or a JSON file");
  if (!request.activationMemory.empty() &&
      !parseNumbers(request.activationMemory, 3, kMemoryChange, numbers.activations))
    return wrong("--activation-memory", request.activationMemory,
                 "three numbers F,I,W" + kMemoryChange.str() + ", for example 1,0,-1");
  std::vector<double> limit;
  if (!request.memoryLimit.empty()) {
    if (!parseNumbers(request.memoryLimit, 1, kMemory, limit) || limit[0] == 0)
      return wrong("--memory-limit", request.memoryLimit, "a number above 0, up to 1e15");
    numbers.memoryLimit = limit[0];
  }
  if (!request.format.empty() && request.format != "csv" && request.format != "text" &&
      request.format != "json")
    return "--format " + request.format + ": expected csv, text or json";
  return "";
}

static Problem makeProblem(Kind kind, const GenerateRequest &request, const Numbers &numbers,
                           int stagesPerRank, double share) {
  // A product that is too large is left for `check` to report.
  long long stages = std::min<long long>(static_cast<long long>(request.ranks) * stagesPerRank, 1 << 30);
  Problem problem = standardProblem(kind, request.ranks, static_cast<int>(stages), request.microbatches);
  if (problem.placements.empty())
    return problem;
  const std::vector<double> &c = numbers.costs, &a = numbers.activations;
  problem.setCosts({c[0] * share, c[1] * share, c[2] * share}, c[3]);
  if (!request.stageCosts.empty()) {
    problem.costs = request.stageCosts; // `check` compares their number with that of the stages
    for (Edge &edge : problem.edges)
      edge.cost = request.transferCost;
  }
  problem.setActivations({a[0] * share, a[1] * share, a[2] * share});
  problem.memoryLimit = numbers.memoryLimit;
  return problem;
}

/// One stage per rank up to four, in a loop and in a V, unless the number is given.
static std::vector<Problem> autoCandidates(const GenerateRequest &request, const Numbers &numbers) {
  std::vector<Problem> candidates;
  // Costs of each stage say how many stages there are.
  int perRank = request.stagesPerRank;
  if (!request.stageCosts.empty() && perRank == 0)
    perRank = static_cast<int>(std::max<size_t>(1, request.stageCosts.size() / request.ranks));
  bool given = perRank > 0;
  for (int v = given ? perRank : 1; v <= (given ? perRank : 4); ++v) {
    double share = given ? 1 : 1.0 / v;
    candidates.push_back(makeProblem(Kind::OneFOneB, request, numbers, v, share));
    if (v == 2 && request.ranks > 1)
      candidates.push_back(makeProblem(Kind::ZeroBubbleV, request, numbers, v, share));
  }
  return candidates;
}

static Result<Choice> solve(Kind kind, const GenerateRequest &request, const Numbers &numbers) {
  if (kind == Kind::Auto)
    return choose(autoCandidates(request, numbers));
  bool onV =
      kind == Kind::ZeroBubbleV || kind == Kind::VHalf || kind == Kind::VMin || kind == Kind::DualPipeV;
  int stagesPerRank = request.stagesPerRank > 0 ? request.stagesPerRank : onV ? 2 : 1;
  Problem problem = makeProblem(kind, request, numbers, stagesPerRank, 1);
  Result<Schedule> schedule = generate(kind, problem);
  if (!schedule)
    return schedule.diagnostic();
  return Choice{kind, std::move(problem), std::move(*schedule)};
}

CommandOutput plumb::schedule::runGenerate(const GenerateRequest &request) {
  std::optional<Kind> kind = parseKind(request.kind);
  if (!kind)
    return fail(2, unknownKind(request.kind));
  Numbers numbers;
  if (std::string wrong = parseRequest(request, numbers); !wrong.empty())
    return fail(2, wrong);
  Result<Choice> choice = solve(*kind, request, numbers);
  if (!choice)
    return fail(1, choice.diagnostic().toString());
  if (request.format == "csv")
    return {0, toCSV(choice->schedule), ""};
  Result<Simulation> simulation = simulate(choice->problem, choice->schedule);
  if (!simulation)
    return fail(70, simulation.diagnostic().toString());
  return {0, request.format == "json" ? toJSON(*choice, *simulation) : toText(*choice, *simulation), ""};
}

/// "file:line:column" of a cell, as far as it is known.
static std::string locate(const ValidateRequest &request, const Diagnostic &diagnostic) {
  if (diagnostic.rank < 0)
    return request.fileName;
  auto [line, column] = locateCell(request.text, diagnostic.rank, diagnostic.cell);
  return request.fileName + ":" + std::to_string(line) + (column ? ":" + std::to_string(column) : "");
}

static CommandOutput rejected(const ValidateRequest &request, const Diagnostic &diagnostic) {
  return {3, std::string("reject ") + toString(diagnostic.violation) + "\n",
          locate(request, diagnostic) + ": error: " + diagnostic.toString() + "\n"};
}

CommandOutput plumb::schedule::runValidate(const ValidateRequest &request) {
  static const std::map<std::string, Transfers> semantics = {{"", Transfers::Rendezvous},
                                                             {"rendezvous", Transfers::Rendezvous},
                                                             {"grouped", Transfers::Grouped},
                                                             {"async", Transfers::Async},
                                                             {"streams", Transfers::Streams}};
  auto transfers = semantics.find(request.transfers);
  if (transfers == semantics.end())
    return fail(2, "--transfers " + request.transfers + ": expected rendezvous, grouped, async or streams");
  if (request.stages < 1 || request.microbatches < 1 || request.ranks < 0 || request.replicas < 0)
    return fail(2, "--stages and --microbatches are needed; they, --ranks and --replicas count from 1");
  std::vector<double> map;
  if (!request.map.empty() &&
      (!parseNumbers(request.map, 0, kIndex, map) ||
       std::any_of(map.begin(), map.end(), [](double rank) { return rank != std::floor(rank); })))
    return fail(2, "--map " + request.map + ": expected the rank of each stage, for example 0,1,1,0");

  Result<Schedule> schedule = parse(request.text);
  if (!schedule)
    return rejected(request, schedule.diagnostic());
  VerifyOptions options;
  options.transfers = transfers->second;
  options.replicas = std::max(request.replicas, 1);
  int rows = static_cast<int>(schedule->rows.size());
  int ranks = request.ranks > 0 ? request.ranks : std::max(1, rows / options.replicas);
  Problem problem = Problem::chain(ranks, request.stages, request.microbatches);
  problem.training = !request.forwardOnly;
  problem.placements.clear();
  if (!map.empty())
    problem.placements = {std::vector<int>(map.begin(), map.end())};
  if (std::optional<Diagnostic> error = verify(problem, *schedule, options))
    return error->violation == Violation::BadProblem ? fail(1, error->toString()) : rejected(request, *error);
  return {0,
          "accept: " + std::to_string(schedule->numActions()) + " actions on " + std::to_string(rows) +
              " ranks\n",
          ""};
}
