#!/usr/bin/env python3
"""Looks for races in a program by running it under many seeds, each another interleaving of its streams.

races.py clean SEEDS FOLDER ARGUMENTS...    as it is: results must be equal to the bit under all seeds
races.py waits FOLDER                       makes program.cpp leave out the wait that PLUMB_TEST_SKIP numbers
races.py found SEEDS FOLDER ARGUMENTS...    without each one of its waits for values: under some seed the result must be another
races.py dropped MODULE                      verify-plan must refuse the verified plan without each one of its waits, but for
                                            those that only keep memory small

A wait for a value is that of a launch that reads what another stream makes. The others keep memory from being filled while it
is read; where the answer of another rank comes later than the reader, as in 1f1b, nothing shows without them.
"""
import os, re, subprocess, sys

WAIT = re.compile(r"^( *)(PLUMB_CUDA\(cudaStreamWaitEvent.*)$", re.MULTILINE)
SKIP = "static int skipped() { static const char *text = getenv(\"PLUMB_TEST_SKIP\"); return text ? atoi(text) : -1; }\n"


def waits_of(folder):
    with open(os.path.join(folder, "program.cpp")) as file:
        return file.read()


def add_skips(folder):
    number = iter(range(10**6))
    text = WAIT.sub(lambda wait: f"{wait[1]}if (skipped() != {next(number)}) {wait[2]}", waits_of(folder))
    at = text.index("namespace {")
    with open(os.path.join(folder, "program.cpp"), "w") as file:
        file.write("#include <cstdlib>\n" + text[:at] + SKIP + text[at:])
    print(f"{next(number)} waits")


def run(folder, arguments, seed, skip=None):
    """What the run saves, or how it ends if not in order."""
    saved = os.path.join(folder, "saved.safetensors")
    environment = {**os.environ, "PLUMB_SEED": str(seed), **({} if skip is None else {"PLUMB_TEST_SKIP": str(skip)})}
    code = subprocess.run([os.path.join(folder, "program"), *arguments, "--save", saved], env=environment, capture_output=True).returncode
    if code:
        return f"exit code {code}"
    with open(saved, "rb") as file:
        return file.read()


def clean(seeds, folder, arguments):
    first = run(folder, arguments, 1)
    for seed in range(1, seeds + 1):
        result = run(folder, arguments, seed)
        if result != first or isinstance(result, str):
            sys.exit(f"seed {seed} gives another result than seed 1: {result if isinstance(result, str) else 'other values'}")
    print(f"equal to the bit under {seeds} seeds")


def value_waits(folder):
    """The numbers of the waits for values."""
    return [int(number) for number in re.findall(r"if \(skipped\(\) != (\d+)\).*// for ", waits_of(folder))]


def found(seeds, folder, arguments):
    expected, waits = run(folder, arguments, 1), value_waits(folder)
    for skip in waits:
        if all(run(folder, arguments, seed, skip) == expected for seed in range(1, seeds + 1)):
            sys.exit(f"without wait {skip} nothing changes under {seeds} seeds")
    print(f"without any one of {len(waits)} waits a race is found")


def is_policy(text, wait, event):
    """Whether a wait only keeps memory small: of a gather of parameters, or for what is reduced per microbatch."""
    line = lambda at: text[text.rindex("\n", 0, at) : text.index("\n", at)]
    reduce = re.search(r"plumb\.streams = \[([^]]*)\]", text)[1].split(", ").index('"reduce"')
    stage = text.rindex("plumb.stage @", 0, wait)
    recorder = re.search(rf"plumb\.records = array<i64: ([-0-9, ]*, )?{event}, -?\d", text[stage:])
    return "ccl.all_gather" in line(wait) or (
        f"plumb.stream = {reduce} " in line(stage + recorder.start()) and "plumb.phase<update>" not in line(wait)
    )


def dropped(path):
    with open(path) as file:
        text = file.read()
    tried = 0
    for attribute in re.finditer(r"plumb\.waits = array<i64: ([-0-9, ]+)>", text):
        entries = attribute[1].split(", ")
        for at in range(0, len(entries), 2):
            if is_policy(text, attribute.start(), entries[at]):
                continue
            rest = ", ".join(entries[:at] + entries[at + 2 :])
            less = text[: attribute.start()] + f"plumb.waits = array<i64{': ' if rest else ''}{rest}>" + text[attribute.end() :]
            run = subprocess.run(["plumb-opt", "--verify-plan", "-o", os.devnull], input=less, capture_output=True, text=True)
            if run.returncode == 0 or "an event wait is missing" not in run.stderr:
                line = text.count("\n", 0, attribute.start()) + 1
                sys.exit(f"{path}:{line}: a plan without the wait for event {entries[at]} is not refused for it: {run.stderr}")
            tried += 1
    print(f"without any one of {tried} waits the plan is refused")


command, *rest = sys.argv[1:]
if command == "waits":
    add_skips(*rest)
elif command == "dropped":
    dropped(*rest)
else:
    {"clean": clean, "found": found}[command](int(rest[0]), rest[1], rest[2:])
