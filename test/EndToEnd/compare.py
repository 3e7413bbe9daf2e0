#!/usr/bin/env python3
"""Compares what a run saved with PyTorch's values: compare.py SAVED EXPECTED [TENSOR...]

Every `losses`, `output.*`, `grad.*` and `after3.*` of EXPECTED is compared (`after3.x` with the saved `param.x`), or only
those whose name starts with one of the given words. Tolerance: max|a - b| <= 2e-4 * max(1, max|b|).
"""
import array, json, struct, sys

TOLERANCE = 2e-4
FORMATS = {"F32": "f", "F64": "d", "I64": "q", "I32": "i", "BOOL": "b"}


def read(path):
    data = open(path, "rb").read()
    (length,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, info in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":
            begin, end = info["data_offsets"]
            values = array.array(FORMATS[info["dtype"]], data[8 + length + begin : 8 + length + end])
            tensors[name] = (info["shape"], values)
    return tensors


def distance(a, b):
    """How far apart two numbers are; what is equal or not a number in both is not, what is in one is infinitely so."""
    if a == b or (a != a and b != b):
        return 0.0
    return abs(a - b) if a - b == a - b else float("inf")


def main(saved_path, expected_path, *words):
    saved, expected = read(saved_path), read(expected_path)
    words = words or ("losses", "output.", "grad.", "after3.")
    compared, bad, worst = 0, 0, (0.0, "")
    for name, (shape, values) in expected.items():
        if not name.startswith(tuple(words)):
            continue
        compared += 1
        other = saved.get(name.replace("after3.", "param."))
        if other is None or list(other[0]) != list(shape):
            print(f"{name}: {'missing' if other is None else f'shape {other[0]} instead of {shape}'}")
            bad += 1
            continue
        difference = max(map(distance, other[1], values), default=0.0)
        relative = difference / max(1.0, max((abs(b) for b in values if abs(b) < float('inf')), default=0.0))
        worst = max(worst, (relative, name))
        if not relative <= TOLERANCE:
            print(f"{name}: differs by {difference:.3g}")
            bad += 1
    print(f"{compared - bad} of {compared} tensors equal, largest difference {worst[0]:.2e} ({worst[1]}), tolerance {TOLERANCE:g}")
    return 1 if bad or not compared else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
