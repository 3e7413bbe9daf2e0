#!/usr/bin/env python3
"""Writes small archives that torch.distributed.pipelining 2.14 gets wrong or refuses, and PyTorch's values of the unsplit
models: make.py (with PyTorch 2.9 or newer)

twice      a module that two stages call
in_place   in-place operators on what a stage got from another, directly and through a view
nested     a marker two modules deep, and a stage that has no parameters
detached   a branch without a gradient over a boundary, an output that needs none, an output that no stage's loss reaches
frozen     a first and a last stage without trained parameters, integers over a boundary
order      results of one operator that later stages read in another order
keywords   keywords, an integer and None as inputs, outputs in a dictionary that holds a constant
skips      one value read in four later stages, and an input that only the last one reads
"""
import copy, os, sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file
from torch.distributed.pipelining import pipe_split

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from make_operators import flat, forget_folders


def train(name, model, inputs, keywords, loss):
    """Three steps of SGD, and outputs and gradients of the first."""
    tensors = [value for value in (*inputs, *keywords.values()) if torch.is_tensor(value)]
    values = {f"input.{i}": value for i, value in enumerate([*inputs, *keywords.values()]) if torch.is_tensor(value)}
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    losses = []
    for step in range(3):
        outputs = model(*copy.deepcopy(inputs), **copy.deepcopy(keywords))
        outputs = list(outputs.values()) if isinstance(outputs, dict) else outputs
        outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
        value = loss(outputs)
        optimizer.zero_grad()
        value.backward()
        losses.append(value.detach())
        if step == 0:
            values.update({f"output.{i}": output for i, output in enumerate(outputs) if torch.is_tensor(output)})
            values.update({f"grad.{key}": p.grad.clone() for key, p in model.named_parameters() if p.grad is not None})
        optimizer.step()
    values["losses"] = torch.stack(losses)
    values.update({f"after3.{key}": p for key, p in model.named_parameters()})
    values = {key: value.detach().contiguous().clone() for key, value in values.items()}
    save_file(values, os.path.join(HERE, name + ".expected.safetensors"))


def case(name, model, inputs, keywords={}, loss=lambda outputs: outputs[0].square().mean()):
    path = os.path.join(HERE, name + ".pt2")
    torch.export.save(torch.export.export(model, inputs, keywords), path)
    forget_folders(path)
    train(name, model, inputs, keywords, loss)


def linear(d=6):
    return nn.Linear(d, d)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = linear(), linear()

    def forward(self, x):
        x = torch.tanh(self.a(x))
        pipe_split()
        x = torch.tanh(self.b(x))
        pipe_split()
        return self.a(x)


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = linear(), linear(), linear()

    def forward(self, x):
        x, y = self.a(x), self.b(x)
        pipe_split()
        x.add_(1).relu_()
        y[:, :3] *= 2
        view = y.view(-1)
        view.sub_(0.5)
        pipe_split()
        return self.c(x * y)


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = linear(), linear()

    def forward(self, x):
        x = self.first(x)
        pipe_split()
        x = F.relu(x)
        pipe_split()
        return self.second(x)


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.last = Inner(), linear()

    def forward(self, x):
        return self.last(self.inner(x) + x)


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.outer = Outer()

    def forward(self, x):
        return self.outer(x)


class Detached(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.d = linear(), linear(), linear(), linear()

    def forward(self, x):
        y, side = self.a(x), self.b(x)
        still = self.c(x).detach()
        pipe_split()
        y = torch.tanh(y) * still
        side = side * 2
        pipe_split()
        return self.d(y), side, y.argmax(1), still


class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.a, self.b = nn.Embedding(11, 6), linear(), linear()
        self.table.weight.requires_grad_(False)
        self.b.requires_grad_(False)

    def forward(self, ids):
        x, following = self.table(ids), ids + 1
        pipe_split()
        x = torch.tanh(self.a(x))
        pipe_split()
        return self.b(x) * following.unsqueeze(-1)


class Order(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.a, self.b, self.c = nn.Linear(6, 18), linear(), linear(), linear()

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=1)
        values, places = q.sort(dim=1)
        pipe_split()
        y = self.a(v) + places
        pipe_split()
        y = y * self.b(k)
        return self.c(values + y)


class Keywords(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = linear(), linear()

    def forward(self, x, power, *, scale, bias=None, shift=None):
        x = self.a(x) ** power
        pipe_split()
        x = self.b(x) * scale
        return {"loss": (x + shift).square().mean(), "rank": power, "x": x}


class Skips(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(linear() for _ in range(5))

    def forward(self, x, late):
        first = x = torch.tanh(self.layers[0](x))
        for layer in self.layers[1:]:
            pipe_split()
            x = torch.tanh(layer(x)) + first * 0.5
        return x * late


torch.manual_seed(0)


def real(*shape):
    return torch.randn(shape)


case("twice", Twice(), (real(8, 6),))
case("in_place", InPlace(), (real(8, 6),))
case("nested", Nested(), (real(8, 6),))
case("detached", Detached(), (real(8, 6),))
case("frozen", Frozen(), (torch.randint(0, 11, (8, 3)),))
case("order", Order(), (real(8, 6),))
case("keywords", Keywords(), (real(8, 6), 2), {"scale": real(8, 1), "shift": real(8, 6)}, loss=lambda outputs: outputs[0])
case("skips", Skips(), (real(8, 6), real(8, 6)))
