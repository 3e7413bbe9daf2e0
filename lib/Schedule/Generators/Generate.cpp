#include "Generators.h"
#include "Search.h"
#include "plumb/Schedule/Generators.h"
#include "plumb/Schedule/Simulation.h"
#include "plumb/Schedule/Verifier.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

using namespace plumb::schedule;

namespace {

enum class Shape { Any, Loop, OnePerRank, V, TwoCopies };

struct KindInfo {
  Kind kind;
  const char *name;
  Shape shape;
  Schedule (*generate)(const Problem &problem);
};

double largestActivation(const Problem &problem) {
  double largest = 0;
  for (const ActivationChange &change : problem.activations)
    largest = std::max(largest, change.forward);
  return largest;
}

/// The activation memory that a kind is defined to keep within, whatever the problem's limit; as a number of
/// activations, those of one microbatch on one stage.
double ownLimit(Kind kind, const Problem &problem) {
  switch (kind) {
  case Kind::ZeroBubble1P:
    return problem.ranks;
  case Kind::ZeroBubble2P:
  case Kind::ZeroBubbleV:
    return 2 * problem.ranks;
  case Kind::VHalf:
    return 2 * ((problem.ranks + 2) / 2);
  case Kind::VMin:
    return 2 * ((problem.ranks + 4) / 3);
  default:
    return std::numeric_limits<double>::infinity();
  }
}

/// Searches within the limit of the kind, or the problem's own if that is smaller.
Schedule searchWithin(Kind kind, const Problem &problem, std::vector<Schedule> orders, Objective objective,
                      Effort effort) {
  Problem limited = problem;
  limited.memoryLimit = std::min(problem.memoryLimit, ownLimit(kind, problem) * largestActivation(problem));
  return searchSchedule(limited, orders, objective, effort);
}

Schedule generateInterleavedZeroBubble(const Problem &problem) {
  Schedule pattern = interleavedZeroBubblePattern(problem);
  Result<Simulation> simulation = simulate(problem, pattern);
  if (!simulation)
    return {};
  double peak = *std::max_element(simulation->peakActivations.begin(), simulation->peakActivations.end());
  Problem limited = problem;
  limited.memoryLimit = std::min(problem.memoryLimit, peak);
  return searchSchedule(limited, {pattern}, Objective::Makespan, Effort::Quick);
}

// The zero-bubble papers let ranks start their next step at different times, so the span of a rank counts
// there.
Schedule generateZeroBubble1P(const Problem &problem) {
  return searchWithin(Kind::ZeroBubble1P, problem, {zeroBubbleH1Pattern(problem)}, Objective::MaxSpan,
                      Effort::Quick);
}
Schedule generateZeroBubble2P(const Problem &problem) {
  return searchWithin(Kind::ZeroBubble2P, problem,
                      {zeroBubbleH1Pattern(problem), zeroBubbleH2Pattern(problem)}, Objective::MaxSpan,
                      Effort::Quick);
}
Schedule generateZeroBubbleV(const Problem &problem) {
  return searchWithin(Kind::ZeroBubbleV, problem, {zeroBubbleVPattern(problem)}, Objective::Sum,
                      Effort::Quick);
}
Schedule generateVHalf(const Problem &problem) {
  return searchWithin(Kind::VHalf, problem, {vHalfPattern(problem)}, Objective::Makespan, Effort::Thorough);
}
Schedule generateVMin(const Problem &problem) {
  return searchWithin(Kind::VMin, problem, {vMinPattern(problem)}, Objective::Makespan, Effort::Thorough);
}
Schedule generateAuto(const Problem &problem) {
  Result<Choice> choice = choose({problem});
  return choice ? choice->schedule : Schedule{};
}

constexpr std::array kinds = {
    KindInfo{Kind::GPipe, "gpipe", Shape::Any, generateGPipe},
    KindInfo{Kind::OneFOneB, "1f1b", Shape::Any, generateOneFOneB},
    KindInfo{Kind::EagerOneFOneB, "eager-1f1b", Shape::Any, generateEagerOneFOneB},
    KindInfo{Kind::ForwardOnly, "forward-only", Shape::Any, generateForwardOnly},
    KindInfo{Kind::LoopedBFS, "looped-bfs", Shape::Loop, generateLoopedBFS},
    KindInfo{Kind::InterleavedOneFOneB, "interleaved-1f1b", Shape::Loop, generateInterleavedOneFOneB},
    KindInfo{Kind::InterleavedZeroBubble, "interleaved-zb", Shape::Loop, generateInterleavedZeroBubble},
    KindInfo{Kind::ZeroBubbleH1, "zb-h1", Shape::OnePerRank, zeroBubbleH1Pattern},
    KindInfo{Kind::ZeroBubbleH2, "zb-h2", Shape::OnePerRank, zeroBubbleH2Pattern},
    KindInfo{Kind::ZeroBubble1P, "zb-1p", Shape::OnePerRank, generateZeroBubble1P},
    KindInfo{Kind::ZeroBubble2P, "zb-2p", Shape::OnePerRank, generateZeroBubble2P},
    KindInfo{Kind::ZeroBubbleV, "zb-v", Shape::V, generateZeroBubbleV},
    KindInfo{Kind::VHalf, "v-half", Shape::V, generateVHalf},
    KindInfo{Kind::VMin, "v-min", Shape::V, generateVMin},
    KindInfo{Kind::DualPipeV, "dualpipe-v", Shape::V, generateDualPipeV},
    KindInfo{Kind::DualPipe, "dualpipe", Shape::TwoCopies, generateDualPipe},
    KindInfo{Kind::Auto, "auto", Shape::Any, generateAuto},
};

const KindInfo &infoOf(Kind kind) { return kinds[static_cast<size_t>(kind)]; }

std::vector<std::vector<int>> bothDirections(int ranks) {
  std::vector<int> there = Problem::place(ranks, ranks, Placement::Loop);
  return {there, std::vector<int>(there.rbegin(), there.rend())};
}

} // namespace

const char *plumb::schedule::toString(Kind kind) { return infoOf(kind).name; }

std::optional<Kind> plumb::schedule::parseKind(std::string_view name) {
  for (const KindInfo &info : kinds)
    if (name == info.name)
      return info.kind;
  return std::nullopt;
}

bool plumb::schedule::splitsBackward(Kind kind) { return kind > Kind::InterleavedOneFOneB; }

std::vector<Kind> plumb::schedule::allKinds() {
  std::vector<Kind> all;
  for (const KindInfo &info : kinds)
    all.push_back(info.kind);
  return all;
}

Problem plumb::schedule::standardProblem(Kind kind, int ranks, int stages, int microbatches) {
  Placement placement = infoOf(kind).shape == Shape::V ? Placement::V : Placement::Loop;
  Problem problem = Problem::chain(ranks, stages, microbatches, placement);
  problem.training = kind != Kind::ForwardOnly;
  if (kind == Kind::DualPipe && ranks == stages && !problem.placements.empty())
    problem.placements = bothDirections(ranks);
  return problem;
}

/// What is wrong with the stages and their placement for a kind of this shape; empty if nothing.
static std::string checkShape(Shape shape, const Problem &problem) {
  std::string counts =
      std::to_string(problem.stages) + " stages on " + std::to_string(problem.ranks) + " ranks";
  if (shape != Shape::TwoCopies && problem.placements.size() != 1)
    return "needs stages without replicas";
  switch (shape) {
  case Shape::Any:
    return "";
  case Shape::OnePerRank:
    return problem.stages == problem.ranks ? "" : "needs one stage per rank, not " + counts;
  case Shape::Loop:
    if (problem.stages % problem.ranks != 0)
      return "needs the same number of stages on every rank, not " + counts;
    return problem.placements[0] == Problem::place(problem.ranks, problem.stages, Placement::Loop)
               ? ""
               : "needs the placement 'loop': stage s on rank s mod " + std::to_string(problem.ranks);
  case Shape::V:
    if (problem.stages != 2 * problem.ranks)
      return "needs two stages per rank, not " + counts;
    return problem.placements[0] == Problem::place(problem.ranks, problem.stages, Placement::V)
               ? ""
               : "needs the placement 'v': stages r and " + std::to_string(problem.stages - 1) +
                     " - r on rank r";
  case Shape::TwoCopies:
    break;
  }
  if (problem.ranks % 2 != 0 || problem.stages != problem.ranks)
    return "needs an even number of ranks and one stage per rank, not " + counts;
  return problem.placements == bothDirections(problem.ranks)
             ? ""
             : "needs every stage s on the ranks s and " + std::to_string(problem.ranks - 1) + " - s";
}

static std::string checkMicrobatches(Kind kind, const Problem &problem) {
  std::string got = ", not " + std::to_string(problem.microbatches);
  bool interleaved = kind == Kind::InterleavedOneFOneB || kind == Kind::InterleavedZeroBubble;
  if (interleaved && problem.microbatches % problem.ranks != 0)
    return "needs a multiple of " + std::to_string(problem.ranks) + " microbatches, the number of ranks" +
           got;
  bool paired = kind == Kind::DualPipeV || kind == Kind::DualPipe;
  if (paired && problem.microbatches < 2 * problem.ranks)
    return "needs at least " + std::to_string(2 * problem.ranks) +
           " microbatches, twice the number of ranks" + got;
  if (kind == Kind::DualPipe && problem.microbatches % 2 != 0)
    return "needs an even number of microbatches" + got;
  return "";
}

std::optional<Diagnostic> plumb::schedule::checkPrecondition(Kind kind, const Problem &problem) {
  std::string fault;
  if (kind != Kind::Auto && problem.training == (kind == Kind::ForwardOnly))
    fault = problem.training ? "runs forwards only, but the problem is training; use for example 1f1b"
                             : "is for training, but the problem is inference; use forward-only";
  if (fault.empty())
    fault = checkShape(infoOf(kind).shape, problem);
  if (fault.empty())
    fault = checkMicrobatches(kind, problem);
  if (fault.empty())
    return std::nullopt;
  Diagnostic diagnostic;
  diagnostic.violation = Violation::UnmetPrecondition;
  diagnostic.message = std::string("schedule '") + toString(kind) + "' " + fault;
  return diagnostic;
}

/// What limits a kind that no order keeps within: its own limit or that of the problem.
static std::string describeLimit(Kind kind, const Problem &problem) {
  double count = ownLimit(kind, problem);
  if (count * largestActivation(problem) > problem.memoryLimit || std::isinf(count))
    return "the memory limit; raise it or use smaller microbatches";
  return std::to_string(std::llround(count)) +
         " activations, those of one microbatch on the stage that has most, to which this kind keeps on " +
         std::to_string(problem.ranks) +
         " ranks; use a kind that may keep more, such as 1f1b or zb-h2, or balance the stages";
}

Result<Schedule> plumb::schedule::generate(Kind kind, const Problem &problem) {
  if (std::optional<Diagnostic> error = problem.check())
    return *error;
  if (std::optional<Diagnostic> error = checkPrecondition(kind, problem))
    return *error;
  Schedule schedule = infoOf(kind).generate(problem);
  if (schedule.rows.empty()) {
    Diagnostic diagnostic;
    diagnostic.violation = Violation::MemoryLimit;
    diagnostic.message = std::string("no order of schedule '") + toString(kind) +
                         "' was found that keeps within " + describeLimit(kind, problem);
    return diagnostic;
  }
  if (std::optional<Diagnostic> error = verify(problem, schedule, {Transfers::Rendezvous, ListForm::Compute}))
    return *error;
  return schedule;
}
