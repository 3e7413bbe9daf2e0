#!/usr/bin/env python3
"""Writes the archives and PyTorch's values of this folder: make.py (with PyTorch 2.9 or newer)

regions    a marker under torch.no_grad, booleans and integers over stage boundaries, a nested output with a loss
labels     the same archive, trained on labels from outside, some of them ignored
batch_one  a model exported for one row, run on eight
fake       the same model without values
squeezed   a model exported for one row, whose batch is folded into the positions and unfolded again; run on eight
pooled     one that sums over the positions of its one row
"""
import copy, os, sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file
from torch.distributed.pipelining import pipe_split

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from make_operators import forget_folders


def save(name, tensors):
    values = {key: tensor.detach().contiguous() for key, tensor in tensors.items()}
    save_file(values, os.path.join(HERE, name + ".expected.safetensors"))


def train(name, model, inputs, loss):
    """Three steps of SGD on `loss`, and the gradients of the first."""
    model = copy.deepcopy(model)
    values = {f"input.{i}": tensor for i, tensor in enumerate(inputs)}
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    losses = []
    for step in range(3):
        value = loss(model)
        optimizer.zero_grad()
        value.backward()
        losses.append(value.detach())
        if step == 0:
            values.update({f"grad.{key}": p.grad.clone() for key, p in model.named_parameters() if p.grad is not None})
        optimizer.step()
    values["losses"] = torch.stack(losses)
    values.update({f"after3.{key}": p for key, p in model.named_parameters()})
    save(name, values)


class Regions(nn.Module):
    def __init__(self, vocabulary=24, d=16):
        super().__init__()
        self.first, self.second = nn.Embedding(vocabulary, d), nn.Embedding(vocabulary, d)
        self.gate, self.b, self.c = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.head = nn.Linear(d, vocabulary)

    def forward(self, ids):
        x = self.first(ids)
        following = torch.clamp(ids + 1, max=23)  # over two boundaries
        with torch.no_grad():
            gate = torch.tanh(self.gate(x))
            pipe_split()
            keep = gate > 0
        y = F.relu(self.b(x))
        pipe_split()
        y = torch.where(keep, y, 0.5 * y) + self.second(following)
        logits = self.head(self.c(y))
        loss = F.cross_entropy(logits.view(-1, logits.shape[-1]), following.view(-1), ignore_index=3)
        return {"aux": {"logits": logits, "ids": following}, "loss": loss}


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.ln, self.qkv, self.out, self.heads = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d), heads
        self.up, self.down = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x):
        rows, length, d = x.shape
        q, k, v = (z.view(rows, length, self.heads, d // self.heads).transpose(1, 2) for z in self.qkv(self.ln(x)).split(d, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(rows, length, d))
        return x + self.down(F.gelu(self.up(x)))


class Language(nn.Module):
    def __init__(self, vocabulary=32, length=12, d=16, layers=3):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, d), nn.Embedding(length, d)
        self.h = nn.ModuleList(Block(d, 2) for _ in range(layers))
        self.head = nn.Linear(d, vocabulary, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, ids, labels):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.h:
            x = block(x)
        # Means over the batch, written as a mean and as a cross entropy.
        logits = self.head(x)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1)) + 0.1 * (x * x).mean()


def fold(x):
    """(rows, positions, …) to (rows and positions, …): with one row as one would write it for that row."""
    return x.squeeze(0) if x.shape[0] == 1 else x.flatten(0, 1)


class Squeezed(nn.Module):
    def __init__(self, vocabulary=24, length=10, d=16):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, d), nn.Embedding(length, d)
        self.block, self.up, self.norm = Block(d, 2), nn.Linear(d, d), nn.LayerNorm(d)
        self.shift = nn.Parameter(torch.zeros(length, 1))
        self.head = nn.Linear(d, vocabulary)

    def forward(self, ids, labels):
        rows, length = ids.shape
        every = (lambda x: x) if rows == 1 else (lambda x: x.repeat(rows, 1))
        x = fold(self.wte(ids)) + every(self.wpe(torch.arange(length)))
        x = self.norm(torch.tanh(self.up(x)) * every(self.shift + 1))
        pipe_split()
        x = x.unsqueeze(0) if rows == 1 else x.unflatten(0, (rows, length))
        x = fold(self.block(x)).view(rows * length, -1, 4).transpose(1, 2).flatten(1)
        return F.cross_entropy(self.head(x), labels.view(-1)) + 0.1 * x.square().mean()


class Pooled(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.a, self.b = nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x):
        x = torch.tanh(self.a(x.squeeze(0)))
        return self.b(x.mean(0))


def export(name, model, inputs):
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.2)
    path = os.path.join(HERE, name + ".pt2")
    torch.export.save(torch.export.export(model, inputs), path)
    forget_folders(path)


torch.manual_seed(0)
generator = torch.Generator().manual_seed(7)


def integers(high, *shape):
    return torch.randint(0, high, shape, generator=generator)


regions = Regions()
ids = integers(24, 8, 10)
export("regions", regions, (ids,))
train("regions", regions, (ids,), lambda model: model(ids)["loss"])
labels = integers(24, 8, 10)
labels[0, :7] = -100
labels[5] = -100
train("labels", regions, (ids, labels), lambda model: F.cross_entropy(model(ids)["aux"]["logits"].reshape(-1, 24), labels.view(-1)))

language = Language()
export("batch_one", language, (integers(32, 1, 12), integers(32, 1, 12)))
ids, labels = integers(32, 8, 12), integers(32, 8, 12)
labels[2, 3:] = -100
train("batch_one", language, (ids, labels), lambda model: model(ids, labels))

squeezed = Squeezed()
export("squeezed", squeezed, (integers(24, 1, 10), integers(24, 1, 10)))
ids, labels = integers(24, 8, 10), integers(24, 8, 10)
train("squeezed", squeezed, (ids, labels), lambda model: model(ids, labels))
export("pooled", Pooled(), (torch.randn(1, 5, 16),))

from torch._subclasses.fake_tensor import FakeTensorMode

with FakeTensorMode():
    example = torch.zeros(8, 12, dtype=torch.int64)
    torch.export.save(torch.export.export(Language(), (example, example)), os.path.join(HERE, "fake.pt2"))
    forget_folders(os.path.join(HERE, "fake.pt2"))
