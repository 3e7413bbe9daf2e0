#!/usr/bin/env python3
"""Writes the archives and PyTorch's values of this folder: make.py (with PyTorch 2.9 or newer)

pictures     batch normalisation in training: affine or not, with running statistics or without
microbatch   the same archive, trained with the statistics of each of four microbatches
local        the same, with those of each of four microbatches on each of two ranks, whose running statistics are averaged
counting     a normalisation called in two stages; buffers read before and after they are written, in the same stage and later
average      a moving average of the batch, read before it is written
repeated     a normalisation called twice in a forward, in two stages; trained with the statistics of each of four microbatches
repeated_local  the same archive, with those of each of two microbatches on each of two ranks
recurrent    an LSTM and a GRU with dropout between their layers; recurrent_eval: the same model after eval()
unsaved      buffers that are not persistent, one of which is written, and a constant
functional   the same model as `run_decompositions` makes it functional; values are those of `pictures`
dropout      dropout of activations, of rows and positions as one dim, of attention weights, of a parameter
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


def train(name, model, x, microbatches=1, ranks=1):
    """Three steps of SGD on the mean square of the (first) output, and the gradients of the first. Ranks have their own running statistics."""
    model = copy.deepcopy(model)
    values = {"input.0": x}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in range(3):
        optimizer.zero_grad()
        before = {key: buffer.clone() for key, buffer in model.named_buffers()}
        after, outputs, losses = [], [], losses + [torch.zeros(())]
        for rows in x.chunk(ranks):
            for part in rows.chunk(microbatches):
                result = model(part)
                outputs.append(result[0] if isinstance(result, tuple) else result)
                loss = outputs[-1].square().mean() / (ranks * microbatches)
                loss.backward()
                losses[-1] += loss.detach()
            after.append({key: buffer.clone() for key, buffer in model.named_buffers()})
            for key, buffer in model.named_buffers():
                buffer.copy_(before[key])
        for key, buffer in model.named_buffers():
            buffer.copy_(sum(kept[key] for kept in after) / ranks)
        if step == 0:
            values["output.0"] = torch.cat(outputs)
            values.update({f"grad.{key}": p.grad.clone() for key, p in model.named_parameters()})
        optimizer.step()
    values["losses"] = torch.stack(losses)
    values.update({f"after3.{key}": p for key, p in model.named_parameters()})
    # What only counts calls counts steps where a step is several calls.
    parts, saved = ranks * microbatches > 1, model.state_dict()
    values.update({f"after3.{key}": b for key, b in model.named_buffers() if key in saved and not (parts and "batches" in key)})
    save(name, values)


class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 4, 3, stride=2, padding=1)
        self.bn1, self.bn2 = nn.BatchNorm2d(8), nn.BatchNorm2d(4, momentum=0.3, affine=False)
        self.fc, self.bn3, self.head = nn.Linear(64, 6), nn.BatchNorm1d(6, track_running_stats=False), nn.Linear(6, 2)

    def forward(self, x):
        x = F.relu(self.bn1(self.c1(x)))
        pipe_split()
        x = F.relu(self.bn2(self.c2(x)))
        x, kept = torch.native_dropout(self.fc(x.flatten(1)), 0.0, True)
        return self.head(self.bn3(x * kept))


class Counting(nn.Module):
    def __init__(self, d=6):
        super().__init__()
        self.a, self.b, self.c, self.d = (nn.Linear(d, d) for _ in range(4))
        self.norm = nn.BatchNorm1d(d)
        self.register_buffer("average", torch.ones(d))
        self.register_buffer("other", torch.zeros(d))
        self.register_buffer("last", torch.zeros(8, d))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        x = self.norm(self.a(x))
        y = x + self.average
        self.other.copy_(self.average + 1)
        self.average.mul_(0.9).add_(x.detach().abs().mean(0), alpha=0.1)
        self.calls += 1
        pipe_split()
        y = torch.tanh(self.b(y)) * self.average.clone()
        self.last.copy_(y.detach())
        pipe_split()
        self.calls += 1
        return self.d(self.norm(self.c(y)))


class Average(nn.Module):
    def __init__(self, d=6):
        super().__init__()
        self.a, self.b = nn.Linear(d, d), nn.Linear(d, d)
        self.register_buffer("average", torch.ones(d))
        self.register_buffer("square", torch.ones(d))

    def forward(self, x):
        x = self.a(x)
        y = x * self.average.clone()
        mean = x.detach().mean(0)
        self.average.mul_(0.9).add_(mean, alpha=0.1)
        self.square.copy_(x.detach().square().mean(0) - mean.square())
        pipe_split()
        return self.b(torch.tanh(y))


class Unsaved(nn.Module):
    def __init__(self, d=6):
        super().__init__()
        self.a, self.b = nn.Linear(d, d), nn.Linear(d, d)
        self.register_buffer("angles", torch.linspace(0, 1, d), persistent=False)
        self.register_buffer("seen", torch.zeros(d), persistent=False)
        self.register_buffer("average", torch.ones(d))

    def forward(self, x):
        x = self.a(x) * self.angles.cos() + self.seen.clone()
        self.seen.add_(x.detach().mean(0))
        self.average.lerp_(self.seen, 0.5)
        pipe_split()
        return self.b(torch.tanh(x) + torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])) * self.angles


class Repeated(nn.Module):
    def __init__(self, d=6):
        super().__init__()
        self.a, self.b, self.c, self.norm = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.BatchNorm1d(d, momentum=0.2)

    def forward(self, x):
        x = F.relu(self.norm(self.a(x)))
        pipe_split()
        return self.c(self.norm(self.b(x)))


class Recurrent(nn.Module):
    """Over (rows, positions, features)."""

    def __init__(self, d=6):
        super().__init__()
        self.first = nn.LSTM(d, 8, num_layers=3, dropout=0.2, batch_first=True)
        self.second = nn.GRU(8, 4, num_layers=2, dropout=0.4, bidirectional=True)

    def forward(self, x):
        x, _ = self.first(x)
        pipe_split()
        y, last = self.second(x.transpose(0, 1))
        return y.transpose(0, 1), last.mean(0)


class Dropout(nn.Module):
    """Returns its loss and what dropout makes of ones."""

    def __init__(self, d=8):
        super().__init__()
        self.a, self.qkv, self.out, self.drop = nn.Linear(d, d), nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Dropout(0.3)
        self.scale = nn.Parameter(torch.ones(d))

    def forward(self, x):
        rows, length, d = x.shape
        ones = self.drop(torch.ones_like(x))
        x = x * self.drop(torch.ones_like(x)) + self.drop(self.a(x))
        pipe_split()
        q, k, v = (z.view(rows, length, 2, d // 2).transpose(1, 2) for z in self.qkv(x).split(d, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.2, is_causal=True)
        y = self.drop(y.transpose(1, 2).reshape(rows * length, d)).view(rows, length, d)
        y = self.out(x + y) * F.dropout(self.scale, 0.5)
        return y.square().mean(), ones


def export(name, model, x, is_functional=False):
    model = copy.deepcopy(model)
    path = os.path.join(HERE, name + ".pt2")
    program = torch.export.export(model, (x,))
    torch.export.save(program.run_decompositions({}) if is_functional else program, path)
    forget_folders(path)


torch.manual_seed(0)
x = torch.randn(16, 3, 8, 8)
pictures = Pictures()
export("pictures", pictures, x)
export("functional", pictures, x, is_functional=True)
train("pictures", pictures, x)
train("microbatch", pictures, x, microbatches=4)
train("local", pictures, x, microbatches=4, ranks=2)
x = torch.randn(8, 6)
for name, model in (("counting", Counting()), ("average", Average()), ("unsaved", Unsaved())):
    export(name, model, x)
    train(name, model, x)
export("dropout", Dropout(), torch.randn(8, 4, 8))
torch.manual_seed(1)
repeated = Repeated()
x = torch.randn(16, 6)
export("repeated", repeated, x)
train("repeated", repeated, x, microbatches=4)
train("repeated_local", repeated, x, microbatches=2, ranks=2)
x = torch.randn(8, 5, 6)
export("recurrent", Recurrent(), x)
evaluated = Recurrent().eval()
export("recurrent_eval", evaluated, x)
train("recurrent_eval", evaluated, x)
