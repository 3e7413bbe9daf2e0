"""Writes operators_<family>.pt2, exports that use every supported ATen operator, and PyTorch's values for them.

make_operators.py FOLDER (needs torch). A family is a model of many cases, each a module of its own: its float tensors are
parameters, so that gradients are compared too, its other tensors buffers. The model returns its loss, the sum of every
floating-point result times a fixed cotangent, and then all results.
"""
import os
import sys
import zipfile

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

torch.manual_seed(7)


def real(*shape):
    return torch.randn(shape)


def positive(*shape):
    return torch.rand(*shape) + 0.5


def unit(*shape):
    """Strictly between -1 and 1."""
    return torch.rand(*shape) * 1.8 - 0.9


def distinct(*shape):
    """No two elements are equal or close, so that comparisons and selections do not depend on rounding."""
    count = torch.Size(shape).numel()
    return ((torch.randperm(count).float() - count / 2) * 0.37).reshape(shape)


def integers(high, *shape):
    return torch.randint(0, high, shape)


def booleans(*shape):
    return torch.rand(*shape) > 0.4


class Case(torch.nn.Module):
    """A function of tensors; `function` may be a module, whose parameters are compared, too."""

    def __init__(self, function, *tensors):
        super().__init__()
        self.function, self.names = function, []
        for index, tensor in enumerate(tensors):
            name = f"x{index}"
            self.names.append(name)
            if tensor.is_floating_point():
                setattr(self, name, torch.nn.Parameter(tensor))
            else:
                self.register_buffer(name, tensor)
        self.cotangents = []
        for result in self.results():
            if result.is_floating_point():
                name = f"cotangent{len(self.cotangents)}"
                self.register_buffer(name, torch.randn(result.shape).to(result.dtype))
                self.cotangents.append(name)

    def results(self):
        return list(flat(self.function(*[getattr(self, name) for name in self.names])))

    def forward(self):
        results, loss = self.results(), torch.zeros(())
        floats = [result for result in results if result.is_floating_point()]
        for result, name in zip(floats, self.cotangents):
            loss = loss + (result * getattr(self, name)).float().sum()
        return loss, *results


def flat(results):
    """The tensors in nested tuples; what a module leaves out is None."""
    if torch.is_tensor(results):
        yield results
    else:
        for result in results:
            if result is not None:
                yield from flat(result)


class Family(torch.nn.Module):
    def __init__(self, cases):
        super().__init__()
        for name, case in cases.items():
            self.add_module(name, Case(*case))

    def forward(self, x):
        loss, outputs = x.mean(), []
        for case in self.children():
            part, *results = case()
            loss = loss + part
            outputs += results
        return loss, *outputs


s = torch.tensor
FAMILIES = {
    "elementwise": {
        "abs": (torch.abs, real(3, 4)),
        "neg": (torch.neg, real(3, 4)),
        "exp": (torch.exp, real(3, 4)),
        "exp2": (torch.exp2, real(3, 4)),
        "expm1": (torch.expm1, real(3, 4)),
        "log": (torch.log, positive(3, 4)),
        "log2": (torch.log2, positive(3, 4)),
        "log10": (torch.log10, positive(3, 4)),
        "log1p": (torch.log1p, positive(3, 4)),
        "sqrt": (torch.sqrt, positive(3, 4)),
        "rsqrt": (torch.rsqrt, positive(3, 4)),
        "square": (torch.square, real(3, 4)),
        "reciprocal": (torch.reciprocal, positive(3, 4)),
        "sin": (torch.sin, real(3, 4)),
        "cos": (torch.cos, real(3, 4)),
        "tan": (torch.tan, unit(3, 4)),
        "sinh": (torch.sinh, real(3, 4)),
        "cosh": (torch.cosh, real(3, 4)),
        "tanh": (torch.tanh, real(3, 4)),
        "erf": (torch.erf, real(3, 4)),
        "erfc": (torch.erfc, real(3, 4)),
        "sigmoid": (torch.sigmoid, real(3, 4)),
        "logit": (lambda x: torch.logit(x * 0.5), positive(3, 4)),
        "floor": (torch.floor, real(3, 4)),
        "ceil": (torch.ceil, real(3, 4)),
        "round": (torch.round, real(3, 4)),
        "trunc": (torch.trunc, real(3, 4)),
        "frac": (torch.frac, real(3, 4)),
        "sign": (torch.sign, real(3, 4)),
        "add": (lambda a, b: torch.add(a, b, alpha=2), real(3, 4), real(4)),
        "add_scalar": (lambda a: a + 1.5, real(3, 4)),
        "sub": (lambda a, b: torch.sub(a, b, alpha=0.5), real(3, 1), real(4)),
        "rsub": (lambda a: 2 - a, real(3, 4)),
        "rsub_tensor": (lambda a, b: torch.rsub(a, b), real(3, 4), real(4)),
        "mul": (torch.mul, real(3, 4), real(3, 1)),
        "mul_scalar": (lambda a: a * 3, real(3, 4)),
        "div": (torch.div, real(3, 4), positive(4)),
        "div_scalar": (lambda a: a / 3, real(3, 4)),
        "div_floor": (lambda a, b: torch.div(a, b, rounding_mode="floor"), distinct(3, 4), positive(4)),
        "div_trunc": (lambda a, b: torch.div(a, b, rounding_mode="trunc"), distinct(3, 4), positive(4)),
        "floor_divide": (lambda a: torch.floor_divide(a, 3), integers(20, 5)),
        "remainder": (lambda a: torch.remainder(a, 1.3), distinct(3, 4)),
        "remainder_tensor": (torch.remainder, distinct(3, 4), positive(4)),
        "fmod": (lambda a: torch.fmod(a, 1.3), distinct(3, 4)),
        "pow": (lambda a: a**3, real(3, 4)),
        "pow_fraction": (lambda a: a**0.5, positive(3, 4)),
        "pow_of_scalar": (lambda a: torch.pow(2.0, a), real(3, 4)),
        "maximum": (torch.maximum, distinct(3, 4), real(4)),
        "minimum": (torch.minimum, distinct(3, 4), real(4)),
        "clamp": (lambda a: torch.clamp(a, -0.5, 0.5), real(3, 4)),
        "clamp_min": (lambda a: a.clamp_min(0.1), real(3, 4)),
        "clamp_max": (lambda a: a.clamp_max(0.1), real(3, 4)),
        "clamp_tensor": (lambda a, b: torch.clamp(a, min=b), distinct(3, 4), real(4)),
        "lerp": (lambda a, b: torch.lerp(a, b, 0.3), real(3, 4), real(3, 4)),
        "lerp_tensor": (torch.lerp, real(3, 4), real(3, 4), unit(4)),
        "addcmul": (lambda a, b, c: torch.addcmul(a, b, c, value=0.5), real(3, 4), real(4), real(3, 1)),
        "addcdiv": (lambda a, b, c: torch.addcdiv(a, b, c, value=0.5), real(3, 4), real(4), positive(3, 1)),
        "hypot": (torch.hypot, real(3, 4), positive(3, 4)),
        "logaddexp": (torch.logaddexp, real(3, 4), real(3, 4)),
        "xlogy": (torch.xlogy, positive(3, 4), positive(3, 4)),
    },
    "activations": {
        "relu": (F.relu, real(3, 4)),
        "relu6": (lambda x: F.relu6(x * 4), real(3, 4)),
        "gelu": (F.gelu, real(3, 4)),
        "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), real(3, 4)),
        "silu": (F.silu, real(3, 4)),
        "mish": (F.mish, real(3, 4)),
        "elu": (lambda x: F.elu(x, 0.7), real(3, 4)),
        "selu": (F.selu, real(3, 4)),
        "celu": (lambda x: F.celu(x, 1.3), real(3, 4)),
        "leaky_relu": (lambda x: F.leaky_relu(x, 0.2), real(3, 4)),
        "prelu": (F.prelu, real(3, 4, 2), real(4)),
        "softplus": (lambda x: F.softplus(x, 2), real(3, 4)),
        "softsign": (F.softsign, real(3, 4)),
        "tanhshrink": (F.tanhshrink, real(3, 4)),
        "hardtanh": (lambda x: F.hardtanh(x, -0.4, 0.6), real(3, 4)),
        "hardsigmoid": (lambda x: F.hardsigmoid(x * 3), real(3, 4)),
        "hardswish": (lambda x: F.hardswish(x * 3), real(3, 4)),
        "hardshrink": (lambda x: F.hardshrink(x, 0.3), real(3, 4)),
        "softshrink": (lambda x: F.softshrink(x, 0.3), real(3, 4)),
        "threshold": (lambda x: F.threshold(x, 0.2, -1), real(3, 4)),
        "logsigmoid": (F.logsigmoid, real(3, 4)),
        "glu": (lambda x: F.glu(x, 1), real(3, 4)),
        "softmax": (lambda x: F.softmax(x, 1), real(2, 3, 4)),
        "softmax_last": (lambda x: F.softmax(x, -1), real(3, 4)),
        "softmin": (lambda x: F.softmin(x, 0), real(3, 4)),
        "log_softmax": (lambda x: F.log_softmax(x, -1), real(3, 4)),
        "dropout": (lambda x: F.dropout(x, 0.5, training=False), real(3, 4)),
        "dropout_none": (lambda x: F.dropout(x, 0.0, training=True), real(3, 4)),
        "layer_norm": (lambda x, w, b: F.layer_norm(x, (4,), w, b), real(3, 4), real(4), real(4)),
        "layer_norm_two": (lambda x: F.layer_norm(x, (3, 4)), real(2, 3, 4)),
        "rms_norm": (lambda x, w: F.rms_norm(x, (4,), w, 1e-5), real(3, 4), real(4)),
        "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b), real(2, 4, 5), real(4), real(4)),
        "instance_norm": (lambda x: F.instance_norm(x), real(2, 4, 5)),
        "normalize": (lambda x: F.normalize(x, dim=-1), real(3, 4)),
        "cosine_similarity": (lambda x, y: F.cosine_similarity(x, y, dim=1), real(3, 4), real(3, 4)),
        "pairwise_distance": (F.pairwise_distance, real(3, 4), real(3, 4)),
    },
    "logic": {
        "eq": (lambda a, b: a == b, integers(3, 3, 4), integers(3, 4)),
        "ne": (lambda a, b: a != b, integers(3, 3, 4), integers(3, 4)),
        "lt": (lambda a, b: a < b, distinct(3, 4), real(4)),
        "le": (lambda a: a <= 1, integers(3, 3, 4)),
        "gt": (lambda a: a > 0.1, distinct(3, 4)),
        "ge": (lambda a, b: a >= b, integers(3, 3, 4), integers(3, 4)),
        "logical_and": (torch.logical_and, booleans(3, 4), booleans(4)),
        "logical_or": (torch.logical_or, booleans(3, 4), integers(2, 4)),
        "logical_xor": (torch.logical_xor, booleans(3, 4), booleans(4)),
        "logical_not": (torch.logical_not, integers(2, 3, 4)),
        "bitwise": (lambda a, b: (a & b, a | b, a ^ b, ~a), booleans(3, 4), booleans(4)),
        "isnan": (lambda a: torch.isnan(a / a), torch.tensor([0.0, 1.0, 2.0])),
        "isinf": (lambda a: torch.isinf(1 / a), torch.tensor([0.0, 1.0, 2.0])),
        "where": (torch.where, booleans(3, 4), real(3, 4), real(4)),
        "where_scalar": (lambda c, x: torch.where(c, x, 2.0), booleans(3, 4), real(3, 4)),
        "masked_fill": (lambda x, m: x.masked_fill(m, -2.0), real(3, 4), booleans(4)),
        "any": (lambda x: (x.any(), x.any(1)), booleans(3, 4)),
        "all": (lambda x: (x.all(), x.all(0)), booleans(3, 4)),
        "convert": (lambda x: (x.double(), x.long(), x.int(), (x > 0).float(), x.bool()), distinct(3, 4)),
        "short_float": (lambda x: (x.bfloat16() * 2).float(), s([[1.0, -2.5], [0.25, 8.0]])),
        "type_as": (lambda x, y: x.type_as(y), integers(9, 4), real(2)),
    },
    "reductions": {
        "sum": (lambda x: (x.sum(), x.sum(1), x.sum((0, 2), keepdim=True)), real(2, 3, 4)),
        "sum_bool": (lambda x: x.sum(0), booleans(3, 4)),
        "mean": (lambda x: (x.mean(), x.mean(-1, keepdim=True)), real(2, 3, 4)),
        "var": (lambda x: (x.var(), x.var(1), torch.var(x, 0, correction=0)), real(3, 4)),
        "std": (lambda x: (x.std(), x.std(1), torch.std(x, 0, correction=0)), real(3, 4)),
        "var_mean": (lambda x: torch.var_mean(x, 1), real(3, 4)),
        "std_mean": (lambda x: torch.std_mean(x, 1), real(3, 4)),
        "amax": (lambda x: (torch.amax(x, 1), torch.amax(x, (0, 1), keepdim=True)), distinct(3, 4)),
        "amin": (lambda x: torch.amin(x, 0), distinct(3, 4)),
        "aminmax": (lambda x: torch.aminmax(x, dim=1), distinct(3, 4)),
        "max": (lambda x: (x.max(), *x.max(1)), distinct(3, 4)),
        "min": (lambda x: (x.min(), *x.min(0, keepdim=True)), distinct(3, 4)),
        "max_other": (lambda x, y: (torch.max(x, y), torch.min(x, y)), distinct(3, 4), real(4)),
        "argmax": (lambda x: (x.argmax(), x.argmax(1), x.argmax(0, keepdim=True)), distinct(3, 4)),
        "argmin": (lambda x: (x.argmin(), x.argmin(1)), distinct(3, 4)),
        "prod": (lambda x: (x.prod(), x.prod(1)), positive(3, 4)),
        "logsumexp": (lambda x: torch.logsumexp(x, 1), real(3, 4)),
        "norm": (lambda x: (torch.linalg.vector_norm(x), torch.linalg.vector_norm(x, dim=1)), real(3, 4)),
        "norm_old": (lambda x: x.norm(dim=1), real(3, 4)),
        "norm_one": (lambda x: torch.linalg.vector_norm(x, 1, dim=1), real(3, 4)),
        "cumsum": (lambda x: torch.cumsum(x, 1), real(3, 4)),
        "cumprod": (lambda x: torch.cumprod(x, 1), positive(3, 4)),
        "topk": (lambda x: torch.topk(x, 2), distinct(3, 5)),
        "topk_smallest": (lambda x: torch.topk(x, 2, dim=0, largest=False), distinct(3, 5)),
        "sort": (lambda x: torch.sort(x, 1), distinct(3, 5)),
        "sort_descending": (lambda x: torch.sort(x, 0, descending=True), distinct(3, 5)),
        "argsort": (lambda x: torch.argsort(x, 1), distinct(3, 5)),
        "count_nonzero": (lambda x: torch.count_nonzero(x, 1), integers(2, 3, 5)),
        "trace": (torch.trace, real(3, 4)),
    },
    "shapes": {
        "view": (lambda x: x.view(4, 6), real(2, 3, 4)),
        "reshape": (lambda x: x.transpose(0, 1).reshape(6, -1), real(2, 3, 4)),
        "flatten": (lambda x: x.flatten(1), real(2, 3, 4)),
        "unflatten": (lambda x: x.unflatten(1, (2, 3)), real(2, 6)),
        "permute": (lambda x: x.permute(2, 0, 1), real(2, 3, 4)),
        "transpose": (lambda x: (x.transpose(0, 1), x[0].t(), x.mT), real(2, 3, 4)),
        "movedim": (lambda x: (x.movedim(0, 2), x.swapaxes(0, 1)), real(2, 3, 4)),
        "squeeze": (lambda x: (x.squeeze(), x.squeeze(1), x.squeeze((1, 3))), real(2, 1, 3, 1)),
        "unsqueeze": (lambda x: (x.unsqueeze(1), x[:, None, :, None]), real(2, 3)),
        "expand": (lambda x, y: (x.expand(2, 3, 4), x.expand_as(y)), real(3, 1), integers(2, 3, 4)),
        "repeat": (lambda x: (x.repeat(2, 3), x.tile(2)), real(2, 3)),
        "repeat_interleave": (lambda x: x.repeat_interleave(2, dim=1), real(2, 3)),
        "cat": (lambda x, y: torch.cat([x, y, x], 1), real(2, 3), real(2, 1)),
        "stacks": (lambda x, y: (torch.stack([x, y], 1), torch.hstack([x, y]), torch.vstack([x, y])), real(2, 3), real(2, 3)),
        "split": (lambda x: x.split(2, 1), real(2, 5)),
        "split_sizes": (lambda x: x.split([1, 3, 1], 1), real(2, 5)),
        "chunk": (lambda x: x.chunk(3, 1), real(2, 7)),
        "tensor_split": (lambda x: x.tensor_split(3, 1), real(2, 7)),
        "unbind": (lambda x: x.unbind(1), real(2, 3)),
        "select": (lambda x: (x.select(1, 2), x[0], x[:, -1]), real(2, 3)),
        "slice": (lambda x: (x[:, 1:], x[1:3, ::2], x[..., :-1]), real(4, 5)),
        "narrow": (lambda x: x.narrow(1, 1, 2), real(2, 5)),
        "flip": (lambda x: x.flip(0, 1), real(2, 3)),
        "roll": (lambda x: (x.roll(1, 1), x.roll((1, -1), (0, 1))), real(3, 4)),
        "pad": (lambda x: (F.pad(x, (1, 2)), F.pad(x, (0, 1, 2, 0), value=1.5)), real(3, 4)),
        "pad_reflect": (lambda x: F.pad(x, (1, 2), mode="reflect"), real(2, 3, 4)),
        "pad_replicate": (lambda x: F.pad(x, (1, 2), mode="replicate"), real(2, 3, 4)),
        "tril": (lambda x: (x.tril(), x.tril(1), x.tril(-1)), real(3, 4)),
        "triu": (lambda x: (x.triu(), x.triu(1)), real(2, 3, 4)),
        "diagonal": (lambda x: (x.diagonal(), x.diagonal(1)), real(3, 4)),
        "contiguous": (lambda x: x.t().contiguous().clone().detach(), real(3, 4)),
        "zeros": (lambda x: (x.new_zeros(2), torch.zeros_like(x), torch.ones_like(x), torch.full_like(x, 3)), real(3, 4)),
        "factories": (lambda x: (x + torch.zeros(4), x * torch.ones(4), x + torch.full((4,), 2.5), x + torch.eye(4)), real(4, 4)),
        "arange": (lambda x: (x + torch.arange(4), x * torch.arange(1, 9, 2), x + torch.linspace(0, 1, 4)), real(3, 4)),
        "unfold": (lambda x: x.unfold(1, 3, 2), real(2, 7)),
        "meshgrid": (lambda x, y: torch.meshgrid(x, y, indexing="ij"), real(3), real(4)),
        "atleast": (lambda x: (torch.atleast_2d(x), x.ravel()), real(3)),
        "view_as": (lambda x, y: (x.view_as(y), x.reshape_as(y)), real(2, 6), integers(2, 3, 4)),
        "scalar": (lambda x: x * torch.tensor(2.5), real(3)),
    },
    "indexing": {
        "embedding": (lambda w, i: F.embedding(i, w), real(7, 3), integers(7, 2, 4)),
        "embedding_padding": (lambda w, i: F.embedding(i, w, padding_idx=0), real(7, 3), integers(3, 2, 4)),
        "index_select": (lambda x, i: x.index_select(1, i), real(2, 5), integers(5, 3)),
        "gather": (lambda x, i: x.gather(1, i), real(2, 5), integers(5, 2, 3)),
        "take_along_dim": (lambda x, i: torch.take_along_dim(x, i, 1), real(2, 5), integers(5, 2, 3)),
        "index": (lambda x, i: x[i], real(5, 3), integers(5, 4)),
        "index_second": (lambda x, i: x[:, i], real(2, 5, 3), integers(5, 4)),
        "index_two": (lambda x, i, j: x[i, j], real(4, 5, 2), integers(4, 3), integers(5, 3)),
        "index_broadcast": (lambda x, i, j: x[i[:, None], j], real(4, 5), integers(4, 3), integers(5, 2)),
        "scatter": (lambda x, i, y: x.scatter(1, i, y), real(2, 5), s([[0, 2], [4, 1]]), real(2, 2)),
        "scatter_value": (lambda x, i: x.scatter(1, i, 1.5), real(2, 5), s([[0, 2], [4, 1]])),
        "scatter_add": (lambda x, i, y: x.scatter_add(0, i, y), real(3, 4), integers(3, 5, 4), real(5, 4)),
        "index_add": (lambda x, i, y: x.index_add(0, i, y), real(3, 4), integers(3, 5), real(5, 4)),
        "index_copy": (lambda x, y: x.index_copy(0, torch.tensor([2, 0]), y), real(3, 4), real(2, 4)),
        "index_fill": (lambda x: x.index_fill(1, torch.tensor([2, 0]), 1.5), real(3, 4)),
        "index_put": (lambda x, i, y: x.index_put((i,), y, accumulate=True), real(3, 4), integers(3, 5), real(5, 4)),
        "slice_scatter": (lambda x, y: torch.slice_scatter(x, y, 1, 1, 3), real(3, 4), real(3, 2)),
        "select_scatter": (lambda x, y: torch.select_scatter(x, y, 1, 2), real(3, 4), real(3)),
        "one_hot": (lambda i: F.one_hot(i, 5), integers(5, 2, 3)),
        "masked_scatter_where": (lambda x, m: torch.where(m[:, None], x, x * 2), real(3, 4), booleans(3)),
        "bucketize": (lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])), distinct(3, 4)),
    },
    "products": {
        "linear": (F.linear, real(2, 3, 4), real(5, 4), real(5)),
        "mm": (torch.mm, real(3, 4), real(4, 5)),
        "mv": (torch.mv, real(3, 4), real(4)),
        "dot": (torch.dot, real(4), real(4)),
        "outer": (torch.outer, real(3), real(4)),
        "bmm": (torch.bmm, real(2, 3, 4), real(2, 4, 5)),
        "matmul": (torch.matmul, real(2, 3, 4), real(4, 5)),
        "matmul_vector": (torch.matmul, real(2, 3, 4), real(4)),
        "matmul_left_vector": (torch.matmul, real(3), real(2, 3, 4)),
        "matmul_broadcast": (torch.matmul, real(2, 1, 3, 4), real(5, 4, 2)),
        "addmm": (lambda a, b, c: torch.addmm(a, b, c, beta=0.5, alpha=2), real(5), real(3, 4), real(4, 5)),
        "addmv": (torch.addmv, real(3), real(3, 4), real(4)),
        "addbmm": (torch.addbmm, real(3, 5), real(2, 3, 4), real(2, 4, 5)),
        "baddbmm": (lambda a, b, c: torch.baddbmm(a, b, c, beta=0.5, alpha=2), real(2, 3, 5), real(2, 3, 4), real(2, 4, 5)),
        "einsum": (lambda x, y: torch.einsum("bij,bjk->bik", x, y), real(2, 3, 4), real(2, 4, 5)),
        "einsum_outer": (lambda x, y: torch.einsum("bi,bj->bij", x, y), real(2, 3), real(2, 4)),
        "einsum_three": (lambda x, y, z: torch.einsum("ij,jk,kl->il", x, y, z), real(2, 3), real(3, 4), real(4, 2)),
        "einsum_sum": (lambda x: torch.einsum("ij->j", x), real(2, 3)),
        "einsum_ellipsis": (lambda x, y: torch.einsum("...ij,...jk->...ik", x, y), real(2, 3, 4), real(2, 4, 5)),
        "tensordot": (lambda x, y: torch.tensordot(x, y, dims=([1, 2], [0, 1])), real(2, 3, 4), real(3, 4, 5)),
        "kron": (torch.kron, real(2, 3), real(3, 2)),
        "bilinear": (F.bilinear, real(2, 3), real(2, 4), real(5, 3, 4)),
        "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), real(1, 2, 3, 4), real(1, 2, 5, 4), real(1, 2, 5, 4)),
        "attention_causal": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3), real(1, 2, 3, 4), real(1, 2, 3, 4), real(1, 2, 3, 4)),
        "attention_mask": (lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m), real(1, 2, 3, 4), real(1, 2, 5, 4), real(1, 2, 5, 4), torch.tensor([[True, False, True, True, False], [True] * 5, [False, True, True, False, True]])),
        "attention_bias": (lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m), real(1, 2, 3, 4), real(1, 2, 5, 4), real(1, 2, 5, 4), real(3, 5)),
        "attention_grouped": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True), real(1, 4, 3, 4), real(1, 2, 3, 4), real(1, 2, 3, 4)),
    },
    "networks": {
        "conv1d": (lambda x, w, b: F.conv1d(x, w, b, padding=1), real(2, 3, 7), real(4, 3, 3), real(4)),
        "conv1d_strided": (lambda x, w: F.conv1d(x, w, stride=2, dilation=2), real(2, 3, 9), real(4, 3, 3)),
        "conv2d": (lambda x, w, b: F.conv2d(x, w, b, padding=1), real(2, 3, 5, 6), real(4, 3, 3, 3), real(4)),
        "conv2d_grouped": (lambda x, w: F.conv2d(x, w, stride=2, groups=2), real(2, 4, 6, 7), real(6, 2, 3, 3)),
        "conv2d_same": (lambda x, w: F.conv2d(x, w, padding="same"), real(1, 2, 5, 5), real(3, 2, 3, 3)),
        "conv_transpose1d": (lambda x, w: F.conv_transpose1d(x, w, stride=2), real(2, 3, 4), real(3, 2, 3)),
        "conv_transpose2d": (lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1), real(1, 3, 4, 4), real(3, 2, 3, 3), real(2)),
        "max_pool1d": (lambda x: F.max_pool1d(x, 2), distinct(2, 3, 6)),
        "max_pool2d": (lambda x: F.max_pool2d(x, 3, stride=2, padding=1), distinct(1, 2, 7, 6)),
        "avg_pool1d": (lambda x: F.avg_pool1d(x, 2), real(2, 3, 6)),
        "avg_pool2d": (lambda x: F.avg_pool2d(x, 2, padding=1, count_include_pad=True), real(1, 2, 6, 6)),
        "adaptive_avg_pool1d": (lambda x: F.adaptive_avg_pool1d(x, 3), real(2, 3, 6)),
        "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (1, 1)), real(1, 2, 4, 5)),
        "batch_norm": (lambda x, w, b, m, v: F.batch_norm(x, m.detach(), v.detach(), w, b), real(2, 3, 4), real(3), real(3), real(3), positive(3)),
        "upsample_nearest": (lambda x: F.interpolate(x, scale_factor=2, mode="nearest"), real(1, 2, 3, 4)),
        "upsample_bilinear": (lambda x: F.interpolate(x, size=(5, 6), mode="bilinear", align_corners=False), real(1, 2, 3, 4)),
        "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), real(1, 8, 3, 2)),
        "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), real(1, 2, 4, 6)),
        "channel_shuffle": (lambda x: F.channel_shuffle(x, 2), real(1, 4, 3, 2)),
        "im2col": (lambda x: F.unfold(x, (2, 2)), real(1, 2, 4, 4)),
        "mse_loss": (lambda x, y: (F.mse_loss(x, y), F.mse_loss(x, y, reduction="sum")), real(3, 4), real(3, 4)),
        "l1_loss": (F.l1_loss, real(3, 4), real(3, 4)),
        "smooth_l1_loss": (lambda x, y: F.smooth_l1_loss(x, y, beta=0.7), real(3, 4), real(3, 4)),
        "huber_loss": (lambda x, y: F.huber_loss(x, y, delta=0.7), real(3, 4), real(3, 4)),
        "kl_div": (lambda x, y: F.kl_div(x, y, reduction="batchmean"), real(3, 4), positive(3, 4)),
        "binary_cross_entropy": (lambda x, y: F.binary_cross_entropy(torch.sigmoid(x), torch.sigmoid(y).detach()), real(3, 4), real(3, 4)),
        "bce_with_logits": (lambda x, y: F.binary_cross_entropy_with_logits(x, torch.sigmoid(y).detach()), real(3, 4), real(3, 4)),
        "nll_loss": (lambda x, t: F.nll_loss(F.log_softmax(x, 1), t), real(3, 4), integers(4, 3)),
        "cross_entropy": (lambda x, t: F.cross_entropy(x, t), real(3, 4), integers(4, 3)),
        "cross_entropy_ignored": (lambda x, t: F.cross_entropy(x, t, ignore_index=1), real(4, 4), s([1, 0, 3, 1])),
        "cross_entropy_smooth": (lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1), real(3, 4), integers(4, 3)),
        "cross_entropy_images": (lambda x, t: F.cross_entropy(x, t), real(2, 4, 3), integers(4, 2, 3)),
        "soft_margin_loss": (lambda x, y: F.soft_margin_loss(x, torch.sign(y.detach())), real(4), real(4)),
        "poisson_nll_loss": (F.poisson_nll_loss, real(4), positive(4)),
    },
}

aten = torch.ops.aten
# What the functions above do not reach: other overloads, and what appears in decomposed exports.
FAMILIES["overloads"] = {
    "softmax": (lambda x: (aten._softmax(x, 1, False), aten._log_softmax(x, 1, False)), real(2, 3, 4)),
    "to_copy": (lambda x: aten._to_copy(x, dtype=torch.float64), real(3)),
    "conversions": (lambda x, y: (aten.to.device(x, "cpu", torch.float64), aten.to.dtype_layout(x, dtype=torch.float64), aten.to.other(x, y)), real(3), real(2)),
    "unsafe_view": (lambda x: aten._unsafe_view(x, [6]), real(2, 3)),
    "add_scalar": (lambda x: (aten.add.Scalar(x, 2), aten.sub.Scalar(x, 2), aten.mul.Scalar(x, 2), aten.div.Scalar(x, 2)), real(3)),
    "div_mode": (lambda x: aten.div.Scalar_mode(x, 2, rounding_mode="floor"), distinct(3, 4)),
    "floor_divide": (lambda x: aten.floor_divide.Scalar(x, 2), integers(9, 4)),
    "fmod": (torch.fmod, distinct(3, 4), positive(4)),
    "addr": (aten.addr, real(3, 4), real(3), real(4)),
    "transposes": (lambda x: (aten.adjoint(x), x.T, aten.alias(x)), real(2, 3)),
    "arange": (lambda x: x + torch.arange(2, 5), real(3)),
    "sorted": (lambda x: (*aten.sort.stable(x, stable=True, dim=1), aten.argsort.stable(x, stable=True)), distinct(3, 5)),
    "atleast": (torch.atleast_1d, real(3)),
    "bitwise": (lambda a, b: (aten.bitwise_and(a, b), aten.bitwise_or(a, b), aten.bitwise_xor(a, b)), booleans(3, 4), booleans(4)),
    "pad": (lambda x: aten.constant_pad_nd(x, [1, 2], 0.5), real(2, 3)),
    "conv1d": (lambda x, w: F.conv1d(x, w, padding="same"), real(1, 2, 5), real(3, 2, 3)),
    "count_nonzero": (lambda x: aten.count_nonzero.dim_IntList(x, [0, 1]), integers(2, 3, 5)),
    "compare": (lambda a: (a == 1, a != 1, a >= 1, a > 1.5), integers(3, 3, 4)),
    "compare_tensors": (lambda a, b: (a > b, a <= b), integers(3, 3, 4), integers(3, 4)),
    "eye": (lambda x: x + torch.eye(3, 4), real(3, 4)),
    "index_fill": (lambda x, v: aten.index_fill.int_Tensor(x, 1, torch.tensor([2, 0]), v), real(3, 4), real()),
    "masked_fill": (lambda x, m, v: x.masked_fill(m, v), real(3, 4), booleans(4), real()),
    "meshgrid": (lambda x, y: aten.meshgrid([x, y]), real(3), real(4)),
    "movedim": (lambda x: x.movedim((0, 1), (2, 0)), real(2, 3, 4)),
    "new": (lambda x: (x + x.new_full((4,), 2.5), x + x.new_ones(4), x * aten.scalar_tensor(2.5)), real(3, 4)),
    "nll_loss": (lambda x, t: aten.nll_loss(x, t), real(3, 4), integers(4, 3)),
    "nll_loss_weighted": (lambda x, t, w: F.nll_loss(x, t, w.detach()), real(3, 4), integers(4, 3), positive(4)),
    "cross_entropy_weighted": (lambda x, t, w: F.cross_entropy(x, t, w.detach()), real(3, 4), integers(4, 3), positive(4)),
    "norm": (lambda x: (aten.norm.Scalar(x, 2), aten.norm.ScalarOpt_dim(x, 2, [1])), real(3, 4)),
    "norm_infinite": (lambda x: torch.linalg.vector_norm(x, float("inf")), distinct(3, 4)),
    "norm_three": (lambda x: torch.linalg.vector_norm(x, 3, dim=1), real(3, 4)),
    "rnn_cell": (torch.nn.RNNCell(3, 4, nonlinearity="relu"), real(2, 3)),
    "deviations": (lambda x: (aten.std(x), aten.var(x), *aten.std_mean(x), *aten.var_mean(x)), real(3, 4)),
    "deviations_corrected": (lambda x: (*torch.std_mean(x, 1, correction=0), *torch.var_mean(x, 1, correction=0)), real(3, 4)),
    "upsample": (lambda x: F.interpolate(x, scale_factor=3, mode="nearest"), real(1, 2, 3)),
    "upsample_corners": (lambda x: F.interpolate(x, size=(5, 7), mode="bilinear", align_corners=True), real(1, 2, 3, 4)),
    "where": (lambda c, x: (torch.where(c, 2.0, x), torch.where(c, 1.0, 2.0)), booleans(3, 4), real(3, 4)),
    "xlogy": (lambda x: (aten.xlogy.Scalar_Self(2.0, x), aten.xlogy.Scalar_Other(x, 3.0)), positive(3, 4)),
    "bce_weighted": (lambda x, y, w: F.binary_cross_entropy_with_logits(x, y.sigmoid().detach(), w.detach(), pos_weight=w.detach()), real(3, 4), real(3, 4), positive(4)),
    "pad_circular": (lambda x: F.pad(x, (1, 2), mode="circular"), real(2, 3, 4)),
}



def written(function):
    """`function` writes to its first operand, or to a part of it; the operand is a value here, not a parameter."""

    def case(x, *others):
        y = x * 1
        result = function(y, *others)
        return y if result is None else (y, result)

    return case


def parts(x, value):
    x[:, 0] = 2.0
    x[1] += 1
    x[:, 1:3] = value
    x[0, 2].mul_(3)


def through_views(x):
    flat, turned = x.view(-1), x.t()
    first, second = x[0:1], x[1:2]
    flat.add_(1)
    turned[0].mul_(2)
    x.select(0, 1).neg_()
    return flat, second, turned, first + x.unsqueeze(0).squeeze(0)[1], x.narrow(1, 1, 2).permute(1, 0).fill_(1.5)


def masks(x):
    mask = torch.zeros(4, 4)
    mask[:, 1:] += 2
    mask.triu_(1)
    return x + mask


# What an operator writes to its operand is seen by all that share its memory.
FAMILIES["in_place"] = {
    "activations": (written(lambda x: F.relu(x, inplace=True)), real(3, 4)),
    "arithmetic": (written(lambda x, y: x.add_(y).mul_(2).sub_(1).div_(3)), real(3, 4), real(4)),
    "clamp": (written(lambda x: x.clamp_(-0.5, 0.5)), real(3, 4)),
    "copy": (written(lambda x, y: x.copy_(y)), real(3, 4), real(4)),
    "fill": (written(lambda x: x[0].fill_(2.5)), real(3, 4)),
    "masked_fill": (written(lambda x, m: x.masked_fill_(m, -1.0)), real(3, 4), booleans(4)),
    "index_put": (written(lambda x, i, y: x.__setitem__(i, y)), real(5, 4), s([3, 0]), real(2, 4)),
    "scatter": (written(lambda x, i, y: x.scatter_(1, i, y)), real(2, 5), s([[0, 2], [4, 1]]), real(2, 2)),
    "parts": (written(parts), real(3, 4), real(3, 2)),
    "through_views": (written(through_views), real(3, 4)),
    "masks": (masks, real(4, 4)),
    "residual": (written(lambda x, y: x.__iadd__(y).relu_()), real(3, 4), real(3, 4)),
    "order": (lambda x: [(y := x * 2), (z := y + 1), y.add_(1), y + z], real(3)),
}

FAMILIES["recurrent"] = {
    "lstm": (torch.nn.LSTM(3, 4, batch_first=True), real(2, 5, 3)),
    "lstm_two": (torch.nn.LSTM(3, 4, num_layers=2), real(5, 2, 3)),
    "lstm_both_ways": (torch.nn.LSTM(3, 4, bidirectional=True), real(5, 2, 3)),
    "gru": (torch.nn.GRU(3, 4, batch_first=True), real(2, 5, 3)),
    "rnn": (torch.nn.RNN(3, 4, bias=False), real(5, 2, 3)),
    "rnn_relu": (torch.nn.RNN(3, 4, nonlinearity="relu"), real(5, 2, 3)),
    "lstm_cell": (torch.nn.LSTMCell(3, 4), real(2, 3)),
    "gru_cell": (torch.nn.GRUCell(3, 4), real(2, 3)),
    "rnn_cell": (torch.nn.RNNCell(3, 4), real(2, 3)),
    "encoder_layer": (torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), real(2, 5, 8)),
    "decoder_layer": (torch.nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=True), real(2, 5, 8), real(2, 3, 8)),
    "attention": (torch.nn.MultiheadAttention(8, 2, batch_first=True), real(2, 5, 8), real(2, 3, 8), real(2, 3, 8)),
    "bilinear": (torch.nn.Bilinear(3, 4, 5), real(2, 3), real(2, 4)),
    "embedding": (torch.nn.Embedding(7, 3, padding_idx=2), integers(7, 2, 4)),
}


def forget_folders(path):
    """Stack traces name the folders of the machine that exported; the archive is the same on all."""
    folders = {os.path.dirname(os.path.abspath(__file__)): "/models", os.path.dirname(torch.__path__[0]): "/usr/lib/python3/dist-packages"}
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in entries.items():
            for folder, neutral in folders.items() if name.endswith(".json") else ():
                data = data.replace(folder.encode(), neutral.encode())
            archive.writestr(zipfile.ZipInfo(name), data)


def write(folder, name, model):
    x = real(2)
    program = torch.export.export(model, (x,))
    torch.export.save(program, f"{folder}/operators_{name}.pt2")
    forget_folders(f"{folder}/operators_{name}.pt2")
    outputs = model(x)
    outputs[0].backward()
    values = {"input.0": x, "losses": outputs[0].reshape(1)}
    values |= {f"output.{index}": output for index, output in enumerate(outputs)}
    # A gradient that is 0 everywhere is that of a step function, which Plumb does not differentiate at all.
    gradients = {key: parameter.grad for key, parameter in model.named_parameters()}
    values |= {f"grad.{key}": grad for key, grad in gradients.items() if grad is not None and grad.any()}
    values = {key: value.detach().contiguous().clone() for key, value in values.items()}
    save_file(values, f"{folder}/operators_{name}.expected.safetensors")


def main(folder):
    for name, cases in FAMILIES.items():
        write(folder, name, Family(cases))


if __name__ == "__main__":
    main(sys.argv[1])
