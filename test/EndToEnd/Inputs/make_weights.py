#!/usr/bin/env python3
"""The weights of an archive in other forms: make_weights.py MODEL.pt2 WEIGHTS.safetensors FOLDER

  moved.pt2        in an archive of another name: all in one record, with reversed strides
  packed.pt2       with compressed entries
  empty.pt2        without values, as of a model exported with fake tensors; constants keep theirs
  hf/              two safetensors files, and model.safetensors.index.json
  hf/lacks.json    an index that promises a tensor of the second file in the first
"""
import json, math, os, struct, sys, zipfile

model, weights, folder = sys.argv[1:]
SIZES = {1: 1, 4: 4, 5: 8, 6: 2, 7: 4, 8: 8, 12: 1, 13: 2}


def numbers(values):
    return [{"as_int": value} for value in values]


def integers(values):
    return [value["as_int"] for value in values]


def reverse(data, shape, item):
    """The elements of a row-major tensor in column-major order."""
    result = bytearray(len(data))
    for i in range(math.prod(shape)):
        rest, at, stride = i, 0, math.prod(shape)
        for extent in reversed(shape):
            stride //= extent
            at += rest % extent * stride
            rest //= extent
        # The last dimension has the largest stride.
        result[at * item : (at + 1) * item] = data[i * item : (i + 1) * item]
    return bytes(result)


archive = zipfile.ZipFile(model)
root = archive.namelist()[0].split("/")[0]
config_name = f"{root}/data/weights/model_weights_config.json"
config = json.loads(archive.read(config_name))
record, places, moved = b"", {}, {}
for name, weight in config["config"].items():
    meta = dict(weight["tensor_meta"])
    shape, item = integers(meta["sizes"]), SIZES[meta["dtype"]]
    strides = [math.prod(shape[:dim]) for dim in range(len(shape))]
    if weight["path_name"] not in places:
        data = archive.read(f"{root}/data/weights/{weight['path_name']}")
        record += bytes(-len(record) % item)
        places[weight["path_name"]] = len(record)
        record += reverse(data, shape, item)
    meta |= {"strides": numbers(strides), "storage_offset": {"as_int": places[weight["path_name"]] // item}}
    moved[name] = weight | {"path_name": "all", "tensor_meta": meta}


def write(file, change, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(f"{folder}/{file}", "w", compression) as target:
        for name in archive.namelist():
            content = change(name, archive.read(name))
            if content is not None:
                target.writestr(name.replace(root + "/", "another name/", 1), content)
        if file == "moved.pt2":
            target.writestr("another name/data/weights/all", record)


def move(name, content):
    if name == config_name:
        return json.dumps({"config": moved})
    return None if "/data/weights/weight_" in name else content


write("moved.pt2", move)
write("packed.pt2", lambda name, content: content, zipfile.ZIP_DEFLATED)
write("empty.pt2", lambda name, content: b"" if "/data/weights/weight_" in name else content)

with open(weights, "rb") as file:
    header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    data = file.read()
os.mkdir(f"{folder}/hf")
index = {}
for shard in (1, 2):
    path, part, entries = f"model-0000{shard}-of-00002.safetensors", b"", {}
    for name in sorted(header)[shard - 1 :: 2]:
        begin, end = header[name]["data_offsets"]
        entries[name] = header[name] | {"data_offsets": [len(part), len(part) + end - begin]}
        part += data[begin:end]
        index[name] = path
    text = json.dumps(entries).encode()
    with open(f"{folder}/hf/{path}", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + part)
metadata = {"total_size": float(len(data)), "format": None}
with open(f"{folder}/hf/model.safetensors.index.json", "w") as file:
    json.dump({"metadata": metadata, "weight_map": index}, file, indent=2)
with open(f"{folder}/hf/lacks.json", "w") as file:
    json.dump({"weight_map": index | {sorted(header)[1]: "model-00001-of-00002.safetensors"}}, file)
