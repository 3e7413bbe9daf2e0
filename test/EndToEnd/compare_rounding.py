#!/usr/bin/env python3
"""Compares a run in a narrow type with PyTorch's in the same type: compare_rounding.py SAVED EXPECTED SHARE

EXPECTED has each value twice, rounded as the run does it and, under `f32.NAME`, without: the distance of the two, in the
Euclidean norm, is the size of the rounding. Sums in another order flip the last bit of a rounded number now and then, so that no
run is equal to the bit. A run that rounds where PyTorch does has gradients well within it: SHARE is the bound. What
follows from them after some steps is rounded as much, but not alike: two such values are sqrt(2) times the rounding apart.
"""
import math, os, sys

sys.path.insert(0, os.path.dirname(__file__))
import compare

UNRELATED = 1.5


def distance(a, b):
    return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b)))


def main(saved_path, expected_path, share):
    saved, expected = compare.read(saved_path), compare.read(expected_path)
    names = [name for name in expected if not name.startswith("f32.")]
    worst, bad = (0.0, ""), 0
    for name in names:
        shape, values = expected[name]
        other = saved.get(name.replace("after3.", "param."))
        if other is None or list(other[0]) != list(shape):
            print(f"{name}: missing, or of another shape")
            bad += 1
            continue
        found = distance(other[1], values) / distance(values, expected["f32." + name][1])
        worst = max(worst, (found, name))
        if not found <= (float(share) if name.startswith("grad.") else UNRELATED):
            print(f"{name}: differs by {found:.3g} of the rounding")
            bad += 1
    print(f"{len(names) - bad} of {len(names)} tensors equal within the rounding, largest difference {worst[0]:.2f} ({worst[1]})")
    return 1 if bad or not names else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
