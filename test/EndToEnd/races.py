#!/usr/bin/env python3
"""Looks for races in a program by running it under many seeds, each another interleaving of its streams.

races.py clean SEEDS FOLDER ARGUMENTS...    as it is: results must be equal to the bit under all seeds
races.py waits FOLDER                       makes program.cpp leave out the wait that PLUMB_TEST_SKIP numbers
races.py found SEEDS FOLDER ARGUMENTS...    without each one of its waits: under some seed the result must be another
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


def found(seeds, folder, arguments):
    expected = run(folder, arguments, 1)
    count = waits_of(folder).count("if (skipped() != ")
    for skip in range(count):
        if all(run(folder, arguments, seed, skip) == expected for seed in range(1, seeds + 1)):
            sys.exit(f"without wait {skip} of {count} nothing changes under {seeds} seeds")
    print(f"without any one of its waits a race is found: {count} of {count}")


command, *rest = sys.argv[1:]
if command == "waits":
    add_skips(*rest)
else:
    {"clean": clean, "found": found}[command](int(rest[0]), rest[1], rest[2:])
