#!/usr/bin/env python3
"""Memory of compiled plans against the least possible: plan_memory.py PLUMBC FIXTURES

Compiles fixtures under plans of all kinds. The arena may exceed what the plan says is in use at one time by a twentieth. That
in turn is compared with what the actions and buffers of the plan file say alone: there, streams run step by step. What other
streams do beside the computation, receives, sends, gathers ahead and sums that are still on their way, may add to it; it is
never less. It also checks that something lies at the very end of the arena, and nothing behind it.
"""
import json, os, re, subprocess, sys, tempfile

ALLOWED = 1.05
LAYOUTS = [
    {"match": "h.*.attn.c_attn", "style": "colwise", "blocks": 3},
    {"match": "h.*.attn.c_proj", "style": "rowwise"},
    {"match": "h.*.mlp.c_fc", "style": "colwise"},
    {"match": "h.*.mlp.c_proj", "style": "rowwise"},
]
SGD, ADAM = {"kind": "sgd", "lr": 0.1}, {"kind": "adamw", "lr": 0.1, "clip_norm": 1}
LOSS, SQUARE = {"output": 0}, {"output": 0, "reduce": "mean_square"}
PLANS = [
    ("gpt2_tiny", {"mesh": {"pp": 1}, "loss": LOSS, "optimizer": ADAM}),
    ("gpt2_tiny", {"mesh": {"pp": 1}}),
    ("gpt2_tiny", {"mesh": {"pp": 2, "dp": 2, "tp": 2}, "pipeline": {"microbatches": 4}, "layouts": LAYOUTS, "loss": LOSS, "optimizer": SGD}),
    ("gpt2_tiny", {"mesh": {"pp": 2, "tp": 2}, "pipeline": {"microbatches": 4}, "layouts": LAYOUTS, "loss": LOSS, "optimizer": ADAM, "recompute": ["h.*"]}),
    ("gpt2_tiny", {"mesh": {"dp": 2}, "storage": {}, "loss": LOSS, "optimizer": ADAM, "precision": {"compute": "bf16"}}),
    ("llama_tiny", {"mesh": {"pp": 2, "tp": 2}, "pipeline": {"microbatches": 2}, "layouts": [{"template": "llama", "sequence_parallel": True}], "loss": SQUARE, "optimizer": SGD}),
    ("llama_tiny", {"mesh": {"dp": 2}, "pipeline": {"microbatches": 2, "schedule": "gpipe"}, "storage": {"gather": "step"}, "loss": SQUARE, "optimizer": ADAM}),
    ("mlp", {"mesh": {"dp": 2}, "loss": SQUARE, "optimizer": SGD}),
    ("moe", {"mesh": {"dp": 2}, "loss": SQUARE, "optimizer": SGD}),
    ("cnn", {"mesh": {"dp": 2}}),
    ("gpt2_four_stages", {"mesh": {"pp": 4}, "pipeline": {"microbatches": 8}, "loss": LOSS, "optimizer": SGD}),
    ("gpt2_four_stages", {"mesh": {"pp": 2}, "pipeline": {"microbatches": 4, "schedule": "interleaved-1f1b"}, "loss": LOSS, "optimizer": SGD}),
    ("gpt2_four_stages", {"mesh": {"pp": 4}, "pipeline": {"microbatches": 8, "schedule": "zb-h1"}, "loss": LOSS, "optimizer": SGD}),
    ("gpt2_four_stages", {"mesh": {"pp": 2}, "pipeline": {"microbatches": 4, "schedule": "zb-v"}, "loss": LOSS, "optimizer": SGD}),
    ("skip", {"mesh": {"pp": 2}, "inputs": {"bias": "replicate"}, "pipeline": {"microbatches": 2}, "loss": SQUARE, "optimizer": SGD}),
    ("shared", {"mesh": {"pp": 2}, "pipeline": {"microbatches": 2, "multi_use_parameters": "transmit"}, "loss": SQUARE, "optimizer": SGD}),
    ("edge_markers", {"mesh": {"pp": 2}, "pipeline": {"microbatches": 2}, "loss": SQUARE, "optimizer": SGD}),
    ("gpt2_tiny", {"mesh": {"pp": 2}, "pipeline": {"microbatches": 4, "schedule": "dualpipe"}, "loss": LOSS, "optimizer": SGD}),
    ("gpt2_tiny", {"mesh": {"pp": 1}, "pipeline": {"microbatches": 4, "schedule": "interleaved-1f1b"}, "loss": LOSS, "optimizer": SGD}),
    ("gpt2_tiny", {"mesh": {"dp": 2}, "pipeline": {"microbatches": 2}, "storage": {}, "loss": LOSS, "optimizer": SGD}),
    ("gpt2_tiny", {"mesh": {"pp": 2, "dp": 2}, "pipeline": {"microbatches": 4}, "storage": {"gather": "layer"}, "loss": LOSS, "optimizer": SGD}),
    ("gpt2_tiny", {"mesh": {"pp": 2}, "pipeline": {"microbatches": 4}, "recompute": ["**"], "loss": LOSS, "optimizer": SGD}),
    ("gpt2_four_stages", {"mesh": {"pp": 4}, "pipeline": {"microbatches": 8, "schedule": "dualpipe"}, "loss": LOSS, "optimizer": SGD}),
    ("gpt2_four_stages", {"mesh": {"pp": 2}, "pipeline": {"microbatches": 4, "schedule": "dualpipe-v"}, "loss": LOSS, "optimizer": SGD}),
    ("llama_tiny", {"mesh": {"pp": 2}, "pipeline": {"microbatches": 4, "schedule": "interleaved-1f1b"}, "loss": SQUARE, "optimizer": SGD}),
    ("llama_tiny", {"mesh": {"pp": 2}, "pipeline": {"microbatches": 4, "schedule": "zb-v"}, "loss": SQUARE, "optimizer": SGD}),
    ("llama_tiny", {"mesh": {"pp": 2}, "pipeline": {"microbatches": 4, "schedule": "dualpipe-v"}, "loss": SQUARE, "optimizer": SGD}),
    ("llama_tiny", {"mesh": {"dp": 2}, "pipeline": {"microbatches": 2}, "storage": {}, "loss": SQUARE, "optimizer": SGD}),
    ("llama_tiny", {"mesh": {"pp": 2}, "pipeline": {"microbatches": 4}, "recompute": ["layers.*"], "loss": SQUARE, "optimizer": SGD}),
]
ACTION = re.compile(r"(\d+)(SEND_F|RECV_F|SEND_B|RECV_B|F|B|I|W)(\d+)")
PARTS = {
    "F": ["forward"], "B": ["backward_input", "backward_weight"], "I": ["backward_input"], "W": ["backward_weight"],
    "SEND_F": ["send_forward"], "RECV_F": ["recv_forward"], "SEND_B": ["send_backward"], "RECV_B": ["recv_backward"],
}


def aligned(size):
    return (size + 63) // 64 * 64


def kind(part):
    return re.sub(r"_(to|from)_\d+$", "", part)


def times_of(plan, coordinate):
    """When each part of each stage runs, by microbatch; None: once."""
    stages = [stage for stage, at in enumerate(plan["pipeline"]["stages"]) if at == coordinate]
    times, now = {}, 0
    def add(stage, part, microbatch):
        nonlocal now
        times.setdefault((stage, part), {})[microbatch] = now
        now += 1
    for stage in stages:
        for microbatch in range(plan["pipeline"]["microbatches"]):
            add(stage, "prologue", microbatch)
    for stage in stages:
        add(stage, "begin", None)
    for action in plan["actions"][coordinate]:
        for stage, name, microbatch in ACTION.findall(action):
            for part in PARTS[name]:
                add(int(stage), part, int(microbatch))
    for part in ("reduce", "update"):
        for stage in stages:
            add(stage, part, None)
    return times, now


def largest_live_set(plan, coordinate):
    times, end = times_of(plan, coordinate)
    live, temporaries = [0] * (end + 1), {}
    for buffer in plan["buffers"][coordinate]:
        if "ops" in buffer:
            events = temporaries.setdefault((buffer["stage"], buffer["part"]), [])
            events.append((buffer["ops"][0], 0, aligned(buffer["bytes"])))
            events.append((buffer["ops"][1], 1, -aligned(buffer["bytes"])))
            continue
        spans = {}
        for part in buffer["used_in"]:
            for microbatch, time in times.get((buffer["stage"], kind(part)), {}).items():
                spans.setdefault(microbatch, []).append(time)
        if None in spans:  # made once: in use from its first part to the last
            spans = {None: [time for span in spans.values() for time in span]}
        for span in spans.values():
            for time in range(min(span), max(span) + 1):
                live[time] += aligned(buffer["bytes"])
    for key, events in temporaries.items():
        used = peak = 0
        for _, _, change in sorted(events):
            used += change
            peak = max(peak, used)
        for time in times.get(key, {}).values():
            live[time] += peak
    memory = plan["memory"][coordinate]
    return max(live) + sum(memory[use] for use in ("states", "parameters", "optimizer", "inputs", "staging", "outputs"))


def check(name, plan):
    """The arena and what is in use at one time, each by what is in use at one time and by that without streams."""
    worst = [0, 0]
    for coordinate, memory in enumerate(plan["memory"]):
        least = largest_live_set(plan, coordinate)
        if memory["live"] < least:
            sys.exit(f"{name}: coordinate {coordinate} is said to use {memory['live']} bytes at one time, but uses {least}")
        worst = [max(worst[0], memory["arena"] / max(memory["live"], 1)), max(worst[1], memory["live"] / max(least, 1))]
        ends = [buffer["offset"] + max(buffer.get("places", [max(buffer["slots"] - 1, 0) * buffer.get("stride", 0)])) + aligned(buffer["bytes"]) for buffer in plan["buffers"][coordinate]]
        fixed = sum(memory[use] for use in ("states", "parameters", "optimizer", "inputs", "outputs"))
        end = max(ends + [fixed]) + memory["staging"]
        if end != memory["arena"]:
            sys.exit(f"{name}: the arena of coordinate {coordinate} has {memory['arena']} bytes, but what lies in it ends at {end}")
    return worst


plumbc, fixtures = sys.argv[1:3]
bad, highest = 0, [0, 0]
with tempfile.TemporaryDirectory() as folder:
    for fixture, spec in PLANS:
        path = os.path.join(folder, "spec.json")
        with open(path, "w") as file:
            json.dump(spec, file)
        run = subprocess.run([plumbc, "compile", os.path.join(fixtures, fixture + ".pt2"), "--plan", path, "--emit", "plan", "-o", folder], capture_output=True, text=True)
        if run.returncode:
            sys.exit(f"{fixture}, {json.dumps(spec)}: {run.stderr}")
        with open(os.path.join(folder, "plan.json")) as file:
            shares = check(fixture, json.load(file))
        highest = [max(pair) for pair in zip(highest, shares)]
        if shares[0] > ALLOWED or len(sys.argv) > 3:
            print(f"{fixture}, {json.dumps(spec)}: the arena is {shares[0]:.3f} times the largest live set, that {shares[1]:.3f} times the one without streams")
        bad += shares[0] > ALLOWED
print(f"{len(PLANS)} plans, allowed {ALLOWED}, highest {highest[0]:.3f}; streams beside the computation take up to {highest[1]:.3f} times as much as one")
sys.exit(bad > 0)
