#include "plumb/Import/PyTree.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace plumb::pt2;
using Json = nlohmann::json;
using Paths = std::vector<std::string>;

namespace {

Json leaf() { return {{"type", nullptr}, {"context", nullptr}, {"children_spec", Json::array()}}; }
Json tree(const char *type, const Json &context, std::vector<Json> children) {
  return {{"type", type}, {"context", context.dump()}, {"children_spec", children}};
}
Json tuple(std::vector<Json> children) { return tree("builtins.tuple", nullptr, std::move(children)); }
Json dict(std::vector<std::string> keys, std::vector<Json> children) {
  return tree("builtins.dict", keys, std::move(children));
}

std::optional<PyTree> parse(const Json &spec, const NamedTupleFields &fields = {}) {
  return parsePyTree(Json::array({1, spec}).dump(), fields);
}

} // namespace

TEST(PyTree, ASingleLeafHasAnEmptyPath) { EXPECT_EQ(leafPaths(*parse(leaf())), Paths{""}); }

TEST(PyTree, PathsFollowIndicesAndKeys) {
  Json spec = tuple({leaf(), dict({"loss", "cache"}, {leaf(), tuple({leaf(), leaf()})})});
  EXPECT_EQ(leafPaths(*parse(spec)), (Paths{"0", "1.loss", "1.cache.0", "1.cache.1"}));
}

TEST(PyTree, InputsAreNamedAsInForward) {
  Json spec = tuple(
      {tuple({leaf(), tuple({leaf(), leaf()})}), dict({"mask", "extra"}, {leaf(), dict({"k"}, {leaf()})})});
  EXPECT_EQ(inputPaths(*parse(spec), {"idx", "pair"}), (Paths{"idx", "pair.0", "pair.1", "mask", "extra.k"}));
  EXPECT_EQ(inputPaths(*parse(spec), {"idx"}), (Paths{"idx", "1.0", "1.1", "mask", "extra.k"}));
}

TEST(PyTree, OtherContainersAreRead) {
  Json ordered = tree("collections.OrderedDict", {"a", 3}, {leaf(), leaf()});
  EXPECT_EQ(leafPaths(*parse(ordered)), (Paths{"a", "3"}));
  Json withDefault = tree("collections.defaultdict",
                          {{"default_factory_name", "int"}, {"dict_context", Json({"x"}).dump()}}, {leaf()});
  EXPECT_EQ(leafPaths(*parse(withDefault)), Paths{"x"});
  Json named = tree("collections.namedtuple", {{"class_fqn", "m.Out"}}, {leaf(), leaf()});
  EXPECT_EQ(leafPaths(*parse(named, {{"m.Out", {"loss", "logits"}}})), (Paths{"loss", "logits"}));
  EXPECT_EQ(leafPaths(*parse(named)), (Paths{"0", "1"}));
  EXPECT_EQ(leafPaths(*parse(tuple({}))), Paths{});
}

TEST(PyTree, WhatIsNoTreeIsNone) {
  for (const char *text :
       {"", "[", "{}", "[1]", "[1, 2]", "[1, {\"type\": 3}]", "[1, {\"type\": \"t\"}]",
        "[1, {\"type\": \"t\", \"children_spec\": [0]}]", "[1, {\"type\": \"\", \"children_spec\": []}]"})
    EXPECT_FALSE(parsePyTree(text, {})) << text;
}
