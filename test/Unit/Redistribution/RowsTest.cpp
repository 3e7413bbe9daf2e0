//===- RowsTest.cpp - The published redistribution rows -------------------===//
#include "TestSupport.h"
#include "plumb/Redistribution/Bound.h"
#include "plumb/Redistribution/IndexSet.h"
#include "plumb/Redistribution/Report.h"
#include <fstream>
#include <nlohmann/json.hpp>

using namespace plumb::redistribution;
using Json = nlohmann::ordered_json;

namespace {

void forEachRow(const char *file, llvm::function_ref<void(const std::string &, const Json &)> visit) {
  std::ifstream in(std::string(PLUMB_FIXTURES "/redistribution/") + file);
  ASSERT_TRUE(in.good()) << file;
  for (std::string line; std::getline(in, line);)
    visit(line, Json::parse(line));
}

Json answerTo(const std::string &line, bool exchange, PlanCache &cache) {
  PlanOptions options;
  options.exchange = exchange;
  BatchAnswer answer = answerBatchRow(line, options, cache);
  EXPECT_EQ(answer.error, "") << line.substr(0, 200) << ": " << answer.json;
  return Json::parse(answer.json);
}

TEST(Rows, NeverMoreBytesThanTheBestKnown) {
  PlanCache cache;
  forEachRow("bytes.jsonl", [&](const std::string &line, const Json &row) {
    Json answer = answerTo(line, false, cache);
    for (const char *rival : {"best_bytes_fraction", "shardy_bytes_fraction", "dtensor_greedy_bytes_fraction",
                              "dtensor_graph_bytes_fraction"})
      if (!row[rival].is_null())
        EXPECT_LE(answer["bytes_fraction"].get<double>(), row[rival].get<double>() + 1e-9)
            << row["id"] << rival;
    EXPECT_LE(answer["bound_fraction"].get<double>(), answer["bytes_fraction"].get<double>() + 1e-9)
        << row["id"];
    EXPECT_TRUE(answer["optimal"].get<bool>()) << row["id"];
  });
}

TEST(Rows, ExchangeReachesTheLowerBound) {
  PlanCache cache;
  forEachRow("bytes.jsonl", [&](const std::string &line, const Json &row) {
    Json answer = answerTo(line, true, cache);
    EXPECT_LE(answer["bytes_fraction"].get<double>(), row["best_bytes_fraction"].get<double>() + 1e-9)
        << row["id"];
    if (row["partial"].empty()) {
      EXPECT_NEAR(answer["bytes_fraction"].get<double>(), answer["bound_fraction"].get<double>(), 1e-9)
          << row["id"];
      EXPECT_NEAR(answer["bound_fraction"].get<double>(), row["p2p_recv_max_fraction"].get<double>(), 1e-9)
          << row["id"];
    }
  });
}

/// `parts` are the rows' local tensors, in rank order.
void expectLocals(const Json &parts, const Json &shapes, const Json &offsets, const Json &id) {
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    EXPECT_EQ(shapes[rank], parts[rank]["shape"]) << id;
    for (size_t d = 0; d < parts[rank]["shape"].size(); ++d)
      if (parts[rank]["shape"][d] != 0) {
        EXPECT_EQ(offsets[rank][d], parts[rank]["offset"][d]) << id;
      }
  }
}

TEST(Rows, UnevenShardsAreExact) {
  PlanCache cache;
  for (bool exchange : {false, true})
    forEachRow("uneven.jsonl", [&](const std::string &line, const Json &row) {
      Json answer = answerTo(line, exchange, cache);
      expectLocals(row["src_local"], answer["source_local_shapes"], answer["source_offsets"], row["id"]);
      expectLocals(row["dst_local"], answer["local_shapes"], answer["offsets"], row["id"]);
    });
}

TEST(Rows, UnevenExchangeReachesTheLowerBound) {
  PlanCache cache;
  forEachRow("uneven.jsonl", [&](const std::string &line, const Json &row) {
    if (!row["partial"].empty())
      return;
    Json answer = answerTo(line, true, cache);
    EXPECT_NEAR(answer["bytes_fraction"].get<double>(), answer["bound_fraction"].get<double>(), 1e-9)
        << row["id"];
  });
}

TEST(Rows, UnevenContentsAreExact) {
  forEachRow("uneven.jsonl", [&](const std::string &, const Json &row) {
    Mesh m;
    for (const auto &[name, size] : row["mesh"].items())
      m.axes.push_back({name, size.get<int64_t>()});
    auto sizes = row["shape"].get<std::vector<int64_t>>();
    auto read = [&](const char *dims, const char *partial) {
      Layout result;
      for (const Json &dim : row[dims]) {
        result.dims.emplace_back();
        for (const Json &axis : dim)
          result.dims.back().axes.push_back(wholeAxis(m, *m.find(axis.get<std::string>())));
      }
      for (const Json &axis : row[partial])
        result.partial.push_back({wholeAxis(m, *m.find(axis.get<std::string>())), Reduction::Sum});
      return result;
    };
    Layout from = read("src", "partial"), to = read("dst", "dst_partial");
    RankData source;
    for (const Json &part : row["src_local"])
      source.push_back(part["data"].get<std::vector<int64_t>>());
    for (bool exchange : {false, true}) {
      PlanOptions options;
      options.exchange = exchange;
      auto plan = planned(m, sizes, from, to, options);
      ASSERT_TRUE(plan);
      RankData result = llvm::cantFail(execute(*plan, source));
      for (size_t rank = 0; rank < result.size(); ++rank)
        EXPECT_EQ(result[rank], row["dst_local"][rank]["data"].get<std::vector<int64_t>>())
            << row["id"] << stepsOf(*plan);
    }
    if (!row["p2p_recv_elements"].is_null()) {
      EXPECT_EQ(elementsLacking(m, sizes, from, to), row["p2p_recv_elements"].get<std::vector<int64_t>>())
          << row["id"];
    }
  });
}

} // namespace
