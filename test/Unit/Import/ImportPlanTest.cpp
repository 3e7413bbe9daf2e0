#include "plumb/Import/ImportPlan.h"

#include "plumb/Dialect/Plumb/Plumb.h"

#include <gtest/gtest.h>

using namespace plumb;

namespace {

std::string printedPlan(const std::string &text, const std::string &modules = "") {
  Diagnostics diagnostics;
  std::optional<spec::PlanSpec> plan =
      spec::parsePlanSpec(std::make_shared<Source>("plan.json", text), diagnostics);
  EXPECT_TRUE(plan) << diagnostics.str();
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  context.loadDialect<PlumbDialect>();
  if (!modules.empty()) {
    mlir::OpBuilder builder = mlir::OpBuilder::atBlockBegin(module->getBody());
    ModuleNameOp::create(builder, builder.getUnknownLoc(), builder.getStringAttr(modules),
                         mlir::StringAttr());
  }
  EXPECT_TRUE(mlir::succeeded(importPlan(*plan, *module)));
  EXPECT_TRUE(mlir::succeeded(module->verify()));
  std::string result;
  llvm::raw_string_ostream stream(result);
  for (mlir::Operation &op : *module->getBody()) {
    op.print(stream,
             mlir::OpPrintingFlags().enableDebugInfo(/*enable=*/true, /*prettyForm=*/true).useLocalScope());
    stream << "\n";
  }
  return result;
}

} // namespace

TEST(ImportPlan, EveryPartHasItsOperationAndPlace) {
  EXPECT_EQ(printedPlan(R"json({"mesh": {"pp": 2, "tp": 2},
"pipeline": {"schedule": "gpipe", "microbatches": 4, "split": {"h.1": "end", "h.2": "beginning"}},
"layouts": [{"match": "a", "style": "colwise", "blocks": [4, 2, 2]}, {"match": "b", "style": "replicate"},
            {"match": "c", "params": {"w": {"tp": "shard(0,blocks=2)"}, "b": {}}}],
"inputs": {"x": {"microbatch": "shard(1)"}, "y": "replicate"},
"loss": {"output": "logits", "reduce": "mean"},
"optimizer": {"kind": "sgd", "lr": 0.5}})json"),
            R"text(plumb.mesh @mesh ["pp" = 2, "tp" = 2] plan.json:1:10
plumb.pipeline axis "pp" schedule "gpipe" microbatches 4 plan.json:2:13
plumb.split_rule "h.1" end plan.json:2:64
plumb.split_rule "h.2" plan.json:2:78
plumb.layout_rule "a" style "colwise" axis "tp" blocks [4, 2, 2] plan.json:3:23
plumb.layout_rule "b" style "replicate" plan.json:3:80
plumb.layout_rule "c" params {b = {}, w = {tp = "shard(0, blocks=2)"}} plan.json:4:23
plumb.input_rule "x" {microbatch = "shard(1)"} plan.json:5:12
plumb.input_rule "y" {} plan.json:5:45
plumb.loss_rule name "logits" reduce "mean" plan.json:6:20
plumb.optimizer "sgd" rate 5.000000e-01 plan.json:7:14
)text");
}

TEST(ImportPlan, DefaultsAreWrittenOut) {
  EXPECT_EQ(printedPlan(R"json({"mesh": {"dp": 2}, "loss": {"output": 0}})json"),
            "plumb.mesh @mesh [\"dp\" = 2] plan.json:1:10\n"
            "plumb.pipeline axis \"pp\" schedule \"1f1b\" microbatches 1 plan.json:1:10\n"
            "plumb.loss_rule output 0 plan.json:1:40\n");
}

TEST(ImportPlan, PoliciesSharingBatchAndLabels) {
  EXPECT_EQ(printedPlan(R"json({"mesh": {"pp": 2},
"pipeline": {"split": {"policy": "balanced", "stages": 4, "by": "time"},
             "multi_use_parameters": {"*": "auto", "wte.weight": "transmit"}},
"batch": {"of": "replica", "size": 8}, "aliases": [["a", "b"]],
"loss": {"output": 0, "reduce": "cross_entropy", "target": {"name": "labels", "dtype": "i32"}}})json"),
            R"text(plumb.mesh @mesh ["pp" = 2] plan.json:1:10
plumb.pipeline axis "pp" schedule "1f1b" microbatches 1 plan.json:2:13
plumb.split_policy "balanced" stages 4 by "time" plan.json:2:23
plumb.sharing_rule "*" "auto" plan.json:3:39
plumb.sharing_rule "wte.weight" "transmit" plan.json:3:52
plumb.batch_rule "replica" size 8 plan.json:4:10
plumb.alias_rule ["a", "b"] plan.json:4:53
plumb.loss_rule output 0 reduce "cross_entropy" target "labels" : i32 ignore -100 plan.json:5:20
)text");
  auto policy = [](const std::string &split) {
    std::string text = printedPlan("{\"mesh\": {\"pp\": 2}, \"pipeline\": {\"split\": " + split + "}}");
    size_t begin = text.find("plumb.split_policy");
    return text.substr(begin, text.find(" plan.json", begin) - begin);
  };
  EXPECT_EQ(policy(R"json({"policy": "layers", "list": [1, 2]})json"),
            "plumb.split_policy \"layers\" list [1, 2]");
  EXPECT_EQ(policy(R"json({"policy": "each", "of": "h"})json"), "plumb.split_policy \"each\" of \"h\"");
  EXPECT_EQ(policy(R"json("Et|L")json"), "plumb.split_policy \"layout\" of \"Et|L\"");
  EXPECT_EQ(policy(R"json([["a"], ["b", "c"]])json"),
            "plumb.split_policy \"modules\" modules [[\"a\"], [\"b\", \"c\"]]");
}

TEST(ImportPlan, AModelMayHaveAModuleCalledMesh) {
  EXPECT_EQ(printedPlan(R"json({"mesh": {"dp": 2}})json", "mesh").substr(0, 18), "plumb.mesh @mesh_ ");
}
