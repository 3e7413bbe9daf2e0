"""Whether two logs agree on the steps that the second one has: same_log.py FIRST SECOND"""
import json, sys

first, second = ({entry["step"]: entry for entry in map(json.loads, open(path))} for path in sys.argv[1:])
for step, entry in second.items():
    for key, tolerance in ("loss", 2e-4), ("gradient_norm", 2e-4), ("rate", 1e-12):
        if not abs(entry[key] - first[step][key]) <= tolerance * max(1, abs(first[step][key])):
            sys.exit(f"step {step}: {key} is {entry[key]} and {first[step][key]}")
