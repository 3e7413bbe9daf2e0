#!/usr/bin/env python3
"""Trains gpt2_tiny with torch.optim and writes what each optimizer of optimizers.json makes of it: make.py

NAME.expected.safetensors holds `losses` and some parameters after the last step. Needs PyTorch. Left out are biases of keys:
their gradients are zero but for rounding, which Adam blows up to whole steps.
"""
import json, math, os
import torch
import torch.distributed.pipelining  # registers the marker op of the archive
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 3
KEPT = ["wte.weight", "h.0.attn.c_attn.weight", "h.1.mlp.c_fc.bias", "h.3.mlp.c_proj.weight", "ln_f.weight"]


def save(path, tensors):
    save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, path)


def loss_of(p, tokens, targets, heads=4):
    """GPT-2 with tied embeddings: the model of the fixture."""
    batch, time = tokens.shape
    x = p["wte.weight"][tokens] + p["wpe.weight"][:time]
    norm = lambda name, x: F.layer_norm(x, x.shape[-1:], p[name + ".weight"], p[name + ".bias"])
    linear = lambda name, x: F.linear(x, p[name + ".weight"], p[name + ".bias"])
    for block in range(4):
        name = f"h.{block}."
        qkv = linear(name + "attn.c_attn", norm(name + "ln_1", x)).chunk(3, -1)
        q, k, v = (t.view(batch, time, heads, -1).transpose(1, 2) for t in qkv)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + linear(name + "attn.c_proj", y.transpose(1, 2).flatten(2))
        hidden = F.gelu(linear(name + "mlp.c_fc", norm(name + "ln_2", x)), approximate="tanh")
        x = x + linear(name + "mlp.c_proj", hidden)
    logits = norm("ln_f", x) @ p["wte.weight"].T
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def factor(schedule):
    """The multiple of the rate in step t, for LambdaLR."""
    warmup, end, kind = schedule.get("warmup", 0), schedule.get("final", 0), schedule["kind"]

    def at(t):
        if t < warmup:
            return t / warmup
        if kind == "constant":
            return 1
        p = min(1, (t - warmup) / (schedule["steps"] - warmup))
        return 1 - (1 - end) * p if kind == "linear" else end + (1 - end) * (1 + math.cos(math.pi * p)) / 2

    return at


def train(spec, weights, tokens, targets):
    spec = dict(spec)
    kind, clip, schedule = spec.pop("kind"), spec.pop("clip_norm", None), spec.pop("schedule", {"kind": "constant"})
    parameters = {name: value.detach().clone().requires_grad_() for name, value in weights.items()}
    optimizer = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[kind](parameters.values(), **spec)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor(schedule))
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(parameters, tokens, targets)
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(parameters.values(), clip)
        optimizer.step()
        scheduler.step()
        losses.append(loss.detach())
    return {"losses": torch.stack(losses), **{f"after3.{name}": parameters[name] for name in KEPT}}


fixture = os.path.join(HERE, "..", "gpt2_tiny")
expected = load_file(fixture + ".expected.safetensors")
weights = dict(torch.export.load(fixture + ".pt2").state_dict)
weights.pop("lm_head.weight")  # tied
inputs = expected["input.0"], expected["input.1"]
assert abs(loss_of(weights, *inputs) - expected["losses"][0]) < 1e-5
for name, spec in json.load(open(os.path.join(HERE, "optimizers.json"))).items():
    result = train(spec, weights, *inputs)
    print(name, result["losses"].tolist())
    save(os.path.join(HERE, name + ".expected.safetensors"), result)
