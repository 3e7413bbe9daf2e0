#!/usr/bin/env python3
"""Runs a fixture under every parallel plan that fits it: parallel_plans.py PLUMBC FIXTURE [WORD]

Each plan is run with --check, that is, against the unsplit model, and its values are compared with PyTorch's. With WORD only
plans are run whose name contains it. Prints the plans that fail, and how many do not.
"""
import contextlib, io, json, os, sys

sys.path.insert(0, os.path.dirname(__file__))
import run_plan

R, S0, S1, SUM = {}, {"tp": "shard(0)"}, {"tp": "shard(1)"}, {"tp": "partial(sum)"}
LAST = {"tp": "shard(-1)"}
WHOLE_PORTS = {"in_src": {"input.0": R}, "in_dst": {"input.0": R}}


def pair(match, first, second, **more):
    """The contract of a module of two linears: features in shards between them, one sum behind them."""
    params = {f"{first}.weight": S0, f"{first}.bias": S0, f"{second}.weight": S1, f"{second}.bias": R}
    return {"match": match, "params": params, **WHOLE_PORTS, "out_src": {"output.0": R}, "out_dst": {"output.0": R}, **more}


def linear(match, weight, bias=None, **sides):
    """The contract of one linear: layouts of its parameters and of its ports."""
    params = {"weight": weight, **({} if bias is None else {"bias": bias})}
    ports = {side: {"output.0" if side.startswith("out") else "input.0": layout} for side, layout in sides.items()}
    return {"match": match, "params": params, **ports}


COLWISE = {"in_src": R, "in_dst": R, "out_src": LAST, "out_dst": LAST}
ROWWISE = {"in_src": LAST, "in_dst": LAST, "out_src": R, "out_dst": R}
FUSED = {"tp": "shard(0, blocks=3)"}
FUSED_PORTS = {**COLWISE, "out_src": {"tp": "shard(-1, blocks=3)"}, "out_dst": {"tp": "shard(-1, blocks=3)"}}

GPT2 = [
    linear("h.*.attn.c_attn", FUSED, FUSED, **FUSED_PORTS),
    linear("h.*.attn.c_proj", S1, R, **ROWWISE),
    pair("h.*.mlp", "c_fc", "c_proj"),
]
LLAMA = [
    *(linear(f"layers.*.self_attn.{name}_proj", S0, **COLWISE) for name in "qkv"),
    linear("layers.*.self_attn.o_proj", S1, **{**ROWWISE, "out_src": SUM}),
    *(linear(f"layers.*.mlp.{name}_proj", S0, **COLWISE) for name in ("gate", "up")),
    linear("layers.*.mlp.down_proj", S1, **{**ROWWISE, "out_src": SUM}),
]
MIXTURE = [
    {"match": ".", "params": {"w1": {"tp": "shard(2)"}, "w2": S1}, "in_src": {"input.0": R}, "in_dst": {"input.0": R}},
    linear("router", R, **{**COLWISE, "out_src": R, "out_dst": R}),
    linear("head", S0, S0, **{**COLWISE, "out_dst": R}),
]
CONTRACTS = {
    "gpt2_tiny": GPT2,
    "gpt2_four_stages": GPT2,
    "llama_tiny": LLAMA,
    "mlp": [linear("fc1", S0, S0, **COLWISE), linear("fc2", S1, R, **ROWWISE), linear("fc3", S0, S0, **{**COLWISE, "out_dst": R})],
    "skip": [linear("a", S0, S0, **COLWISE), linear("b", S1, R, **ROWWISE), linear("c", S1, R, **{"in_dst": LAST, "in_src": R, "out_dst": LAST}),
             linear("d", S0, S0, **{**COLWISE, "in_src": LAST, "out_dst": R})],
    "shared": [linear("l0", S0, S0, **COLWISE), linear("l1", S1, R, **{**ROWWISE, "in_src": R})],
    "edge_markers": [linear("a", S0, S0, **COLWISE), linear("b", S1, R, **ROWWISE)],
    "moe": MIXTURE,
    "moe_gshard": MIXTURE,
    "cnn": [linear("c1", S0, S0, out_src={"tp": "shard(1)"}, out_dst={"tp": "shard(1)"}),
            linear("c2", S1, R, in_src={"tp": "shard(1)"}, in_dst={"tp": "shard(1)"}, out_dst=R)],
}
TEMPLATES = {"gpt2_tiny": "gpt2", "gpt2_four_stages": "gpt2", "llama_tiny": "llama"}
INPUTS_OF_SEQUENCE = {"gpt2_tiny": ("idx", "targets"), "gpt2_four_stages": ("idx", "targets"), "llama_tiny": ("input_ids",)}
ZERO1 = {"optimizer": {"kind": "sgd", "lr": 0.1, "state": {"dp": "shard(0)"}}}
ZERO3 = {"storage": {"match": "*", "axis": "dp"}}


def plans(fixture):
    """Name, mesh, layouts and other keys of each plan that fits a fixture."""
    template, contract = TEMPLATES.get(fixture), CONTRACTS[fixture]

    def styled(**options):
        return [{"template": template, **options}] if template else contract

    trains = fixture not in run_plan.INFERENCE
    for tp in (2, 4):
        if template:
            yield f"tp={tp} by template", f"tp={tp}", styled(), {}
        yield f"tp={tp} by contract", f"tp={tp}", contract, {}
    if template:
        yield "sequence parallelism", "tp=2", styled(sequence_parallel=True), {}
        yield "loss parallelism", "tp=2", styled(loss_parallel=True), {}
    yield "data parallelism", "dp=2", [], {}
    if trains:
        yield "ZeRO-1", "dp=2", [], ZERO1
        yield "ZeRO-3", "dp=2", [], ZERO3
    yield "dp=2, tp=2", "dp=2,tp=2", styled(), {}
    both = styled(sequence_parallel=True, loss_parallel=True)
    yield "all of it", "pp=2,dp=2,tp=2", both, {**(ZERO3 if trains else {}), "pipeline": {"microbatches": 2}}
    if fixture.startswith("moe"):
        experts = [{"match": ".", "style": "expert"}]
        for ep in (2, 4):
            keys = {"inputs": {"x": {"ep": "shard(0)"}}} if fixture == "moe_gshard" else {}
            yield f"ep={ep}", f"ep={ep}", experts, keys
    if fixture in INPUTS_OF_SEQUENCE:
        inputs = {"inputs": {name: {"cp": "shard(1)"} for name in INPUTS_OF_SEQUENCE[fixture]}}
        yield "cp=2", "cp=2", [], inputs
        yield "cp=2 by ring", "cp=2", [], {**inputs, "context_parallel": {"attention": "ring"}}


def main():
    plumbc, fixture, word = sys.argv[1], sys.argv[2], (sys.argv[3:] or [""])[0]
    good = count = 0
    for name, mesh, layouts, keys in plans(fixture):
        if word not in name:
            continue
        count += 1
        steps = ["--steps", "1"] if fixture in run_plan.INFERENCE else []
        arguments = [plumbc, fixture, "--mesh", mesh, "--layouts", json.dumps(layouts), "--spec", json.dumps(keys), "--check", *steps]
        log = io.StringIO()
        with contextlib.redirect_stdout(log):
            failure = run_plan.main(arguments)
        good += not failure
        if failure:
            print(f"{fixture}, {name}: {failure}\n{log.getvalue()}")
    print(f"{fixture}: {good} of {count} plans agree")
    sys.exit(good != count)


if __name__ == "__main__":
    main()
