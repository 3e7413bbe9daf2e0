#!/usr/bin/env python3
"""Runs a fixture under a plan and compares it with PyTorch's values.

run_plan.py PLUMBC FIXTURE --mesh pp=2,tp=2 [--schedule 1f1b] [--microbatches 4] [--stages-per-rank 2] [--layouts JSON]
            [--template JSON] [--pipeline JSON] [--spec JSON] [--no-markers] [--expected FIXTURE] [--steps 3]
            [--optimizer NAME] [--provider mpi] [--check] [--bf16 SHARE] [--emulate-gpu]

--spec sets keys of the plan, or removes those that are null. With --no-markers the model is the fixture without its pipe_split
markers. --expected names the values to compare with if they are not the fixture's. --bf16 computes in that type; SHARE: see
compare_rounding.py.
"""
import argparse, json, os, subprocess, sys, tempfile, zipfile

sys.path.insert(0, os.path.dirname(__file__))
import compare, compare_rounding

FIXTURES = os.path.join(os.path.dirname(__file__), "..", "Fixtures")

# Tensor parallelism of each model, by hand.
GPT2 = [
    {"match": "h.*.attn.c_attn", "style": "colwise", "blocks": 3},
    {"match": "h.*.attn.c_proj", "style": "rowwise"},
    {"match": "h.*.mlp.c_fc", "style": "colwise"},
    {"match": "h.*.mlp.c_proj", "style": "rowwise"},
]
LAYOUTS = {
    "gpt2_tiny": GPT2,
    "gpt2_four_stages": GPT2,
    "mlp": [{"match": "fc1", "style": "colwise"}, {"match": "fc2", "style": "rowwise"}],
    "llama_tiny": [
        {"match": "layers.*.self_attn.q_proj", "style": "colwise"},
        {"match": "layers.*.self_attn.k_proj", "style": "colwise"},
        {"match": "layers.*.self_attn.v_proj", "style": "colwise"},
        {"match": "layers.*.self_attn.o_proj", "style": "rowwise"},
        {"match": "layers.*.mlp.gate_proj", "style": "colwise"},
        {"match": "layers.*.mlp.up_proj", "style": "colwise"},
        {"match": "layers.*.mlp.down_proj", "style": "rowwise"},
    ],
}
# Inputs that are no batch.
INPUTS = {"skip": {"bias": "replicate"}}
# Models without a loss: only outputs are compared.
INFERENCE = {"cnn"}


def plan(arguments):
    mesh = {name: int(size) for name, size in (axis.split("=") for axis in arguments.mesh.split(","))}
    loss = {"output": 0} if arguments.fixture.startswith(("gpt2", "operators")) else {"output": 0, "reduce": "mean_square"}
    training = {"loss": loss, "optimizer": {"kind": "sgd", "lr": 0.1}}
    if arguments.optimizer:
        with open(os.path.join(FIXTURES, "optimizers", "optimizers.json")) as file:
            training["optimizer"] = json.load(file)[arguments.optimizer]
    pipeline = {"schedule": arguments.schedule, "microbatches": arguments.microbatches}
    if arguments.stages_per_rank:
        pipeline["stages_per_rank"] = arguments.stages_per_rank
    pipeline.update(json.loads(arguments.pipeline or "{}"))
    layouts = LAYOUTS.get(arguments.fixture, []) if "tp" in mesh else []
    if arguments.layouts:
        layouts = json.loads(arguments.layouts)
    elif arguments.template:
        layouts = [json.loads(arguments.template)]
    result = {
        "mesh": mesh,
        "pipeline": pipeline,
        "layouts": layouts,
        **({"inputs": INPUTS[arguments.fixture]} if arguments.fixture in INPUTS else {}),
        **({} if arguments.fixture in INFERENCE else training),
        **({"precision": {"compute": "bf16"}} if arguments.bf16 else {}),
        **json.loads(arguments.spec or "{}"),
    }
    return {key: value for key, value in result.items() if value is not None}


def without_markers(path, copy):
    """Writes a copy of an archive whose graph has no markers."""
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(copy, "w") as result:
        for entry in archive.infolist():
            data = archive.read(entry)
            if "/models/" in entry.filename:
                program = json.loads(data)
                graph = program["graph_module"]["graph"]
                graph["nodes"] = [node for node in graph["nodes"] if "pipe_split" not in node["target"]]
                data = json.dumps(program)
            result.writestr(entry.filename, data)


def main(words=None):
    """Returns what went wrong, or 0."""
    parser = argparse.ArgumentParser()
    parser.add_argument("plumbc")
    parser.add_argument("fixture")
    parser.add_argument("--mesh", required=True)
    parser.add_argument("--schedule", default="1f1b")
    parser.add_argument("--microbatches", type=int, default=1)
    parser.add_argument("--stages-per-rank", type=int)
    parser.add_argument("--layouts", help="the plan's layouts, JSON, instead of the fixture's own")
    parser.add_argument("--pipeline", help="further keys of the plan's pipeline, JSON")
    parser.add_argument("--spec", help="further keys of the plan, JSON")
    parser.add_argument("--expected")
    parser.add_argument("--no-markers", action="store_true")
    parser.add_argument("--template", help="an entry with a template instead of layouts, JSON")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--optimizer", help="a name in Fixtures/optimizers, whose values are expected")
    parser.add_argument("--provider", default="threads")
    parser.add_argument("--emulate-gpu", action="store_true", help="with the kernels of GPUs, run on the host")
    parser.add_argument("--check", action="store_true", help="compare with the unsplit model too")
    parser.add_argument("--bf16", help="the bound on differences of gradients", metavar="SHARE")
    arguments = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        spec, saved = os.path.join(folder, "plan.json"), os.path.join(folder, "saved.safetensors")
        with open(spec, "w") as file:
            json.dump(plan(arguments), file)
        model = os.path.join(FIXTURES, arguments.fixture)
        archive = model + ".pt2"
        if arguments.no_markers:
            archive = os.path.join(folder, "model.pt2")
            without_markers(model + ".pt2", archive)
        command = [arguments.plumbc, "run", archive, "--plan", spec, "--steps", str(arguments.steps)]
        inputs = expected = os.path.join(FIXTURES, arguments.expected or arguments.fixture) + ".expected.safetensors"
        if arguments.optimizer:
            expected = os.path.join(FIXTURES, "optimizers", arguments.optimizer) + ".expected.safetensors"
        command += ["--provider", arguments.provider, "--inputs", inputs, "--save", saved]
        command += ["--check"] if arguments.check else []
        command += ["--emulate-gpu"] if arguments.emulate_gpu else []
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        print(run.stdout, end="", flush=True)
        if run.returncode:
            return f"{' '.join(command)}: exit code {run.returncode}"
        if arguments.bf16:
            return compare_rounding.main(saved, os.path.join(FIXTURES, "precision", "bf16.expected.safetensors"), arguments.bf16)
        return compare.main(saved, expected)


if __name__ == "__main__":
    sys.exit(main())
