#include "PlanSchema.h"

namespace plumb::spec {

using namespace bounds;

const char *const kPlacementPattern =
    R"(shard\( *(-?[0-9]{1,9}) *(?:, *blocks *= *([1-9][0-9]{0,8}|\[ *[1-9][0-9]{0,8}(?: *, *[1-9][0-9]{0,8})* *\]) *)?\))"
    R"(|(replicate|partial\( *sum *\)))";

const char *const kInitialPattern =
    R"(zeros|ones|normal(?:\( *([0-9]{1,9}(?:\.[0-9]{0,15})?(?:e-?[0-9]{1,2})?) *\))?)";

static Schema placement() {
  return pattern("What the axis does to the tensor: \"shard(N)\", \"shard(N, blocks=B)\", \"replicate\" or "
                 "\"partial(sum)\". Negative dims count from the last one.",
                 kPlacementPattern,
                 "a placement: \"shard(N)\", \"shard(N, blocks=B)\", \"replicate\" or \"partial(sum)\"");
}

static Schema placements(std::string description) { return map(std::move(description), placement()); }

/// "keep" leaves a port, or one axis of it, as propagation gives it.
static Schema ports(std::string description) {
  Schema axis =
      pattern("What the axis does to the tensor, or \"keep\".", std::string(kPlacementPattern) + "|keep",
              "a placement: \"shard(N)\", \"shard(N, blocks=B)\", \"replicate\" or "
              "\"partial(sum)\"; or \"keep\"");
  return map(std::move(description),
             oneOf("The layout at a port, by the port's name: input.0, output.0, ...",
                   {map("A placement per mesh axis; model axes not named replicate, batch axes stay.",
                        std::move(axis)),
                    oneOfStrings("As propagation gives it.", {"keep"})}));
}

const std::vector<std::string> &supportedTemplates() {
  static const std::vector<std::string> names{"llama", "gpt2", "qwen2", "mixtral", "vit"};
  return names;
}

static Schema pipeline() {
  Schema points =
      named("module names with \"beginning\" or \"end\"",
            map("Module name to \"beginning\" (before its first operation) or \"end\" (after its last).",
                oneOfStrings("Where the stage boundary is.", {"beginning", "end"})));
  Schema policy = named(
      "a policy",
      object("A policy that chooses the boundaries; the model has no markers then.",
             {{"policy", oneOfStrings("How the model is cut.", {"balanced", "layers", "each"}), true},
              {"stages",
               integer("balanced: number of stages; as many as there are places if not given.", kCount)},
              {"by", oneOfStrings("balanced: what is balanced; \"flops\" if not given.",
                                  {"flops", "parameters", "time"})},
              {"list", array("layers: number of layers in each stage.", integer("Layers.", kCount))},
              {"of", text("each: module whose children become stages.")}}));
  Schema layoutString =
      named("a layout string", text("A layout string of Megatron, such as \"Et*3|(tt|)*29,m|L\"."));
  Schema moduleLists = named("lists of module names", array("Module names of each stage.",
                                                            array("A stage.", text("A module name.")), 1));
  return object(
      "How a step runs through the pipeline.",
      {{"axis", text("The mesh axis of the stages; \"pp\" if not given.")},
       {"schedule", oneOfStrings("The order of forward and backward passes; \"1f1b\" if not given.",
                                 {"gpipe", "1f1b", "eager-1f1b", "forward-only", "looped-bfs",
                                  "interleaved-1f1b", "interleaved-zb", "zb-h1", "zb-h2", "zb-1p", "zb-2p",
                                  "zb-v", "v-half", "v-min", "dualpipe-v", "dualpipe", "custom", "auto"})},
       {"actions", text("The CSV file of the schedule \"custom\", a row per pipeline rank; a path relative "
                        "to the plan.")},
       {"microbatches", integer("Pieces that the global batch is cut into; 1 if not given.", kCount)},
       {"stages_per_rank", integer("Stages on each pipeline rank; as many as needed if not given.", kCount)},
       {"split",
        oneOf(
            "Stage boundaries: places besides the pipe_split markers of the model, or a policy that chooses "
            "all of them.",
            {std::move(points), std::move(policy), std::move(layoutString), std::move(moduleLists)})},
       {"placement", oneOf("Which rank runs which stage; \"loop\" if not given.",
                           {oneOfStrings("A named order; \"v\" turns back at the last rank.", {"loop", "v"}),
                            array("The rank of each stage.", integer("A rank.", kIndex))})},
       {"skip_connections", oneOfStrings("How a value reaches later stages that are not the next one; "
                                         "\"auto\", the cheaper way, if not given.",
                                         {"auto", "direct", "forward"})},
       {"multi_use_parameters",
        oneOf("What becomes of a parameter that several stages use; \"replicate\" if not given.",
              {oneOfStrings("The same for all.", {"replicate", "transmit", "auto"}),
               named("a choice per parameter",
                     map("Parameter name, or a pattern, to a choice; the last that matches counts.",
                         oneOfStrings("A choice.", {"replicate", "transmit", "auto"})))})}});
}

static Schema layoutEntry() {
  Schema params = map("The layout of each parameter of the module, by its name in the module.",
                      placements("A placement per mesh axis; axes not named replicate."));
  Schema blocks =
      oneOf("Blocks of a fused weight that are sharded one by one.",
            {integer("Number of equal blocks.", kCount),
             array("Sizes of the blocks, which make up the dim.", integer("A size.", kCount), 1)});
  return object(
      "Layouts of the modules that a pattern matches.",
      {{"match",
        text("Pattern of module names: * is one component, ** any number of them, * alone every module, and "
             "\".\" the model itself. Every entry but a template and one that binds needs it.")},
       {"style", oneOfStrings("How the module is parallelised.",
                              {"colwise", "rowwise", "sequence", "expert", "prepare_input", "prepare_output",
                               "prepare_input_output", "replicate", "gather"})},
       {"axis", text("The mesh axis of the style; \"tp\", or \"ep\" of experts, if not given.")},
       {"blocks", std::move(blocks)},
       {"params", std::move(params)},
       {"bind", array("Patterns of modules that are bound natively.", text("A pattern."))},
       {"template", oneOf("Layouts of a whole model.",
                          {oneOfStrings("A family of models.", supportedTemplates()),
                           map("A tensor-parallel plan as Hugging Face writes it: module pattern to style.",
                               text("A style."))})},
       {"in_src", ports("Layouts in which inputs arrive.")},
       {"in_dst", ports("Layouts in which the module needs its inputs.")},
       {"out_src", ports("Layouts in which the module produces its outputs.")},
       {"out_dst", ports("Layouts in which its outputs are handed on.")},
       {"out_names", array("Names of the outputs, in order.", text("A name."))},
       {"unit",
        integer("Shard boundaries of the weight fall on multiples of it: the size of a head.", kCount)},
       {"dim", integer("The dim of the \"sequence\" style; 1 if not given.", kDim)},
       {"override", boolean("Replace single fields of earlier entries.")},
       {"communication", text("The module does its own collectives on this axis, or on \"mesh\".")},
       {"sequence_parallel", boolean("Shard activations between blocks along the sequence.")},
       {"loss_parallel", boolean("Keep logits sharded up to the loss.")},
       {"use_local_output", boolean("Accepted from imported plans; it has no meaning here.")}});
}

static Schema loss() {
  Schema output = oneOf("The output that is the loss, or that it is reduced from.",
                        {integer("Its index.", kIndex), text("Its name; nested names are joined by dots.")});
  return object(
      "What training makes small; without it only the forward pass is planned.",
      {{"output", std::move(output), true},
       {"reduce", oneOfStrings("How the loss is reduced from the output; not given if it is the loss itself.",
                               {"mean_square", "mean", "sum", "cross_entropy"})},
       {"target",
        object(
            "cross_entropy: the input that holds the labels, which is added to the model. Its shape is that "
            "of the output without the last dim, the classes.",
            {{"name", text("Its name."), true},
             {"dtype", oneOfStrings("Its element type; \"i64\" if not given.", {"i64", "i32"})}})},
       {"ignore_index",
        integer("cross_entropy: the label that does not count; -100 if not given.", kLabel)}});
}

static Schema optimizer() {
  return object(
      "How parameters are updated; without it gradients are computed and parameters stay.",
      {{"kind", oneOfStrings("The method, as in torch.optim.", {"sgd", "adam", "adamw"}), true},
       {"lr", number("The learning rate.", kFactor), true},
       {"momentum", number("Momentum of sgd; 0 if not given.", kFactor)},
       {"dampening",
        number("Share of the gradient that sgd's momentum leaves out; 0 if not given.", kFactor)},
       {"nesterov", boolean("Nesterov's form of the momentum.")},
       {"weight_decay", number("Decay of parameters: added to the gradient by sgd and adam (0 if not given), "
                               "apart from it by adamw (0.01).",
                               kFactor)},
       {"betas", array("Decay rates of adam's two moments; [0.9, 0.999] if not given.",
                       number("A rate below 1.", kFactor))},
       {"eps", number("Term of adam's denominator; 1e-8 if not given.", kFactor)},
       {"clip_norm", number("Gradients are scaled down to this global norm, over all parameters.", kFactor)},
       {"schedule",
        object(
            "How the learning rate changes; it is constant if not given.",
            {{"kind", oneOfStrings("What follows the warm-up.", {"constant", "linear", "cosine"}), true},
             {"warmup", integer("Steps over which the rate rises linearly from 0; 0 if not given.", kIndex)},
             {"steps", integer("The step, warm-up included, at which the rate has fallen to its last value "
                               "(linear, cosine).",
                               kCount)},
             {"final", number("The last value as a fraction of lr; 0 if not given.", kFactor)}})},
       {"state", placements("How the optimizer's state, and so the update, is sharded besides the "
                            "parameter: ZeRO-1 is {\"dp\": \"shard(0)\"}.")}});
}

static Schema storage() {
  return object(
      "Parameters stored in shards over an axis: fully sharded data parallelism.",
      {{"match", text("Pattern of parameter names; \"*\", all of them, if not given.")},
       {"axis", text("The mesh axis; \"dp\" if not given.")},
       {"gather", oneOfStrings("When values are gathered: once a step, or for the forward and again for "
                               "the backward pass, one by one or layer by layer; \"pass\" if not given.",
                               {"step", "pass", "layer"})},
       {"prefetch", integer("Layers that are gathered ahead of their use; 1 if not given.", kIndex)}});
}

const Schema &topologyTable() {
  auto link = [](std::string description) {
    return object(std::move(description),
                  {{"bandwidth", number("Bytes per second that one rank sends, and receives.", kBandwidth)},
                   {"latency", number("Seconds that a collective takes besides moving bytes.", kLatency)},
                   {"message_latency", number("Seconds for each message of a rank within it.", kLatency)}});
  };
  static const Schema table =
      object("What moving bytes costs, which decides how tensors are redistributed.",
             {{"node_size", integer("Consecutive ranks that share a node; 0: all do.", kIndex)},
              {"node", link("Links within a node.")},
              {"network", link("Links between nodes.")},
              {"axes", map("Links along single mesh axes, whatever the nodes are.", link("The links."))}});
  return table;
}

const Schema &costsTable() {
  static const Schema table =
      object("Times of one microbatch, in any unit.",
             {{"stages",
               array("Per stage the times of its parts.",
                     object("One stage.", {{"F", number("Of the forward.", kCost), true},
                                           {"I", number("Of the gradients of activations.", kCost), true},
                                           {"W", number("Of the gradients of parameters.", kCost), true}})),
               true},
              {"transfer", number("Of a transfer between two ranks; 0 if not given.", kCost)}});
  return table;
}

static Schema plan() {
  Schema inputs =
      map("Inputs that are not simply batches along dimension 0, by name.",
          oneOf("How the input is laid out.",
                {placements("A placement per batch axis, or for \"microbatch\"."),
                 oneOfStrings("The same on all ranks and for all microbatches.", {"replicate"})}));
  return object(
      "A parallel plan for a model.",
      {{"mesh",
        map("The mesh of ranks: axis name to size, the last axis fastest.",
            integer("Size of the axis.", kCount)),
        true},
       {"pipeline", pipeline()},
       {"layouts", array("Layouts of modules, in the order in which they apply.", layoutEntry())},
       {"inputs", std::move(inputs)},
       {"batch",
        object("The batch to compile for, where it is not that of the export.",
               {{"of", oneOfStrings("Whose rows are counted.", {"global", "replica", "microbatch"}), true},
                {"size", integer("Number of rows.", kCount), true}})},
       {"loss", loss()},
       {"optimizer", optimizer()},
       {"storage",
        oneOf("Parameters that are stored in shards and gathered for use.",
              {storage(), array("Several such entries; the first that matches holds.", storage(), 1)})},
       {"recompute",
        array("Modules whose activations are computed again in the backward pass instead of kept.",
              text("Pattern of module names, as in layouts."))},
       {"aliases", array("Parameters that are one, where the export does not say so.",
                         array("Names of one parameter.", text("A parameter name."), 2), 1)},
       {"init",
        map("Initial values of parameters that the export has none for: parameter name, or a pattern, to a "
            "way; the last that matches counts.",
            pattern("\"zeros\", \"ones\", or \"normal\" with the standard deviation in brackets if it is "
                    "not 0.02.",
                    kInitialPattern, "\"zeros\", \"ones\", \"normal\" or such as \"normal(0.02)\""))},
       {"precision",
        object("Element types of the computation; those of the model if not given.",
               {{"compute",
                 oneOfStrings("That of products and of what is made of them alone; parameters, sums and what "
                              "the optimizer keeps stay f32.",
                              {"f32", "bf16"}, {"f16"}),
                 true}})},
       {"memory_limit", integer("Most bytes of memory that a rank may plan with.", kBytes)},
       {"context_parallel",
        object(
            "How attention over sequences in shards gets at keys and values.",
            {{"axis", text("The mesh axis; \"cp\" if not given.")},
             {"attention",
              oneOfStrings("\"gather\": all of them on every rank; \"ring\": block by block, each from the "
                           "rank before it; \"auto\", as without this key: what takes less time.",
                           {"auto", "gather", "ring"})}})},
       {"bucket_bytes", integer("Most bytes of the gradients, or parameters, that share the launch of a "
                                "collective; 0: each has its own.",
                                kBucketBytes)},
       {"topology", topologyTable()},
       {"costs",
        oneOf("Times by which schedules are chosen; operations and bytes if not given.",
              {costsTable(), text("A file that holds such an object; a path relative to the plan.")})},
       {"batch_norm",
        oneOfStrings("Which rows batch normalisation normalises together in training; all if not given.",
                     {"microbatch", "local"})},
       {"bounds", unsupported(any("Upper bounds of sizes that depend on data."))},
       {"seed", integer("Seed of random numbers; 0 if not given.", kSeed)}});
}

const Schema &planTable() {
  static const Schema table = plan();
  return table;
}

} // namespace plumb::spec
