#include "plumb/Schedule/Generators.h"
#include "plumb/Schedule/Communication.h"
#include "plumb/Schedule/CriticalPath.h"
#include "plumb/Schedule/Simulation.h"
#include "plumb/Schedule/Verifier.h"
#include <gtest/gtest.h>
#include <random>

using namespace plumb::schedule;

/// Generates, lowers, and expects the verifier to accept both under every semantics.
static void expectSound(Kind kind, const Problem &problem) {
  Result<Schedule> schedule = generate(kind, problem);
  ASSERT_TRUE(schedule) << schedule.diagnostic().toString();
  std::optional<Diagnostic> error = verify(problem, *schedule, {Transfers::Rendezvous, ListForm::Compute});
  ASSERT_FALSE(error) << error->toString();
  Result<Schedule> lowered = placeCommunication(problem, *schedule);
  ASSERT_TRUE(lowered) << lowered.diagnostic().toString();
  for (Transfers transfers :
       {Transfers::Rendezvous, Transfers::Grouped, Transfers::Async, Transfers::Streams}) {
    error = verify(problem, *lowered, {transfers, ListForm::Lowered});
    ASSERT_FALSE(error) << error->toString() << toCSV(*lowered);
  }
}

static Problem randomProblem(std::mt19937 &random) {
  auto upTo = [&](int n) { return static_cast<int>(random() % n); };
  int ranks = 1 + upTo(5), stages = ranks + upTo(8);
  Problem problem = Problem::chain(ranks, stages, 1 + upTo(9), upTo(2) ? Placement::Loop : Placement::V);
  if (upTo(3) == 0) {
    std::shuffle(problem.placements[0].begin(), problem.placements[0].end(), random);
  }
  for (StageCost &cost : problem.costs)
    cost = {upTo(4) * 0.7, upTo(4) * 0.3, upTo(4) * 1.1};
  for (int skips = upTo(4); skips > 0 && stages > 2; --skips) {
    int from = upTo(stages - 2), to = from + 2 + upTo(stages - from - 2);
    bool known = false;
    for (const Edge &edge : problem.edges)
      known |= edge.from == from && edge.to == to;
    if (!known)
      problem.edges.push_back({from, to, 0, upTo(2) == 0});
  }
  for (Edge &edge : problem.edges)
    edge.cost = upTo(3) * 0.5;
  return problem;
}

TEST(Generators, SoundOnRandomProblems) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    Problem problem = randomProblem(random);
    for (Kind kind : {Kind::GPipe, Kind::OneFOneB, Kind::EagerOneFOneB, Kind::ForwardOnly}) {
      SCOPED_TRACE(std::string(toString(kind)) + " round " + std::to_string(round));
      problem.training = kind != Kind::ForwardOnly;
      expectSound(kind, problem);
    }
  }
}

/// Costs and skip connections of a random problem on the shape that the kind wants.
TEST(Generators, EveryKindIsSoundWithSkipsAndUnequalStages) {
  std::mt19937 random(11);
  for (int round = 0; round < 12; ++round)
    for (Kind kind : allKinds()) {
      bool two =
          kind == Kind::ZeroBubbleV || kind == Kind::VHalf || kind == Kind::VMin || kind == Kind::DualPipeV;
      bool loop =
          kind == Kind::LoopedBFS || kind == Kind::InterleavedOneFOneB || kind == Kind::InterleavedZeroBubble;
      int ranks = kind == Kind::DualPipe ? 2 + 2 * static_cast<int>(random() % 2)
                                         : 1 + static_cast<int>(random() % 4);
      int stages = ranks * (two ? 2 : loop ? 1 + static_cast<int>(random() % 3) : 1);
      int microbatches = 2 * ranks * (1 + static_cast<int>(random() % 2));
      Problem problem = standardProblem(kind, ranks, stages, microbatches);
      for (StageCost &cost : problem.costs)
        cost = {1.0 + random() % 3, 0.5 * (random() % 4), 0.25 * (random() % 5)};
      for (Edge &edge : problem.edges)
        edge.cost = 0.25 * (random() % 3);
      if (stages > 2)
        problem.edges.push_back({0, stages - 1, 0.5, random() % 2 == 0});
      SCOPED_TRACE(std::string(toString(kind)) + " round " + std::to_string(round));
      expectSound(kind, problem);
    }
}

TEST(Generators, SeveralStagesPerRankReachTheInterleavedClosedForm) {
  for (int p : {2, 3, 4, 8})
    for (int v : {2, 3})
      for (int m : {p, 2 * p, 4 * p})
        for (StageCost cost : {StageCost{1, 1, 1}, StageCost{2, 3, 1}, StageCost{4, 1, 3}}) {
          Problem problem = Problem::chain(p, p * v, m);
          problem.setCosts(cost, 0);
          Result<Simulation> simulation = simulate(problem, *generate(Kind::OneFOneB, problem));
          EXPECT_LE(simulation->makespan, (m * v + p - 1) * cost.total()) << p << ' ' << v << ' ' << m;
          for (int r = 0; r < p; ++r)
            EXPECT_LE(simulation->peakActivations[r], std::min(2 * (p - r - 1) + (v - 1) * p + 1, m * v));
          simulation = simulate(problem, *generate(Kind::GPipe, problem));
          EXPECT_LE(simulation->makespan, (m * v + p - 1) * cost.total()) << p << ' ' << v << ' ' << m;
        }
}

TEST(Generators, AutoIsNeverWorseThanAKind) {
  std::mt19937 random(5);
  for (int round = 0; round < 6; ++round) {
    int p = 2 + static_cast<int>(random() % 3), m = 2 * p;
    Problem problem = Problem::chain(p, 2 * p, m, round % 2 ? Placement::V : Placement::Loop);
    for (StageCost &cost : problem.costs)
      cost = {1.0 + random() % 3, 1.0 + random() % 3, 1.0 + random() % 2};
    problem.memoryLimit = 2 * p + static_cast<int>(random() % 3);
    Result<Choice> choice = choose({problem});
    ASSERT_TRUE(choice) << choice.diagnostic().toString();
    Result<Simulation> best = simulate(problem, choice->schedule);
    for (double peak : best->peakActivations)
      EXPECT_LE(peak, problem.memoryLimit);
    for (Kind kind : allKinds()) {
      if (kind == Kind::Auto || checkPrecondition(kind, problem))
        continue;
      if (Result<Schedule> schedule = generate(kind, problem))
        EXPECT_LE(best->makespan, simulate(problem, *schedule)->makespan * (1 + 1e-9)) << toString(kind);
    }
  }
}

TEST(Generators, FewerMicrobatchesThanStages) {
  for (Kind kind : allKinds()) {
    bool two =
        kind == Kind::ZeroBubbleV || kind == Kind::VHalf || kind == Kind::VMin || kind == Kind::DualPipeV;
    Problem problem = standardProblem(kind, 4, two ? 8 : 4, 1);
    SCOPED_TRACE(toString(kind));
    if (std::optional<Diagnostic> error = checkPrecondition(kind, problem))
      EXPECT_EQ(error->violation, Violation::UnmetPrecondition);
    else
      expectSound(kind, problem);
  }
}

TEST(CriticalPath, IsAsLongAsTheMakespan) {
  std::mt19937 random(17);
  for (int round = 0; round < 50; ++round) {
    Problem problem = randomProblem(random);
    for (Edge &edge : problem.edges)
      edge.cost = 0;
    Schedule schedule = *generate(Kind::OneFOneB, problem);
    Result<Simulation> simulation = simulate(problem, schedule);
    double length = 0;
    for (auto [rank, cell] : criticalPath(problem, schedule, *simulation))
      length += simulation->spans[rank][cell].end - simulation->spans[rank][cell].start;
    EXPECT_NEAR(length, simulation->makespan, 1e-9);
  }
}
