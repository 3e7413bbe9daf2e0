#!/usr/bin/env python3
"""Trains gpt2_tiny with torch in bf16, with f32 master weights, and writes what becomes of it: make.py

Products are torch's own of bf16 tensors; parameters, norms, softmax, the residual stream and the loss are f32, as torch.autocast
has them. bf16.expected.safetensors holds `losses`, gradients of the first step and parameters after the last, and under `f32.…`
what training in f32 makes of the same: the difference of the two is the size of the rounding. Needs PyTorch.
"""
import os
import torch
import torch.distributed.pipelining  # registers the marker op of the archive
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS, RATE = 3, 0.1
KEPT = ["wte.weight", "h.0.attn.c_attn.weight", "h.0.ln_1.weight", "h.1.mlp.c_fc.bias", "h.3.mlp.c_proj.weight", "ln_f.weight"]


def save(path, tensors):
    save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, path)


def loss_of(p, tokens, targets, narrow, heads=4):
    """GPT-2 with tied embeddings: the model of the fixture."""
    batch, time = tokens.shape
    x = p["wte.weight"][tokens] + p["wpe.weight"][:time]
    norm = lambda name, x: F.layer_norm(x, x.shape[-1:], p[name + ".weight"], p[name + ".bias"])
    linear = lambda name, x: x.to(narrow) @ p[name + ".weight"].to(narrow).T + p[name + ".bias"].to(narrow)
    mask = torch.ones(time, time, dtype=torch.bool).triu(1)
    for block in range(4):
        name = f"h.{block}."
        qkv = linear(name + "attn.c_attn", norm(name + "ln_1", x)).chunk(3, -1)
        q, k, v = (t.view(batch, time, heads, -1).transpose(1, 2) for t in qkv)
        scores = (q @ k.transpose(-1, -2)) * (1 / q.shape[-1] ** 0.5)
        weights = F.softmax(scores.float().masked_fill(mask, -torch.inf), -1)
        y = weights.to(narrow) @ v
        x = x + linear(name + "attn.c_proj", y.transpose(1, 2).flatten(2))
        hidden = F.gelu(linear(name + "mlp.c_fc", norm(name + "ln_2", x)), approximate="tanh")
        x = x + linear(name + "mlp.c_proj", hidden)
    logits = norm("ln_f", x).to(narrow) @ p["wte.weight"].to(narrow).T
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def train(weights, inputs, narrow):
    parameters = {name: value.detach().clone().requires_grad_() for name, value in weights.items()}
    optimizer = torch.optim.SGD(parameters.values(), lr=RATE)
    losses, gradients = [], {}
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(parameters, *inputs, narrow)
        loss.backward()
        losses.append(loss.detach())
        if step == 0:
            gradients = {f"grad.{name}": parameters[name].grad.clone() for name in KEPT}
        optimizer.step()
    return {"losses": torch.stack(losses), **gradients, **{f"after3.{name}": parameters[name] for name in KEPT}}


fixture = os.path.join(HERE, "..", "gpt2_tiny")
expected = load_file(fixture + ".expected.safetensors")
weights = dict(torch.export.load(fixture + ".pt2").state_dict)
weights.pop("lm_head.weight")  # tied
inputs = expected["input.0"], expected["input.1"]
wide, rounded = (train(weights, inputs, narrow) for narrow in (torch.float32, torch.bfloat16))
assert (wide["losses"] - expected["losses"]).abs().max() < 1e-5
print("f32", wide["losses"].tolist(), "bf16", rounded["losses"].tolist())
save(os.path.join(HERE, "bf16.expected.safetensors"), {**rounded, **{"f32." + name: value for name, value in wide.items()}})
