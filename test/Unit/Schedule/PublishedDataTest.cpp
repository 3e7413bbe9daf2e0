//===- PublishedDataTest.cpp - Generated schedules against published figures ----===//

#include "Fixtures.h"
#include "plumb/Schedule/Generators.h"
#include "plumb/Schedule/Simulation.h"
#include <algorithm>
#include <gtest/gtest.h>

using namespace plumb::schedule;

static const std::map<std::string, Kind> kindOf = {
    {"GPipe", Kind::GPipe},
    {"1F1B", Kind::OneFOneB},
    {"LoopedBFS", Kind::LoopedBFS},
    {"Interleaved1F1B", Kind::InterleavedOneFOneB},
    {"1F1B-I", Kind::InterleavedOneFOneB},
    {"InterleavedZeroBubble", Kind::InterleavedZeroBubble},
    {"ZB-H1", Kind::ZeroBubbleH1},
    {"ZB-H2", Kind::ZeroBubbleH2},
    {"ZB-1p", Kind::ZeroBubble1P},
    {"ZB-2p", Kind::ZeroBubble2P},
    {"ZBV", Kind::ZeroBubbleV},
    {"ZB-V", Kind::ZeroBubbleV},
    {"ZBVZeroBubble", Kind::ZeroBubbleV},
    {"V-Half", Kind::VHalf},
    {"V-Min", Kind::VMin},
    {"DualPipeV", Kind::DualPipeV},
};

static double peakOf(const Simulation &simulation) {
  return *std::max_element(simulation.peakActivations.begin(), simulation.peakActivations.end());
}

TEST(PublishedData, MakespanAndPeakOfEveryRow) {
  size_t rows = 0;
  for (auto &row : fixtures::readTable("makespan_peak.csv")) {
    SCOPED_TRACE(row["schedule"] + " p=" + row["p"] + " m=" + row["m"] + " v=" + row["v"] +
                 " F,I,W=" + row["F"] + "," + row["I"] + "," + row["W"] + " " + row["pair"] + " by " +
                 row["order_source"]);
    Kind kind = kindOf.at(row["schedule"]);
    int p = std::stoi(row["p"]), v = std::stoi(row["v"]);
    Problem problem = standardProblem(kind, p, p * v, std::stoi(row["m"]));
    problem.setCosts({std::stod(row["F"]), std::stod(row["I"]), std::stod(row["W"])}, 0);
    Result<Schedule> schedule = generate(kind, problem);
    ASSERT_TRUE(schedule) << schedule.diagnostic().toString();
    Result<Simulation> simulation =
        simulate(problem, *schedule, row["pair"] == "atomic" ? PairModel::Atomic : PairModel::Sequential);
    ASSERT_TRUE(simulation) << simulation.diagnostic().toString();
    EXPECT_LE(simulation->makespan, std::stod(row["makespan"]));
    EXPECT_LE(peakOf(*simulation), std::stod(row["peak_max_chunks"]));
    if (row["closed_form_status"] == "textbook")
      EXPECT_EQ(simulation->makespan, std::stod(row["makespan"]));
    ++rows;
  }
  EXPECT_EQ(rows, 1176u);
}

TEST(PublishedData, BubbleRatesOfTheZeroBubbleTable) {
  size_t rows = 0;
  for (auto &row : fixtures::readTable("zero_bubble_table.csv")) {
    SCOPED_TRACE(row["setting"] + " " + row["schedule"]);
    Kind kind = kindOf.at(row["schedule"]);
    int p = std::stoi(row["p"]), m = std::stoi(row["m"]), v = std::stoi(row["v"]);
    // The settings A give the times of a whole rank, V those of one of its two chunks.
    double chunks = row["setting"][0] == 'A' ? 1 : 2, scale = chunks / v;
    StageCost cost{std::stod(row["T_F"]) * scale, std::stod(row["T_I"]) * scale,
                   std::stod(row["T_W"]) * scale};
    Problem problem = standardProblem(kind, p, p * v, m);
    problem.setCosts(cost, std::stod(row["T_C"]));
    double hidden = std::stod(row["hidden"]);
    double forward = 34 * hidden + 5 * std::stod(row["heads"]) * std::stod(row["seq"]), weight = 32 * hidden;
    problem.setActivations({forward / v, (weight - forward) / v, -weight / v});
    if (!row["memory_limit_pMF"].empty())
      problem.memoryLimit = std::stod(row["memory_limit_pMF"]) * p * forward;
    Result<Schedule> schedule = generate(kind, problem);
    ASSERT_TRUE(schedule) << schedule.diagnostic().toString();
    Result<Simulation> simulation = simulate(problem, *schedule);
    ASSERT_TRUE(simulation);
    EXPECT_LE(peakOf(*simulation), problem.memoryLimit * (1 + 1e-9));
    double rate = row["metric"] == "max_span" ? simulation->bubbleSpan : simulation->bubble;
    double published = std::stod(row["own_simulation"]);
    bool exact = kind == Kind::OneFOneB || kind == Kind::ZeroBubbleH1;
    if (exact)
      EXPECT_NEAR(rate, published, 0.5001e-4);
    else
      EXPECT_LE(rate, published + 0.0005);
    ++rows;
  }
  EXPECT_EQ(rows, 69u);
}

TEST(PublishedData, NeverSlowerThanTorchAtTheSamePeak) {
  for (auto &row : fixtures::readTable("torch_golden/index.csv")) {
    if (row["form"] != "compute")
      continue;
    SCOPED_TRACE(row["file"]);
    Kind kind = kindOf.at(row["schedule"]);
    Result<Schedule> torch = parseCSV(fixtures::read("torch_golden/" + row["file"]));
    ASSERT_TRUE(torch);
    for (StageCost cost : {StageCost{1, 1, 1}, StageCost{2, 3, 1}, StageCost{1, 1, 2}, StageCost{4, 1, 3}})
      for (double transfer : {0.0, 0.25}) {
        Problem problem = standardProblem(kind, std::stoi(row["ranks"]), std::stoi(row["stages"]),
                                          std::stoi(row["microbatches"]));
        problem.setCosts(cost, transfer);
        Result<Simulation> theirs = simulate(problem, *torch);
        ASSERT_TRUE(theirs);
        Result<Schedule> schedule = generate(kind, problem);
        ASSERT_TRUE(schedule) << schedule.diagnostic().toString();
        Result<Simulation> ours = simulate(problem, *schedule);
        EXPECT_LE(ours->makespan, theirs->makespan + 1e-9)
            << cost.forward << cost.inputGrad << cost.weightGrad;
        EXPECT_LE(peakOf(*ours), peakOf(*theirs));
      }
  }
}

TEST(PublishedData, DualPipeVIsTorchsList) {
  Problem problem = standardProblem(Kind::DualPipeV, 4, 8, 10);
  EXPECT_EQ(toCSV(*generate(Kind::DualPipeV, problem)),
            fixtures::read("torch_golden/dualpipev_4rank_10mb.csv"));
}
