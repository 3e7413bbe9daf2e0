#include "plumb/Schedule/Verifier.h"
#include "Fixtures.h"
#include "plumb/Schedule/Communication.h"
#include "plumb/Schedule/Generators.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace plumb::schedule;
using nlohmann::json;

static std::vector<json> verifierCases() {
  std::vector<json> cases;
  for (const std::string &line : fixtures::split(fixtures::read("verifier_cases.jsonl"), '\n'))
    if (!line.empty())
      cases.push_back(json::parse(line));
  return cases;
}

static std::optional<Diagnostic> decide(const json &question, Transfers transfers) {
  Result<Schedule> schedule = parseCSV(fixtures::read(question["file"]));
  if (!schedule)
    return schedule.diagnostic();
  Problem problem = Problem::chain(question["n_ranks"], question["n_stages"], question["n_microbatches"]);
  problem.training = question["mode"] == "train";
  problem.placements.clear();
  if (!question["stage_to_rank"].is_null())
    problem.placements = {question["stage_to_rank"].get<std::vector<int>>()};
  VerifyOptions options;
  options.transfers = transfers;
  options.replicas = question["replicas"];
  options.form = question["format"] == "compute" ? ListForm::Compute : ListForm::Lowered;
  return verify(problem, *schedule, options);
}

TEST(Verifier, DecidesEveryPublishedCase) {
  const std::map<std::string, Transfers> semantics = {
      {"async", Transfers::Async}, {"grouped", Transfers::Grouped}, {"rendezvous", Transfers::Rendezvous}};
  std::vector<json> cases = verifierCases();
  ASSERT_EQ(cases.size(), 54u);
  for (const json &question : cases)
    for (const auto &[name, transfers] : semantics) {
      SCOPED_TRACE(question["name"].get<std::string>() + " under " + name);
      std::optional<Diagnostic> error = decide(question, transfers);
      EXPECT_EQ(error ? "reject" : "accept", question["verdict_by_p2p"][name])
          << (error ? error->toString() : "");
      if (!error)
        continue;
      std::vector<std::string> classes = question["also_true"];
      classes.push_back(question["reason_class"]);
      EXPECT_NE(std::find(classes.begin(), classes.end(), toString(error->violation)), classes.end())
          << error->toString();
      // Where no cell is at fault (something is missing), several places are as good.
      const json &where = question["where"];
      if (toString(error->violation) != question["reason_class"] || where.is_null() ||
          where["cell"].is_null())
        continue;
      EXPECT_EQ(error->rank, where["rank"].get<int>()) << error->toString();
      EXPECT_EQ(error->cell, where["cell"].get<int>()) << error->toString();
      EXPECT_EQ(error->action, where["action"].get<std::string>()) << error->toString();
    }
}

TEST(Verifier, AcceptsEveryTorchList) {
  for (auto &row : fixtures::readTable("torch_golden/index.csv")) {
    SCOPED_TRACE(row["file"]);
    Result<Schedule> schedule = parseCSV(fixtures::read("torch_golden/" + row["file"]));
    ASSERT_TRUE(schedule) << schedule.diagnostic().toString();
    Problem problem =
        Problem::chain(std::stoi(row["ranks"]), std::stoi(row["stages"]), std::stoi(row["microbatches"]));
    problem.placements.assign(1, {});
    for (const std::string &rank : fixtures::split(row["stage_to_rank"], ';'))
      problem.placements[0].push_back(std::stoi(rank));
    for (Transfers transfers :
         {Transfers::Rendezvous, Transfers::Grouped, Transfers::Async, Transfers::Streams}) {
      std::optional<Diagnostic> error = verify(problem, *schedule, {transfers});
      EXPECT_FALSE(error) << error->toString();
    }
    if (row["form"] == "compute") {
      Result<Schedule> lowered = placeCommunication(problem, *schedule);
      ASSERT_TRUE(lowered) << lowered.diagnostic().toString();
      for (Transfers transfers :
           {Transfers::Rendezvous, Transfers::Grouped, Transfers::Async, Transfers::Streams}) {
        std::optional<Diagnostic> error = verify(problem, *lowered, {transfers, ListForm::Lowered});
        EXPECT_FALSE(error) << error->toString();
      }
    }
  }
}

static Diagnostic rejectionOf(const Problem &problem, const std::string &csv,
                              const VerifyOptions &options = {}) {
  Result<Schedule> schedule = parseCSV(csv);
  if (!schedule)
    return schedule.diagnostic();
  return verify(problem, *schedule, options)
      .value_or(Diagnostic{Violation::BadProblem, -1, -1, "", "accepted", {}});
}

TEST(Verifier, WitnessIsTheShortestCycle) {
  Diagnostic error = rejectionOf(Problem::chain(2, 2, 2), "0F1,0B1,0F0,0B0\n1F0,1B0,1F1,1B1\n");
  EXPECT_EQ(error.violation, Violation::CrossRankWaitCycle);
  EXPECT_EQ(error.witness.size(), 6u) << error.toString();
}

TEST(Verifier, LaunchOrderIsPartOfStreams) {
  // Streams free the computations from waiting for transfers, but 0SEND_F0 is launched behind 0SEND_F1, whose
  // data needs the gradient that 0SEND_F0 leads to.
  Problem problem = Problem::chain(2, 2, 2);
  const char *list = "0F0,0RECV_B0,0B0,0F1,0SEND_F1,0SEND_F0,0RECV_B1,0B1\n"
                     "1RECV_F1,1RECV_F0,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n";
  EXPECT_EQ(rejectionOf(problem, list, {Transfers::Streams}).violation, Violation::DeadlockStreams);
  // Waiting in program order is a deadlock that streams resolve.
  list = "0F0,0F1,0SEND_F0,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
         "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n";
  EXPECT_EQ(rejectionOf(problem, list).violation, Violation::DeadlockRendezvous);
  EXPECT_EQ(rejectionOf(problem, list, {Transfers::Streams}).message, "accepted");
}

TEST(Verifier, MissingGradientEdgesNeedNoTransfer) {
  Problem problem = Problem::chain(2, 2, 1);
  problem.edges[0].gradient = false;
  EXPECT_EQ(rejectionOf(problem, "0F0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0\n").message, "accepted");
  EXPECT_EQ(rejectionOf(problem, "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n").violation,
            Violation::CommOnWrongRank);
}

TEST(Verifier, ShardingClasses) {
  Problem problem = Problem::chain(1, 1, 1);
  EXPECT_EQ(rejectionOf(problem, "0UNSHARD,0UNSHARD,0F0,0B0").violation, Violation::DoubleUnshard);
  EXPECT_EQ(rejectionOf(problem, "0RESHARD,0F0,0B0").violation, Violation::ReshardWithoutUnshard);
  EXPECT_EQ(rejectionOf(problem, "0F0,0UNSHARD,0B0").violation, Violation::ComputeWhileResharded);
  EXPECT_EQ(rejectionOf(problem, "0F0,0B0,0REDUCE_GRAD,0REDUCE_GRAD").violation,
            Violation::DuplicateReduceGrad);
}

TEST(Verifier, PlacementAndMemoryClasses) {
  Problem problem = Problem::chain(2, 2, 1);
  EXPECT_EQ(rejectionOf(problem, "1F0,1B0\n0F0,0B0").violation, Violation::StageOnWrongRank);
  EXPECT_EQ(rejectionOf(problem, "0F0,0B0").violation, Violation::WrongRankCount);
  Problem open = Problem::chain(3, 2, 1);
  open.placements.clear();
  EXPECT_EQ(rejectionOf(open, "0F0,0B0\n1F0,1B0\n1W0").violation, Violation::StageOnTwoRanks);
  EXPECT_EQ(rejectionOf(open, "0F0,0B0\n1F0,1B0\n,").message, "accepted");
  EXPECT_EQ(
      rejectionOf(problem, "0SEND_F0,0F0,0B0\n1F0,1B0", {Transfers::Async, ListForm::Compute}).violation,
      Violation::CommInComputeList);
  Problem limited = Problem::chain(1, 1, 3);
  limited.memoryLimit = 2;
  Diagnostic error = rejectionOf(limited, "0F0,0F1,0F2,0B0,0B1,0B2");
  EXPECT_EQ(error.violation, Violation::MemoryLimit);
  EXPECT_EQ(error.cell, 2);
}
