#!/usr/bin/env python3
"""Changes calls of compiled plans at random, and runs what verify-plan has not rejected.

run_mutants.py FIXTURE VALID COUNT SEED PLAN.json...

First each plan is made anew in VALID random orders, all of which must be accepted. Then COUNT changes are made: every
plan that is accepted must compute PyTorch's values; every plan that is rejected because its calls wait for each
other must be found out by the `threads` provider.
"""
import glob, json, os, re, shutil, struct, subprocess, sys, tempfile, zipfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "EndToEnd"))
import compare

ROOT = os.path.join(os.path.dirname(__file__), "..", "..")
FIXTURES = os.path.join(ROOT, "test", "Fixtures")


def write_weights(archive, path):
    """The float parameters of a torch.export archive as safetensors."""
    header, data = {}, b""
    with zipfile.ZipFile(archive) as file:
        config = next(name for name in file.namelist() if name.endswith("model_weights_config.json"))
        for name, entry in json.loads(file.read(config))["config"].items():
            values = file.read(os.path.join(os.path.dirname(config), entry["path_name"]))
            shape = [size["as_int"] for size in entry["tensor_meta"]["sizes"]]
            header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
            data += values
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, **options)


def build(bin_folder, plan, program):
    """Builds the program of a plan without asking verify-plan again."""
    emitted = run(os.path.join(bin_folder, "plumb-opt"), "--emit-program", plan, "-o", os.devnull)
    if emitted.returncode:
        sys.exit(f"{plan}: no program: {emitted.stderr}")
    with open(program + ".cpp", "w") as file:
        file.write(emitted.stdout)
    with open(plan) as file:
        objects = sorted(set(re.findall(r'plumb.object = "([^"]*)"', file.read())))
    include = os.path.join(ROOT, "include")
    library = os.path.join(bin_folder, "..", "lib", "libplumb_runtime_threads.a")
    flags = ["-std=c++20", "-O0", f"-I{include}", f"-I{include}/plumb/Runtime/Host", "-pthread", "-o", program]
    built = run(*os.environ.get("CXX", "c++").split(), program + ".cpp", *objects, library, *flags)
    if built.returncode:
        sys.exit(f"{plan}: the program does not compile: {built.stderr}")


def change_of(plan):
    with open(plan) as file:
        return re.search(r'plumb.change = "([^"]*)"', file.read()).group(1)


def main(fixture, valid_count, count, seed, *plans):
    bin_folder = os.path.dirname(shutil.which("plumbc"))
    model, failures, ran, hung = os.path.join(FIXTURES, fixture), 0, 0, 0
    for number, spec in enumerate(plans):
        with tempfile.TemporaryDirectory() as folder:
            weights, plan = os.path.join(folder, "weights.safetensors"), os.path.join(folder, "plan.mlir")
            write_weights(model + ".pt2", weights)
            tool = os.path.join(bin_folder, "plumbc")
            compiled = run(tool, "compile", model + ".pt2", "--plan", spec, "--emit", "mlir", "-o", "-")
            if compiled.returncode:
                sys.exit(f"{spec}: {compiled.stderr}")
            with open(plan, "w") as file:
                file.write(compiled.stdout)
            print(os.path.basename(spec) + ":")
            if "plumb.copies" not in compiled.stdout:  # which share microbatches out, so not every order will do
                valid = run(os.path.join(bin_folder, "plumb-mutate"), plan, valid_count, seed, "--valid")
                print(valid.stdout + valid.stderr, end="")
                failures += valid.returncode != 0
            mutated = run(os.path.join(bin_folder, "plumb-mutate"), plan, count, str(int(seed) + number), folder)
            print(mutated.stdout + mutated.stderr, end="")
            if mutated.returncode:
                sys.exit(mutated.returncode)
            for mutant in sorted(glob.glob(os.path.join(folder, "*-*.mlir"))):
                program, saved = mutant[: -len(".mlir")], mutant + ".safetensors"
                build(bin_folder, mutant, program)
                inputs = ["--inputs", model + ".expected.safetensors", "--weights", weights]
                result = run(program, *inputs, "--steps", "3", "--save", saved, timeout=120)
                ran += 1
                if "deadlock-" in mutant:
                    found = result.returncode != 0 and "deadlock" in (result.stdout + result.stderr)
                    hung += found
                    failures += not found
                    if not found:
                        print(f"{change_of(mutant)}: rejected as a deadlock, but ran: {result.stdout}{result.stderr}")
                elif result.returncode or compare.main(saved, model + ".expected.safetensors"):
                    failures += 1
                    print(f"{change_of(mutant)}: accepted, but wrong: {result.stdout}{result.stderr}")
    print(f"{ran} plans run, {hung} of them hung as foretold, {failures} not as the verifier says")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
