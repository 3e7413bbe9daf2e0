#!/usr/bin/env python3
"""Runs a plan with and without recomputation of all layers: recompute.py PLUMBC FIXTURE FOLDER PLAN

Results must be equal to the bit, and the memory of all ranks of the pipeline together less.
"""
import json, os, subprocess, sys

LAYOUTS = [
    {"match": "h.*.attn.c_attn", "style": "colwise", "blocks": 3},
    {"match": "h.*.attn.c_proj", "style": "rowwise"},
    {"match": "h.*.mlp.c_fc", "style": "colwise"},
    {"match": "h.*.mlp.c_proj", "style": "rowwise"},
]
plumbc, fixture, folder, plan = sys.argv[1:]
base = {"loss": {"output": 0}, "optimizer": {"kind": "adamw", "lr": 0.01}, **json.loads(plan)}
if "tp" in base["mesh"]:
    base["layouts"] = LAYOUTS
saved, memory = [], []
for name, extra in (("kept", {}), ("again", {"recompute": ["h.*"]})):
    spec, values = os.path.join(folder, name + ".json"), os.path.join(folder, name + ".safetensors")
    with open(spec, "w") as file:
        json.dump({**base, **extra}, file)
    subprocess.run([plumbc, "run", fixture + ".pt2", "--plan", spec, "--inputs", fixture + ".expected.safetensors", "--steps", "3", "--save", values], check=True, stderr=subprocess.DEVNULL)
    subprocess.run([plumbc, "compile", fixture + ".pt2", "--plan", spec, "--emit", "plan", "-o", os.path.join(folder, name)], check=True, stderr=subprocess.DEVNULL)
    with open(values, "rb") as file:
        saved.append(file.read())
    with open(os.path.join(folder, name, "plan.json")) as file:
        memory.append(json.load(file)["memory"])
if saved[0] != saved[1]:
    sys.exit("results differ")
kept, again = (sum(rank["arena"] for rank in ranks) for ranks in memory)
if again >= kept:
    sys.exit(f"ranks need {kept} bytes if activations are kept, {again} if they are computed again: {memory}")
print(f"equal to the bit; memory falls from {kept} to {again} bytes")
