#include "Fixtures.h"
#include "plumb/Schedule/Communication.h"
#include "plumb/Schedule/Generators.h"
#include "plumb/Schedule/Verifier.h"
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
      EXPECT_EQ(error ? "reject" : "accept", question["verdict_by_p2p"][name]) << (error ? error->toString() : "");
      if (!error)
        continue;
      std::vector<std::string> classes = question["also_true"];
      classes.push_back(question["reason_class"]);
      EXPECT_NE(std::find(classes.begin(), classes.end(), toString(error->violation)), classes.end())
          << error->toString();
      // Where no cell is at fault (something is missing), several places are as good.
      const json &where = question["where"];
      if (toString(error->violation) != question["reason_class"] || where.is_null() || where["cell"].is_null())
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
    for (Transfers transfers : {Transfers::Rendezvous, Transfers::Grouped, Transfers::Async, Transfers::Streams}) {
      std::optional<Diagnostic> error = verify(problem, *schedule, {transfers});
      EXPECT_FALSE(error) << error->toString();
    }
    if (row["form"] == "compute") {
      Result<Schedule> lowered = placeCommunication(problem, *schedule);
      ASSERT_TRUE(lowered) << lowered.diagnostic().toString();
      for (Transfers transfers : {Transfers::Rendezvous, Transfers::Grouped, Transfers::Async, Transfers::Streams}) {
        std::optional<Diagnostic> error = verify(problem, *lowered, {transfers, ListForm::Lowered});
        EXPECT_FALSE(error) << error->toString();
      }
    }
  }
}
