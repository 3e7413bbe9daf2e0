#!/usr/bin/env python3
"""Checks what dropout made of ones: dropout.py SAVED TENSOR PROBABILITY STREAM SEED

Philox4x32-10 (Salmon et al., 2011) says for each element of the whole tensor, in step 0, whether it is kept.
"""
import os, sys

sys.path.insert(0, os.path.dirname(__file__))
import compare

WORD = 0xFFFFFFFF


def philox(counter, key):
    counter, key = list(counter), list(key)
    for _ in range(10):
        first, second = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(second >> 32) ^ counter[1] ^ key[0], second & WORD, (first >> 32) ^ counter[3] ^ key[1], first & WORD]
        key = [(key[0] + 0x9E3779B9) & WORD, (key[1] + 0xBB67AE85) & WORD]
    return counter


# The known answers of the authors' own tests.
assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
assert philox([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0]) == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]


def main(path, name, probability, stream, seed):
    probability, stream, seed = float(probability), int(stream), int(seed)
    _, values = compare.read(path)[name]
    kept = [philox([i & WORD, i >> 32, stream, 0], [seed & WORD, seed >> 32])[0] / 2**32 >= probability for i in range(len(values))]
    wrong = sum(abs(value - is_kept / (1 - probability)) > 1e-6 for value, is_kept in zip(values, kept))
    print(f"{len(values) - wrong} of {len(values)} elements as expected, {sum(kept)} kept")
    return 1 if wrong else 0


sys.exit(main(*sys.argv[1:]))
