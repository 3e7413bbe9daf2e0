#!/usr/bin/env python3
"""Writes the archive and PyTorch's values of this folder: make.py (with PyTorch 2.9 or newer)

grouped_query   queries, keys and values from one product, with fewer heads for keys and values; a fused gate and up projection
"""
import os, sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file
from torch.distributed.pipelining import pipe_split

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from make_operators import forget_folders


class Layer(nn.Module):
    def __init__(self, d=32, heads=4, groups=2):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, d // heads
        self.widths = [d, groups * self.size, groups * self.size]
        self.norm, self.qkv, self.out = nn.LayerNorm(d), nn.Linear(d, sum(self.widths)), nn.Linear(d, d)
        self.gate_up, self.down = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)

    def forward(self, x):
        rows, length, d = x.shape
        q, k, v = self.qkv(self.norm(x)).split(self.widths, dim=-1)
        q = q.view(rows, length, self.heads, self.size).transpose(1, 2)
        k, v = (z.view(rows, length, self.groups, self.size).transpose(1, 2).repeat_interleave(self.heads // self.groups, dim=1) for z in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(rows, length, d))
        wide, gate = self.gate_up(x).split([2 * d, d], dim=-1)
        return x + self.down(F.silu(gate) * wide.view(rows, length, d, 2).sum(-1))


class GroupedQuery(nn.Module):
    def __init__(self, vocabulary=24, d=32):
        super().__init__()
        self.wte, self.head = nn.Embedding(vocabulary, d), nn.Linear(d, vocabulary, bias=False)
        self.h = nn.ModuleList(Layer(d) for _ in range(2))

    def forward(self, ids):
        x = self.h[0](self.wte(ids))
        pipe_split()
        return self.head(self.h[1](x))


torch.manual_seed(0)
model, ids = GroupedQuery(), torch.randint(0, 24, (8, 6))
path = os.path.join(HERE, "grouped_query.pt2")
torch.export.save(torch.export.export(model, (ids,)), path)
forget_folders(path)
values, losses = {"input.0": ids}, []
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    output = model(ids)
    loss = output.square().mean()
    optimizer.zero_grad()
    loss.backward()
    losses.append(loss.detach())
    if step == 0:
        values["output.0"] = output.detach().clone()
        values |= {f"grad.{key}": parameter.grad.clone() for key, parameter in model.named_parameters()}
    optimizer.step()
values["losses"] = torch.stack(losses)
values |= {f"after3.{key}": parameter.detach().clone() for key, parameter in model.named_parameters()}
save_file({key: value.contiguous() for key, value in values.items()}, os.path.join(HERE, "grouped_query.expected.safetensors"))
