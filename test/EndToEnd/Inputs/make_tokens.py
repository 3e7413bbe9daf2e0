#!/usr/bin/env python3
"""Writes the inputs of three steps of gpt2_tiny in three ways: make_tokens.py FOLDER

FOLDER/shards has them as a stream of tokens in files of several types; FOLDER/inputs.safetensors as tensors with a dimension
of steps, cut from the stream here; FOLDER/tokens.bin as 16-bit numbers. In FOLDER/unshifted.safetensors the targets are the
tokens themselves. In FOLDER/beyond.safetensors a token of the second step is one that the vocabulary lacks, and a target of
the first one is ignored; in FOLDER/negative.safetensors a token is what only a target may be.
"""
import array, json, os, struct, sys

STEPS, ROWS, COLUMNS = 3, 8, 32
FORMATS = {"U8": "B", "U16": "H", "U32": "I", "I32": "i", "I64": "q"}


def write(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        raw = array.array(FORMATS[dtype], values).tobytes()
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def main(folder):
    count = ROWS * COLUMNS
    tokens = [(7 * i * i + 3 * i + i // 11) % 256 for i in range(STEPS * count + 1)]
    shards = os.path.join(folder, "shards")
    os.mkdir(shards)
    ends = [0, 300, 300, 319, 700, len(tokens)]
    for number, dtype in enumerate(["U16", "I32", "I64", "U8", "U32"]):
        part = tokens[ends[number] : ends[number + 1]]
        write(os.path.join(shards, f"{number:05}.safetensors"), {"tokens": (dtype, [len(part)], part)})
    shape = [STEPS, ROWS, COLUMNS]
    write(
        os.path.join(folder, "inputs.safetensors"),
        {"input.0": ("I64", shape, tokens[:-1]), "input.1": ("I64", shape, tokens[1:])},
    )
    write(
        os.path.join(folder, "unshifted.safetensors"),
        {"input.0": ("I64", shape, tokens[:-1]), "input.1": ("I64", shape, tokens[:-1])},
    )
    for name, at, value in [("beyond", count + 3 * COLUMNS + 17, 256), ("negative", 5, -100)]:
        wrong, targets = tokens[:-1], [-100] + tokens[2:]
        wrong[at] = value
        write(os.path.join(folder, name + ".safetensors"), {"input.0": ("I64", shape, wrong), "input.1": ("I64", shape, targets)})
    with open(os.path.join(folder, "tokens.bin"), "wb") as file:
        file.write(struct.pack(f"<{len(tokens)}H", *tokens))


main(sys.argv[1])
