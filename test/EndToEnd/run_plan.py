#!/usr/bin/env python3
"""Runs a fixture under a plan and compares it with PyTorch's values.

run_plan.py PLUMBC FIXTURE --mesh pp=2,tp=2 [--schedule 1f1b] [--microbatches 4] [--stages-per-rank 2] [--layouts JSON] [--steps 3]
"""
import argparse, json, os, subprocess, sys, tempfile

sys.path.insert(0, os.path.dirname(__file__))
import compare

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
    pipeline = {"schedule": arguments.schedule, "microbatches": arguments.microbatches}
    if arguments.stages_per_rank:
        pipeline["stages_per_rank"] = arguments.stages_per_rank
    return {
        "mesh": mesh,
        "pipeline": pipeline,
        "layouts": json.loads(arguments.layouts) if arguments.layouts else LAYOUTS[arguments.fixture] if "tp" in mesh else [],
        **({"inputs": INPUTS[arguments.fixture]} if arguments.fixture in INPUTS else {}),
        **({} if arguments.fixture in INFERENCE else training),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("plumbc")
    parser.add_argument("fixture")
    parser.add_argument("--mesh", required=True)
    parser.add_argument("--schedule", default="1f1b")
    parser.add_argument("--microbatches", type=int, default=1)
    parser.add_argument("--stages-per-rank", type=int)
    parser.add_argument("--layouts", help="the plan's layouts, JSON, instead of the fixture's own")
    parser.add_argument("--steps", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spec, saved = os.path.join(folder, "plan.json"), os.path.join(folder, "saved.safetensors")
        with open(spec, "w") as file:
            json.dump(plan(arguments), file)
        model = os.path.join(FIXTURES, arguments.fixture)
        command = [arguments.plumbc, "run", model + ".pt2", "--plan", spec, "--steps", str(arguments.steps)]
        command += ["--inputs", model + ".expected.safetensors", "--save", saved]
        code = subprocess.run(command).returncode
        if code:
            sys.exit(f"{' '.join(command)}: exit code {code}")
        sys.exit(compare.main(saved, model + ".expected.safetensors"))


main()
