//===- PlanCommands.cpp - plan and diff: compiled plans, read back -------------===//

#include "Commands.h"
#include "ExitCode.h"
#include "plumb/Runtime/Failure.h"
#include "plumb/Target/PlanFile.h"
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

using namespace plumb;
using Json = nlohmann::ordered_json;

static Json readPlan(const std::string &folder) {
  std::string path = folder + "/plan.json";
  std::ifstream file(path);
  if (!file)
    throw Failure(path, "the plan cannot be read; compile a plan into this folder first");
  Json plan = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (plan.is_discarded() || !plan.is_object() || plan.value("format", Json()) != "plumb-plan")
    throw Failure(path, "this is not a compiled plan");
  if (Json version = plan.value("version", Json()); version != kPlanFileVersion)
    throw Failure(path, "the plan is of version " + version.dump() + ", this plumbc reads version " +
                            std::to_string(kPlanFileVersion) + "; compile the plan again");
  return plan;
}

//===----------------------------------------------------------------------===//
// One rank's view
//===----------------------------------------------------------------------===//

namespace {

class RankView {
public:
  RankView(const Json &plan, int64_t rank) : plan(plan), axes(plan.at("mesh").at("axes")), rank(rank) {
    auto count = plan.at("mesh").at("ranks").get<int64_t>();
    if (rank < 0 || rank >= count)
      throw Failure("there is no rank " + std::to_string(rank) + ": the mesh has " + std::to_string(count) +
                    " ranks");
    for (size_t i = 0; i < axes.size(); ++i) {
      coordinates.push_back(rank / axes[i].at("stride").get<int64_t>() % axes[i].at("size").get<int64_t>());
      if (axes[i].at("name") == plan.at("pipeline").at("axis"))
        pipelineAxis = static_cast<int64_t>(i);
    }
    if (pipelineAxis >= 0)
      pipeline = coordinates[static_cast<size_t>(pipelineAxis)];
  }

  void print() const {
    std::cout << "rank " << rank << " of '" << plan.at("model").get<std::string>() << "':";
    for (size_t i = 0; i < axes.size(); ++i)
      std::cout << " " << axes[i].at("name").get<std::string>() << "=" << coordinates[i];
    std::cout << "\n";
    printStages();
    printCommunicators();
    printTensors("parameters");
    printTensors("states");
    printMemory();
    printActions();
  }

private:
  void printStages() const {
    std::cout << "stages:";
    const Json &stages = plan.at("pipeline").at("stages");
    for (size_t stage = 0; stage < stages.size(); ++stage)
      if (stages[stage] == pipeline)
        std::cout << " " << stage;
    std::cout << "\n";
  }

  /// The coordinates that an axis of a communicator runs over from this rank's own: all of them, or those
  /// that differ in the digit that a factor `tp:(pre)size` is.
  std::vector<int64_t> coordinatesOn(const std::string &axis, size_t &index) const {
    std::string name = axis.substr(0, axis.find(':'));
    index = 0;
    while (axes.at(index).at("name") != name)
      ++index;
    auto count = axes[index].at("size").get<int64_t>();
    int64_t pre = 1, size = count;
    if (name != axis && std::sscanf(axis.c_str() + name.size(), ":(%" SCNd64 ")%" SCNd64, &pre, &size) != 2)
      throw Failure("'" + axis + "' is no axis");
    int64_t post = count / (pre * size), own = coordinates[index];
    std::vector<int64_t> result;
    for (int64_t digit = 0; digit < size; ++digit)
      result.push_back(own - own / post % size * post + digit * post);
    return result;
  }

  /// Members differ from this rank only in the communicator's axes, and in the pipeline coordinate if it
  /// lists some; in their order.
  std::vector<int64_t> membersOf(const Json &communicator) const {
    const auto listed = communicator.at("pipeline").get<std::vector<int64_t>>();
    if (!listed.empty() && std::find(listed.begin(), listed.end(), pipeline) == listed.end())
      return {};
    std::vector<int64_t> members{rank};
    auto spread = [&](size_t axis, const std::vector<int64_t> &values) {
      std::vector<int64_t> next;
      for (int64_t member : members)
        for (int64_t value : values)
          next.push_back(member + (value - coordinates[axis]) * axes[axis].at("stride").get<int64_t>());
      members = next;
    };
    if (!listed.empty() && pipelineAxis >= 0)
      spread(static_cast<size_t>(pipelineAxis), listed);
    for (const Json &axis : communicator.at("axes")) {
      size_t index = 0;
      std::vector<int64_t> values = coordinatesOn(axis.get<std::string>(), index);
      spread(index, values);
    }
    return members;
  }

  void printCommunicators() const {
    std::cout << "communicators, in the order in which they are made:\n";
    for (const Json &communicator : plan.at("communicators")) {
      std::vector<int64_t> members = membersOf(communicator);
      if (members.empty())
        continue;
      std::cout << "  " << communicator.at("name").get<std::string>() << ": ranks";
      for (int64_t member : members)
        std::cout << " " << member;
      std::cout << "\n";
    }
  }

  void printTensors(const char *kind) const {
    std::cout << kind << ":\n";
    for (const Json &tensor : plan.at(kind)) {
      const Json &offset = tensor.at("offsets").at(static_cast<size_t>(pipeline));
      if (!offset.is_null())
        std::cout << "  " << tensor.at("name").get<std::string>() << ": "
                  << tensor.at("dtype").get<std::string>() << " " << tensor.at("shape").dump() << " layout "
                  << tensor.at("layout").dump() << " at byte " << offset << "\n";
    }
  }

  void printMemory() const {
    const Json &memory = plan.at("memory").at(static_cast<size_t>(pipeline));
    std::cout << "memory: " << memory.at("arena") << " bytes";
    for (const auto &[use, bytes] : memory.items())
      if (bytes.is_number() && use != "arena" && bytes != 0)
        std::cout << ", " << use << " " << bytes;
    std::cout << "\n";
  }

  void printActions() const {
    std::cout << "actions:";
    for (const Json &action : plan.at("actions").at(static_cast<size_t>(pipeline)))
      std::cout << " " << action.get<std::string>();
    std::cout << "\n";
  }

  const Json &plan;
  const Json &axes;
  int64_t rank, pipeline = 0, pipelineAxis = -1;
  std::vector<int64_t> coordinates;
};

} // namespace

void plumb::addPlanCommand(CLI::App &app, Command &command) {
  auto folder = std::make_shared<std::string>();
  auto rank = std::make_shared<int64_t>(0);
  CLI::App *sub = app.add_subcommand("plan", "Show a compiled plan as one rank sees it");
  auto printSchema = std::make_shared<bool>(false);
  CLI::Option *where = sub->add_option("DIR", *folder, "folder that plumbc compile has written");
  CLI::Option *which =
      sub->add_option("--rank", *rank, "number of the rank")->check(integerWithin(bounds::kIndex));
  sub->add_flag("--print-schema", *printSchema, "print the JSON Schema of compiled plans and stop");
  sub->callback([=, &command] {
    if (!*printSchema)
      for (CLI::Option *option : {where, which})
        if (option->empty())
          throw CLI::RequiredError(option->get_name());
    command = [=] {
      if (*printSchema) {
        std::cout << getPlanFileSchema().str();
        return static_cast<int>(kSuccess);
      }
      Json plan = readPlan(*folder);
      try {
        RankView(plan, *rank).print();
      } catch (const Json::exception &error) {
        throw Failure(*folder + "/plan.json",
                      std::string("the plan is of another version of Plumb: ") + error.what());
      }
      return static_cast<int>(kSuccess);
    };
  });
}

//===----------------------------------------------------------------------===//
// diff
//===----------------------------------------------------------------------===//

/// The values of a plan by their path, with the elements of lists that have names under them.
static void flatten(const Json &value, const std::string &path, std::map<std::string, std::string> &result) {
  if (value.is_object() && !value.empty()) {
    for (const auto &[key, member] : value.items())
      flatten(member, path.empty() ? key : path + "." + key, result);
    return;
  }
  bool isNamed =
      value.is_array() && !value.empty() && std::all_of(value.begin(), value.end(), [](const Json &element) {
        return element.is_object() && element.contains("name") && element.at("name").is_string();
      });
  bool isNested = value.is_array() &&
                  std::any_of(value.begin(), value.end(), [](const Json &e) { return e.is_structured(); });
  if (!isNamed && !isNested) {
    result[path] = value.dump();
    return;
  }
  size_t index = 0;
  for (const Json &element : value) {
    std::string key = isNamed ? element.at("name").get<std::string>() : std::to_string(index);
    flatten(element, path + "[" + key + "]", result);
    ++index;
  }
}

static int diff(const std::string &first, const std::string &second) {
  std::map<std::string, std::string> a, b;
  flatten(readPlan(first), "", a);
  flatten(readPlan(second), "", b);
  std::set<std::string> paths;
  for (const auto *plan : {&a, &b})
    for (const auto &[path, value] : *plan)
      paths.insert(path);
  bool differ = false;
  for (const std::string &path : paths) {
    auto left = a.find(path), right = b.find(path);
    if (left != a.end() && right != b.end() && left->second == right->second)
      continue;
    differ = true;
    if (left != a.end())
      std::cout << "- " << path << ": " << left->second << "\n";
    if (right != b.end())
      std::cout << "+ " << path << ": " << right->second << "\n";
  }
  if (!differ)
    std::cout << "the plans are the same\n";
  return differ ? kCheckFailed : kSuccess;
}

void plumb::addDiffCommand(CLI::App &app, Command &command) {
  auto first = std::make_shared<std::string>(), second = std::make_shared<std::string>();
  CLI::App *sub = app.add_subcommand("diff", "Show where two compiled plans differ; exit code 3 if they do");
  sub->add_option("DIR1", *first, "folder that plumbc compile has written")->required();
  sub->add_option("DIR2", *second, "another one")->required();
  sub->callback([=, &command] { command = [=] { return diff(*first, *second); }; });
}
