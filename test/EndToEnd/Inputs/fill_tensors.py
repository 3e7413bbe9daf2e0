#!/usr/bin/env python3
"""Writes a safetensors file of f32 tensors with values that follow from their positions: fill_tensors.py FILE NAME=4x6 …"""
import array, json, math, struct, sys

header, data, end = {}, [], 0
for number, word in enumerate(sys.argv[2:]):
    name, shape = word.split("=")
    sizes = [int(size) for size in shape.split("x")]
    values = array.array("f", (0.1 + 0.2 * math.sin(1.7 * i + number) for i in range(math.prod(sizes))))
    begin, end = end, end + 4 * len(values)
    header[name] = {"dtype": "F32", "shape": sizes, "data_offsets": [begin, end]}
    data.append(values.tobytes())
text = json.dumps(header).encode()
with open(sys.argv[1], "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + b"".join(data))
