"""usage: absurd_numbers.py PLUMBC MODEL

Tries numbers that no plan needs at every option of plumbc that takes one, and the largest that the schema allows at every key
of the plan: whatever they are, plumbc answers with 0, 1 or 2, says what is wrong where, and prints no number that is none.
"""

import copy
import json
import os
import re
import subprocess
import sys
import tempfile

PLAN = {
    "mesh": {"pp": 2, "dp": 2, "tp": 2},
    "pipeline": {"microbatches": 2, "stages_per_rank": 1},
    "layouts": [{"match": "fc1", "style": "colwise", "unit": 1, "blocks": 1}],
    "batch": {"of": "microbatch", "size": 2},
    "loss": {"output": 0, "reduce": "mean_square"},
    "storage": {"prefetch": 1},
    "memory_limit": 1000000,
    "bucket_bytes": 100,
    "costs": {"stages": [{"F": 1, "I": 1, "W": 1}] * 2, "transfer": 0.5},
    "topology": {
        "node_size": 2,
        "node": {"bandwidth": 1e9, "latency": 1e-6, "message_latency": 1e-6},
        "network": {"bandwidth": 1e9, "latency": 1e-6, "message_latency": 1e-6},
    },
    "optimizer": {
        "kind": "adamw", "lr": 0.1, "betas": [0.9, 0.99], "eps": 1e-8, "weight_decay": 0.1, "clip_norm": 1,
        "schedule": {"kind": "linear", "warmup": 1, "steps": 10, "final": 0.1},
    },
}
REDISTRIBUTE = "redistribute --from [{x}] --to [{}]"
OPTIONS = [
    ("schedule --kind 1f1b", {"--ranks": "2", "--microbatches": "4", "--stages-per-rank": "1", "--memory-limit": "9"}),
    ("schedule --validate actions.csv", {"--stages": "2", "--microbatches": "1", "--ranks": "2", "--replicas": "1", "--map": "0,1"}),
    (REDISTRIBUTE, {"--mesh": "x=2", "--shape": "8", "--memory-limit": "1000"}),
    (REDISTRIBUTE + " --mesh x=2", {"--to-mesh": "y=2", "--to-devices": "2-3", "--shape": "8"}),
    ("explain MODEL --plan plan.json", {"--stage": "0"}),
    ("explain MODEL --plan plan.json", {"--rank": "0"}),
    ("run MODEL --plan plan.json", {"--steps": "1"}),
]
ABSURD = ["1e308", "1e-308", "1e400", "-1", "0.5", "nan", "4611686018427387904", "99999999999999999999"]


def numbers(value, path=()):
    """The paths of all numbers."""
    if isinstance(value, (dict, list)):
        for key, element in value.items() if isinstance(value, dict) else enumerate(value):
            yield from numbers(element, path + (key,))
    elif isinstance(value, (int, float)):
        yield path


def largest(schema, path):
    """The largest number that the schema allows there."""
    alternatives = schema.get("anyOf", [schema])
    if not path:
        return next((a["maximum"] for a in alternatives if "maximum" in a), None)
    for alternative in alternatives:
        inner = alternative.get("items") if isinstance(path[0], int) else alternative.get("properties", {}).get(path[0])
        inner = inner or alternative.get("additionalProperties")
        found = largest(inner, path[1:]) if isinstance(inner, dict) else None
        if found is not None:
            return found
    return None


def changed(path, number):
    plan = copy.deepcopy(PLAN)
    place = plan
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = number
    return plan


def main():
    plumbc, model = sys.argv[1:]
    wrong = tried = 0

    def run(words, codes, what):
        nonlocal wrong, tried
        tried += 1
        words = [model if word == "MODEL" else word for word in words]
        result = subprocess.run([plumbc, *words], capture_output=True, text=True, timeout=120)
        said = result.stdout + result.stderr
        if result.returncode not in codes or re.search(r"\b(inf|nan)\b|internal|exception", result.stdout) or (
            result.returncode and not re.search("error: |must be", said)
        ):
            wrong += 1
            print(f"{what}: exit code {result.returncode}\n{said[:600]}")

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("actions.csv", "w") as file:
            file.write("0F0,0B0\n1F0,1B0\n")
        schema = json.loads(subprocess.run([plumbc, "compile", "--print-schema"], capture_output=True, check=True).stdout)
        for path in numbers(PLAN):
            number = largest(schema, path)
            with open("plan.json", "w") as file:
                json.dump(changed(path, number), file)
            run(["check", "MODEL", "--plan", "plan.json"], (0, 1), f"{path} = {number}")
        with open("plan.json", "w") as file:
            json.dump(PLAN, file)
        for command, options in OPTIONS:
            for option in options:
                for number in ABSURD:
                    values = {**options, option: number}
                    words = [word for pair in values.items() for word in pair]
                    run(command.split() + words, (1, 2), f"{option} {number!r} of {command}")
    print(f"{tried - wrong} of {tried} numbers answered")


main()
