#!/usr/bin/env python3
"""Runs random redistributions as programs: redistributions.py PLUMBC --mesh a=2,b=4 --shape 8,16 [--seed 1] [--count 40] [--uneven] [--options JSON]

Each output is the input, brought into a random layout, from there into another one, and stored so (or gathered, where the
store has no name for the layout). Over axes that are partial the parts must add up again. Whatever the steps are, every
output equals the input.
"""
import argparse, array, json, os, random, struct, subprocess, sys, tempfile

sys.path.insert(0, os.path.dirname(__file__))
import compare


def factors(size, rng):
    """An axis as digits: whole, or split in two."""
    splits = [f for f in range(2, size) if size % f == 0]
    if splits and rng.random() < 0.4:
        outer = rng.choice(splits)
        return [f"(1){outer}", f"({outer}){size // outer}"], [outer, size // outer]
    return [""], [size]


def layout(mesh, shape, rng, partial, uneven):
    """Axes, whole or split, at random dims that they divide, some dims in blocks; if `uneven`, also at dims that they
    do not divide. Answers text and whether axes are whole."""
    dims, rest, sums, whole = [[] for _ in shape], [], [], True
    blocks = [rng.choice([1, 1, 1, 2]) if size % 2 == 0 else 1 for size in shape]
    left = [size // b for size, b in zip(shape, blocks)]
    digits = []
    for name, size in mesh.items():
        texts, sizes = factors(size, rng)
        digits += [(f'"{name}"' + (":" + text if text else ""), n, not text) for text, n in zip(texts, sizes)]
    rng.shuffle(digits)
    for text, size, is_whole in digits:
        where = rng.randrange(len(shape) + 2)
        if where < len(shape) and (left[where] % size == 0 or uneven and blocks[where] == 1):
            dims[where].append(text)
            left[where] = -(-left[where] // size)
            whole &= is_whole
        elif partial and where == len(shape) and is_whole:
            sums.append(f"{text} : sum")
    inside = ", ".join("{" + ", ".join(d) + "}" + (f" blocks {b}" if d and b > 1 else "") for d, b in zip(dims, blocks))
    return f"<@mesh, [{inside}]" + (f", partial = {{{', '.join(sums)}}}" if sums else "") + ">", whole


def model(mesh, shape, count, rng, uneven):
    tensor = f"tensor<{'x'.join(map(str, shape))}xf32>"
    axes = ", ".join(f'"{name}" = {size}' for name, size in mesh.items())
    lines = [f"plumb.mesh @mesh [{axes}]", "plumb.program @model {", f'  %x = plumb.input "x" index 0 : {tensor}']
    none = "<@mesh, [" + ", ".join("{}" for _ in shape) + "]>"
    value = 0

    def change(source, before, after):
        nonlocal value
        value += 1
        lines.append(f"  %{value} = plumb.redistribute %{source} from {before} to {after} : ({tensor}) -> {tensor}")
        return value

    for output in range(count):
        first, _ = layout(mesh, shape, rng, True, uneven)
        second, whole = layout(mesh, shape, rng, False, uneven)
        last = change(change("x", none, first), first, second)
        if not whole:
            last = change(last, second, none)
        lines.append(f'  plumb.output "y{output}" index {output} %{last} : {tensor}')
    return "\n".join(lines + ["}", ""])


def safetensors(path, tensors):
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        raw = array.array("f", values).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("plumbc")
    parser.add_argument("--mesh", required=True)
    parser.add_argument("--shape", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--uneven", action="store_true", help="shards may differ in size")
    parser.add_argument("--options", default="{}", help="more keys of the plan spec")
    parser.add_argument("--keep", help="a folder that keeps model and plan")
    arguments = parser.parse_args()
    mesh = {name: int(size) for name, size in (axis.split("=") for axis in arguments.mesh.split(","))}
    shape = [int(size) for size in arguments.shape.split(",")]
    elements = 1
    for size in shape:
        elements *= size
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or temporary
        os.makedirs(folder, exist_ok=True)
        paths = {name: os.path.join(folder, name) for name in ("model.mlir", "plan.json", "in", "none", "expected", "saved")}
        with open(paths["model.mlir"], "w") as file:
            file.write(model(mesh, shape, arguments.count, random.Random(arguments.seed), arguments.uneven))
        with open(paths["plan.json"], "w") as file:
            json.dump({"mesh": mesh, "inputs": {"x": "replicate"}, **json.loads(arguments.options)}, file)
        values = [float(i) for i in range(elements)]
        safetensors(paths["none"], {})
        safetensors(paths["in"], {"input.0": (shape, values)})
        safetensors(paths["expected"], {f"output.{i}": (shape, values) for i in range(arguments.count)})
        command = [arguments.plumbc, "run", paths["model.mlir"], "--plan", paths["plan.json"]]
        command += ["--inputs", paths["in"], "--weights", paths["none"], "--save", paths["saved"]]
        code = subprocess.run(command).returncode
        if code:
            sys.exit(f"{' '.join(command)}: exit code {code}")
        sys.exit(compare.main(paths["saved"], paths["expected"]))


main()
