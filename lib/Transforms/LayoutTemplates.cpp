//===- LayoutTemplates.cpp - Layouts of well-known families of models ------===//
//
// A template is a list of entries that a plan could state itself. Patterns begin with `**`, since the base
// model may be part of a larger one.
//
//===----------------------------------------------------------------------===//

#include "ApplySpec.h"
#include "plumb/Support/Glob.h"
#include "plumb/Support/Suggest.h"
#include "plumb/Transforms/Utils.h"

using namespace mlir;
using namespace plumb;

namespace {

/// What a module of a family is to a template.
enum class Role { Column, Row, FusedColumn, Norm, Block, Embedding, Head };

struct Entry {
  StringLiteral pattern;
  Role role;
};

// A block is what stands between two norms: its input is gathered, and its sum scattered, under sequence
// parallelism.
constexpr Entry kLlama[] = {{"**.embed_tokens", Role::Embedding},
                            {"**.layers.*.input_layernorm", Role::Norm},
                            {"**.layers.*.self_attn", Role::Block},
                            {"**.layers.*.self_attn.q_proj", Role::Column},
                            {"**.layers.*.self_attn.k_proj", Role::Column},
                            {"**.layers.*.self_attn.v_proj", Role::Column},
                            {"**.layers.*.self_attn.o_proj", Role::Row},
                            {"**.layers.*.post_attention_layernorm", Role::Norm},
                            {"**.layers.*.mlp", Role::Block},
                            {"**.layers.*.mlp.gate_proj", Role::Column},
                            {"**.layers.*.mlp.up_proj", Role::Column},
                            {"**.layers.*.mlp.down_proj", Role::Row},
                            {"**.norm", Role::Norm},
                            {"**.lm_head", Role::Head}};
constexpr Entry kMixtral[] = {{"**.embed_tokens", Role::Embedding},
                              {"**.layers.*.input_layernorm", Role::Norm},
                              {"**.layers.*.self_attn", Role::Block},
                              {"**.layers.*.self_attn.q_proj", Role::Column},
                              {"**.layers.*.self_attn.k_proj", Role::Column},
                              {"**.layers.*.self_attn.v_proj", Role::Column},
                              {"**.layers.*.self_attn.o_proj", Role::Row},
                              {"**.layers.*.post_attention_layernorm", Role::Norm},
                              {"**.layers.*.block_sparse_moe", Role::Block},
                              {"**.layers.*.block_sparse_moe.experts.*.w1", Role::Column},
                              {"**.layers.*.block_sparse_moe.experts.*.w3", Role::Column},
                              {"**.layers.*.block_sparse_moe.experts.*.w2", Role::Row},
                              {"**.norm", Role::Norm},
                              {"**.lm_head", Role::Head}};
constexpr Entry kGpt2[] = {{"**.wte", Role::Embedding},       {"**.h.*.ln_1", Role::Norm},
                           {"**.h.*.attn", Role::Block},      {"**.h.*.attn.c_attn", Role::FusedColumn},
                           {"**.h.*.attn.c_proj", Role::Row}, {"**.h.*.ln_2", Role::Norm},
                           {"**.h.*.mlp", Role::Block},       {"**.h.*.mlp.c_fc", Role::Column},
                           {"**.h.*.mlp.c_proj", Role::Row},  {"**.ln_f", Role::Norm},
                           {"**.lm_head", Role::Head}};
constexpr Entry kVit[] = {{"**.layer.*.layernorm_before", Role::Norm},
                          {"**.layer.*.attention", Role::Block},
                          {"**.layer.*.attention.attention.query", Role::Column},
                          {"**.layer.*.attention.attention.key", Role::Column},
                          {"**.layer.*.attention.attention.value", Role::Column},
                          {"**.layer.*.attention.output.dense", Role::Row},
                          {"**.layer.*.layernorm_after", Role::Norm},
                          {"**.layer.*.intermediate.dense", Role::Column},
                          {"**.layer.*.output.dense", Role::Row}};

ArrayRef<Entry> findTemplate(StringRef name) {
  return llvm::StringSwitch<ArrayRef<Entry>>(name)
      .Cases({"llama", "qwen2"}, kLlama)
      .Case("mixtral", kMixtral)
      .Case("gpt2", kGpt2)
      .Case("vit", kVit)
      .Default({});
}

class TemplateBuilder {
public:
  TemplateBuilder(ModuleOp module, LayoutRuleOp rule)
      : module(module), rule(rule), builder(rule), axis(rule.getAxis().value_or("tp")) {}

  LogicalResult expand() {
    ArrayRef<Entry> entries = findTemplate(*rule.getTemplateName());
    if (entries.empty())
      return emitError(rule.getLoc()) << "unknown template \"" << *rule.getTemplateName()
                                      << "\"; there are gpt2, llama, mixtral, qwen2 and vit";
    int64_t products = 0;
    for (const Entry &entry : entries) {
      if (!hasMatch(entry.pattern))
        continue;
      products += entry.role == Role::Row;
      add(entry);
    }
    if (products > 0)
      return success();
    return emitError(rule.getLoc()) << "the template \"" << *rule.getTemplateName()
                                    << "\" fits no module of this model; it expects modules such as \""
                                    << entries[3].pattern.drop_front(3) << "\"";
  }

private:
  bool hasMatch(StringRef pattern) {
    Glob glob(pattern.str());
    return llvm::any_of(module.getOps<ModuleNameOp>(),
                        [&](ModuleNameOp known) { return glob.matches(known.getSymName().str()); });
  }

  void add(const Entry &entry) {
    bool isSequential = rule.getSequenceParallel();
    DictionaryAttr sequence = placed("shard(1)");
    switch (entry.role) {
    case Role::Column:
      return create(entry.pattern, "colwise");
    case Role::FusedColumn:
      return create(entry.pattern, "colwise", 3);
    case Role::Row:
      return create(entry.pattern, "rowwise");
    case Role::Norm:
      if (isSequential)
        create(entry.pattern, "sequence");
      return;
    case Role::Block:
      if (isSequential)
        create(entry.pattern, "", {}, side("input.0", placed("replicate")), side("output.0", sequence));
      return;
    case Role::Embedding:
      return create(entry.pattern, "rowwise", {}, {},
                    isSequential ? side("output.0", sequence) : DictionaryAttr());
    case Role::Head:
      return create(entry.pattern, "colwise", {},
                    isSequential ? side("input.0", placed("replicate")) : DictionaryAttr(),
                    side("output.0", placed(rule.getLossParallel() ? "shard(-1)" : "replicate")));
    }
  }

  DictionaryAttr placed(StringRef placement) { return side(axis, builder.getStringAttr(placement)); }
  DictionaryAttr side(StringRef port, Attribute value) {
    return builder.getDictionaryAttr(builder.getNamedAttr(port, value));
  }

  void create(StringRef pattern, StringRef style, std::optional<int64_t> blocks = {},
              DictionaryAttr inputs = {}, DictionaryAttr outputs = {}) {
    auto made = cast<LayoutRuleOp>(builder.clone(*rule));
    made.setMatch(pattern);
    made.removeTemplateNameAttr();
    made.removeAxisAttr();
    if (!style.empty()) {
      made.setStyle(style);
      made.setAxis(axis);
    }
    if (blocks)
      made.setBlocks(equalBlocks(*blocks));
    if (inputs)
      made.setInDstAttr(inputs);
    if (outputs)
      made.setOutDstAttr(outputs);
    made.setSequenceParallel(false);
    made.setLossParallel(false);
  }

  ModuleOp module;
  LayoutRuleOp rule;
  OpBuilder builder;
  StringRef axis;
};

} // namespace

LogicalResult plumb::expandTemplates(ModuleOp module) {
  for (LayoutRuleOp rule : llvm::make_early_inc_range(module.getOps<LayoutRuleOp>())) {
    if (!rule.getTemplateName())
      continue;
    if (failed(TemplateBuilder(module, rule).expand()))
      return failure();
    rule.erase();
  }
  return success();
}
