#include "Programs.h"

#include <random>

using namespace plumb;
using namespace plumb::test;

TEST(ImportModel, AnMlpHasItsStructure) {
  Imported mlp = importFixture("mlp.pt2");
  ASSERT_TRUE(mlp.module) << mlp.errors;
  EXPECT_EQ(count<ModuleNameOp>(*mlp.module), 3);
  EXPECT_EQ(count<ParameterOp>(*mlp.module), 6);
  EXPECT_EQ(count<LoadOp>(*mlp.module), 6);
  EXPECT_EQ(count<nn::EinsumOp>(*mlp.module), 3);
  EXPECT_EQ(count<PipeSplitOp>(*mlp.module), 1);
  auto program = mlir::cast<ProgramOp>(mlp.module->lookupSymbol("mlp"));
  mlir::Operation &relu = *llvm::find_if(program.getBody().front(),
                                         [](mlir::Operation &op) { return mlir::isa<nn::ReluOp>(op); });
  EXPECT_EQ(relu.getAttrOfType<mlir::StringAttr>(kModuleAttr).getValue(), "");
  EXPECT_EQ(relu.getAttrOfType<mlir::StringAttr>(kSourceAttr).getValue(), "make_fixtures.py:21");
  auto location = mlir::cast<mlir::FileLineColLoc>(relu.getLoc());
  EXPECT_EQ(location.getFilename().getValue(), "/models/make_fixtures.py");
  EXPECT_EQ(location.getLine(), 21u);
}

TEST(ImportModel, TiedParametersAreOneWithAliases) {
  Imported gpt = importFixture("gpt2_tiny.pt2");
  ASSERT_TRUE(gpt.module) << gpt.errors;
  auto wte = mlir::cast<ParameterOp>(gpt.module->lookupSymbol("wte.weight"));
  EXPECT_TRUE(wte.getTrainable());
  EXPECT_EQ(wte.getAliasesAttr().size(), 1u);
  EXPECT_EQ(mlir::cast<mlir::StringAttr>(wte.getAliasesAttr()[0]).getValue(), "lm_head.weight");
  EXPECT_EQ(gpt.module->lookupSymbol("lm_head.weight"), nullptr);
  int loads = 0;
  gpt.module->walk([&](LoadOp load) { loads += load.getSymbol() == "wte.weight"; });
  EXPECT_EQ(loads, 1);
  EXPECT_EQ(mlir::cast<ModuleNameOp>(gpt.module->lookupSymbol("h.0.attn")).getType(), "Attn");
}

TEST(ImportModel, MarkersStayInPlace) {
  Imported gpt = importFixture("gpt2_four_stages.pt2");
  ASSERT_TRUE(gpt.module) << gpt.errors;
  EXPECT_EQ(count<PipeSplitOp>(*gpt.module), 3);
  EXPECT_EQ(count<nn::SoftmaxOp>(*gpt.module), 8);
}

TEST(ImportModel, TheSameArchiveGivesTheSameText) {
  auto print = [] {
    std::string text;
    llvm::raw_string_ostream stream(text);
    importFixture("gpt2_tiny.pt2").module->print(stream);
    return text;
  };
  EXPECT_EQ(print(), print());
}

TEST(ImportModel, NamesThatWouldClashAreMadeDifferent) {
  Diagnostics diagnostics;
  std::unique_ptr<pt2::Pt2Archive> archive =
      pt2::Pt2Archive::read("fc1.pt2", readFile(fixture("mlp.pt2")), diagnostics);
  Imported imported = importArchive(archive.get(), diagnostics);
  ASSERT_TRUE(imported.module) << imported.errors;
  EXPECT_TRUE(mlir::isa<ModuleNameOp>(imported.module->lookupSymbol("fc1")));
  EXPECT_TRUE(mlir::isa<ProgramOp>(imported.module->lookupSymbol("fc1_")));
  EXPECT_EQ((*imported.module)->getAttrOfType<mlir::StringAttr>("plumb.model").getValue(), "fc1");
}

TEST(ImportModel, NoChangeOfAProgramCrashesTheImport) {
  Archive archive = Archive::read(fixture("mlp.pt2"));
  const std::string original = archive["models/model.json"];
  std::mt19937 random;
  int imported = 0;
  for (int round = 0; round < 200; ++round) {
    // Digits become others, and values are taken for other values: most such programs still are JSON.
    std::string changed = original;
    for (int change = random() % 3; change >= 0; --change) {
      size_t at = changed.find_first_of("0123456789", random() % changed.size());
      if (at != std::string::npos)
        changed[at] = static_cast<char>('0' + random() % 10);
    }
    archive["models/model.json"] = changed;
    Diagnostics diagnostics;
    std::unique_ptr<pt2::Pt2Archive> read = pt2::Pt2Archive::read("m.pt2", archive.bytes(), diagnostics);
    imported += importArchive(read.get(), diagnostics).module ? 1 : 0;
  }
  EXPECT_GT(imported, 0);
  EXPECT_LT(imported, 200);
}

TEST(ImportRefusals, AllUnknownOperatorsAreReportedAtOnce) {
  Arguments self = {{"self", tensor("x0")}};
  Imported imported = import(Program({{{2}}})
                                 .node("fft.default", self, {{{2}}})
                                 .node("relu.default", self, {{{2}}})
                                 .node("erfinv.default", self, {{{2}}})
                                 .node("fft.default", self, {{{2}}}));
  EXPECT_EQ(imported.errors, "/m/model.py:7: error: the operator torch.ops.aten.fft.default is not "
                             "supported; it is used in module \"a.b\"\n"
                             "   7 | y = f(x)\n"
                             "/m/model.py:7: note: and in module \"a.b\"\n"
                             "   7 | y = f(x)\n"
                             "/m/model.py:7: error: the operator torch.ops.aten.erfinv.default is not "
                             "supported; it is used in module \"a.b\"\n"
                             "   7 | y = f(x)\n");
}

TEST(ImportRefusals, ArgumentsThatAreNotKnownAreNotDropped) {
  Arguments arguments = {{"self", tensor("x0")}, {"strange", integer(1)}};
  EXPECT_EQ(refused(Program({{{2}}}).node("relu.default", arguments, {{{2}}})),
            "the argument \"strange\" is not supported");
  EXPECT_EQ(refused(Program({{{2}}}).node("relu.default", {}, {{{2}}})), "the argument \"self\" is missing");
  EXPECT_EQ(refused(Program({{{2}}}).node("relu.default", {{"self", integer(1)}}, {{{2}}})),
            "the argument \"self\" must be a tensor, found an integer");
}

TEST(ImportRefusals, ResultsMustBeAsRecorded) {
  EXPECT_EQ(refused(Program({{{2}}}).node("relu.default", {{"self", tensor("x0")}}, {{{3}}})),
            "it computes a tensor<2xf32>, but the archive recorded a tensor<3xf32>");
  EXPECT_EQ(refused(Program({{{2}}}).node("relu.default", {{"self", tensor("x0")}}, {{{2}}, {{2}}})),
            "it has 1 results, but the archive recorded 2");
}

TEST(ImportRefusals, OneCauseIsOneError) {
  Imported imported = import(Program({{{2}}})
                                 .node("relu.default", {{"self", integer(1)}}, {{{2}}})
                                 .node("tanh.default", {{"self", tensor("n0_0")}}, {{{2}}}));
  EXPECT_EQ(imported.errors.find("error"), imported.errors.rfind("error")) << imported.errors;
}

TEST(ImportRefusals, InputsMustBeStaticAndOfAKnownType) {
  Program bytes({{{2}, kByte}});
  bytes.node("relu.default", {{"self", tensor("x0")}}, {{{2}}});
  EXPECT_EQ(import(bytes).errors,
            "model.pt2: error: the input \"x0\": the element type uint8 is not supported\n");
  Program symbolic({{{2}}});
  symbolic.node("relu.default", {{"self", tensor("x0")}}, {{{2}}});
  symbolic.graph["tensor_values"]["x0"]["sizes"][0] = {{"as_expr", {{"expr_str", "s0"}}}};
  EXPECT_NE(import(symbolic).errors.find("the symbolic size s0; export the model without dynamic_shapes"),
            std::string::npos);
}
