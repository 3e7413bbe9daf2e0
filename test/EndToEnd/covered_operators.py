#!/usr/bin/env python3
"""Checks that each supported ATen operator occurs in an archive: covered_operators.py OPERATORS.md ARCHIVE..."""
import re, sys, zipfile

used = set()
for path in sys.argv[2:]:
    archive = zipfile.ZipFile(path)
    for name in archive.namelist():
        if name.endswith("/model.json"):
            used.update(re.findall(rb'"torch\.ops\.aten\.([\w.]+)"', archive.read(name)))
used = {name.decode().removesuffix(".default") for name in used}
supported = {name for name in re.findall(r"`([\w.]+)`", open(sys.argv[1]).read())}
print(f"{len(supported & used)} of {len(supported)} operators are compared with PyTorch")
for name in sorted(supported - used):
    print("missing:", name)
sys.exit(not supported <= used or not supported)
