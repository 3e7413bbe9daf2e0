#!/usr/bin/env python3
"""Runs every fixture that has markers under every plan of its stages alone: stages_table.py PLUMBC [WORD]

Each is run with one stage on a rank, and where their number is even with several on each of two, under gpipe and 1f1b, and
compared with PyTorch's values. With WORD only fixtures are run whose name contains it. Prints the plans that fail, and how many
do not.
"""
import concurrent.futures, glob, json, os, subprocess, sys, zipfile

sys.path.insert(0, os.path.dirname(__file__))
import run_plan

NAMED_LOSS = ["--spec", '{"loss": null}']
WHOLE_BATCH = {"microbatches": 1}
# The number of stages of each fixture, what its plans have besides the pipeline, and further plans.
FIXTURES = {
    "cnn": (2, {"words": ["--steps", "1"]}),
    "edge_markers": (2, {}),
    "gpt2_four_stages": (4, {}),
    "gpt2_tiny": (2, {}),
    "llama_tiny": (4, {}),
    "mlp": (2, {}),
    "moe": (2, {}),
    "moe_gshard": (2, {}),
    "shared": (3, {"pipelines": [{"multi_use_parameters": "replicate"}, {"multi_use_parameters": "transmit"}]}),
    "skip": (4, {"pipelines": [{"skip_connections": "direct"}, {"skip_connections": "forward"}]}),
    "cases/detached": (3, {}),
    "cases/frozen": (3, {}),
    "cases/in_place": (3, {}),
    "cases/keywords": (2, {"words": NAMED_LOSS}),
    "cases/nested": (3, {}),
    "cases/order": (3, {}),
    "cases/skips": (5, {"pipelines": [{"skip_connections": "direct"}, {"skip_connections": "forward"}]}),
    "cases/twice": (3, {"pipelines": [{"multi_use_parameters": "replicate"}, {"multi_use_parameters": "transmit"}]}),
    "fused/grouped_query": (2, {}),
    "stages/regions": (3, {"words": NAMED_LOSS}),
    "stages/squeezed": (2, {"words": ["--spec", '{"loss": {"output": 0}, "batch": {"of": "global", "size": 8}}']}),
    # What these write to buffers depends on the whole batch.
    "training/counting": (3, WHOLE_BATCH),
    "training/pictures": (2, WHOLE_BATCH),
    "training/average": (2, {}),
    "training/recurrent_eval": (2, {}),
    "training/repeated": (2, {"words": ["--spec", '{"batch_norm": "microbatch"}']}),
    "training/unsaved": (2, {}),
}


def has_markers(archive):
    with zipfile.ZipFile(archive) as files:
        return any(b"pipe_split" in files.read(name) for name in files.namelist() if "/models/" in name)


def fixtures_with_markers():
    """All archives of the folder that have markers and PyTorch's values."""
    for archive in sorted(glob.glob("**/*.pt2", root_dir=run_plan.FIXTURES, recursive=True)):
        path = os.path.join(run_plan.FIXTURES, archive)
        if os.path.exists(path.removesuffix(".pt2") + ".expected.safetensors") and has_markers(path):
            yield archive.removesuffix(".pt2")


def plans(fixture):
    """The arguments of run_plan.py for each plan of a fixture."""
    stages, keys = FIXTURES[fixture]
    for ranks in [stages] + [2] * (stages > 2 and stages % 2 == 0):
        for schedule in ("gpipe", "1f1b"):
            for pipeline in keys.get("pipelines", [{}]):
                yield [fixture, "--mesh", f"pp={ranks}", "--schedule", schedule, "--microbatches", str(keys.get("microbatches", 4)),
                       "--pipeline", json.dumps({"stages_per_rank": stages // ranks, **pipeline}), *keys.get("words", [])]


def main():
    plumbc, word = sys.argv[1], (sys.argv[2:] or [""])[0]
    forgotten = [fixture for fixture in fixtures_with_markers() if fixture not in FIXTURES]
    if forgotten:
        sys.exit(f"not in the table: {', '.join(forgotten)}")
    todo = [plan for fixture in FIXTURES if word in fixture for plan in plans(fixture)]

    def run(plan):
        return subprocess.run([sys.executable, run_plan.__file__, plumbc, *plan], capture_output=True, text=True)

    good = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for plan, result in zip(todo, pool.map(run, todo)):
            good += result.returncode == 0
            if result.returncode:
                print(f"{' '.join(plan)}\n{result.stdout}{result.stderr}")
    print(f"{good} of {len(todo)} plans agree")
    sys.exit(good != len(todo))


if __name__ == "__main__":
    main()
