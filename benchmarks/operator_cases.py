"""Every operator that a policy may use, as small functions over the same few inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import operator_corners as corners
import torch
from torch import Tensor, nn

Function = Callable[..., Tensor]
_s = torch.special
F = torch.nn.functional


@dataclass(frozen=True)
class Kind:
    """Operators of the same inputs; `along` says whether a result depends on its whole row."""

    name: str
    inputs: Callable[[], tuple[Tensor, ...]]
    functions: dict[str, Function]
    along: bool = False


def _named(*names: str, of: object = torch) -> dict[str, Function]:
    return {name: getattr(of, name) for name in names}


UNARY: dict[str, Function] = {
    **_named(
        "abs",
        "neg",
        "sign",
        "sgn",
        "signbit",
        "reciprocal",
        "sqrt",
        "rsqrt",
        "square",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "acosh",
        "atanh",
        "erf",
        "erfc",
        "erfinv",
        "floor",
        "ceil",
        "round",
        "trunc",
        "frac",
        "sigmoid",
        "isnan",
        "isinf",
        "isfinite",
        "isposinf",
        "isneginf",
        "nan_to_num",
        "deg2rad",
        "rad2deg",
        "sinc",
        "logical_not",
        "lgamma",
        "digamma",
        "relu",
        "celu",
        "selu",
        "positive",
    ),
    **_named(
        "relu6",
        "elu",
        "leaky_relu",
        "gelu",
        "silu",
        "mish",
        "softplus",
        "softsign",
        "tanhshrink",
        "hardtanh",
        "hardsigmoid",
        "hardswish",
        "hardshrink",
        "softshrink",
        "logsigmoid",
        of=F,
    ),
    "special.ndtr": _s.ndtr,
    "special.entr": _s.entr,
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "softplus beta=2": lambda x: F.softplus(x, beta=2.0, threshold=5.0),
    "elu alpha=0.5": lambda x: F.elu(x, alpha=0.5),
    "threshold": lambda x: F.threshold(x, 0.5, -1.0),
    "logit": torch.logit,
    "logit eps": lambda x: torch.logit(x, eps=1e-6),
    "round decimals=2": lambda x: torch.round(x, decimals=2),
    "nan_to_num values": lambda x: torch.nan_to_num(x, nan=1.0, posinf=2.0, neginf=-2.0),
    "clamp": lambda x: torch.clamp(x, -1.0, 1.0),
    "clamp min": lambda x: torch.clamp(x, min=0.5),
    "clamp max": lambda x: torch.clamp(x, max=0.5),
    "clip": lambda x: torch.clip(x, -2.5, 2.5),
    "x ** 2": lambda x: x**2,
    "x ** 3": lambda x: x**3,
    "x ** 0.5": lambda x: x**0.5,
    "x ** -1": lambda x: x**-1,
    "x ** -0.5": lambda x: x**-0.5,
    "x ** 0.3": lambda x: x**0.3,
    "2 ** x": lambda x: 2.0**x,
    "0.5 ** x": lambda x: 0.5**x,
    "1 / x": lambda x: 1 / x,
    "1 - x": lambda x: 1 - x,
    "x / 3": lambda x: x / 3,
    "x % 0.7": lambda x: x % 0.7,
    "x % -0.7": lambda x: x % -0.7,
    "x % 2π": lambda x: x % (2 * torch.pi),
    "wrap to π": lambda x: (x + torch.pi) % (2 * torch.pi) - torch.pi,
    "7 % x": lambda x: 7.0 % x,
    "remainder 1": lambda x: torch.remainder(x, 1.0),
    "fmod 0.7": lambda x: torch.fmod(x, 0.7),
    "fmod 2π": lambda x: torch.fmod(x, 2 * torch.pi),
    "x // 0.7": lambda x: x // 0.7,
    "7 // x": lambda x: 7.0 // x,
    "div trunc": lambda x: torch.div(x, 0.7, rounding_mode="trunc"),
    "atan2 sin cos": lambda x: torch.atan2(torch.sin(x), torch.cos(x)),
    "to int64": lambda x: torch.where(x.abs() < 1e9, x, 0.0).to(torch.int64),
    "to int32": lambda x: torch.where(x.abs() < 1e9, x, 0.0).to(torch.int32),
    "to bool": lambda x: x.to(torch.bool),
    "to half and back": lambda x: x.half().float(),
    "to double": lambda x: x.double(),
    "masked_fill": lambda x: x.masked_fill(x > 1, -1e9),
    "where": lambda x: torch.where(x > 0, x, -x),
    "x > 0.5": lambda x: x > 0.5,
    "x == 0": lambda x: x == 0,
    "x != x": lambda x: x != x,
    "hypot 1": lambda x: torch.hypot(x, torch.ones_like(x)),
    "bucketize": lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0, 2.5])),
    "bucketize right": lambda x: torch.bucketize(
        x, torch.tensor([-1.0, 0.0, 1.0, 2.5]), right=True
    ),
    "rsub": lambda x: torch.rsub(x, 1.0),
    "rrelu": F.rrelu,
}
BINARY: dict[str, Function] = {
    **_named(
        "add",
        "sub",
        "mul",
        "div",
        "true_divide",
        "floor_divide",
        "remainder",
        "fmod",
        "pow",
        "atan2",
        "hypot",
        "maximum",
        "minimum",
        "fmax",
        "fmin",
        "logaddexp",
        "logaddexp2",
        "copysign",
        "nextafter",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "logical_and",
        "logical_or",
        "logical_xor",
        "xlogy",
        "heaviside",
        "isclose",
        "float_power",
        "ldexp",
    ),
    "div floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "div trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "special.xlog1py": _s.xlog1py,
    "lerp": lambda a, b: torch.lerp(a, b, 0.3),
    "lerp weight": lambda a, b: torch.lerp(a, b, torch.tanh(a)),
    "addcmul": lambda a, b: torch.addcmul(a, a, b, value=0.5),
    "addcdiv": lambda a, b: torch.addcdiv(a, a, b, value=0.5),
    "clamp tensors": lambda a, b: torch.clamp(a, -b.abs(), b.abs()),
    "clamp tensor min": lambda a, b: torch.clamp(a, min=b),
    "where": lambda a, b: torch.where(a > b, a, b),
    "prelu": lambda a, b: F.prelu(a[:, None], torch.tensor([0.25]))[:, 0],
    "mse": lambda a, b: F.mse_loss(a, b, reduction="none"),
    "smooth_l1": lambda a, b: F.smooth_l1_loss(a, b, reduction="none"),
    "glu": lambda a, b: F.glu(torch.stack([a, b], dim=-1))[:, 0],
    "polar angle": lambda a, b: torch.atan2(2 * (a * b), 1 - 2 * (b * b)),
}
INTEGER: dict[str, Function] = {
    **_named(
        "add",
        "sub",
        "mul",
        "div",
        "floor_divide",
        "remainder",
        "fmod",
        "maximum",
        "minimum",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "logical_and",
    ),
    "div floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "div trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "%": lambda a, b: a % b,
    "% 20": lambda a, b: a % 20,
    "% -20": lambda a, b: a % -20,
    "// 7": lambda a, b: a // 7,
    "// -7": lambda a, b: a // -7,
    "abs": lambda a, b: torch.abs(a),
    "neg": lambda a, b: -a,
    "sign": lambda a, b: torch.sign(a),
    "bitwise_not": lambda a, b: torch.bitwise_not(a),
    "clamp": lambda a, b: torch.clamp(a, -3, 3),
    "to float32": lambda a, b: a.float(),
    "to int32": lambda a, b: a.clamp(-(2**31), 2**31 - 1).to(torch.int32),
    "to bool": lambda a, b: a.to(torch.bool),
    "square": lambda a, b: torch.clamp(a, -1000, 1000) ** 2,
    "<< 2": lambda a, b: torch.clamp(a, -1000, 1000) << 2,
    ">> 1": lambda a, b: torch.clamp(a, -1000, 1000) >> 1,
}
ROWS: dict[str, Function] = {
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean(-1),
    "prod": lambda x: x.prod(-1),
    "amax": lambda x: x.amax(-1),
    "amin": lambda x: x.amin(-1),
    "max values": lambda x: x.max(-1).values,
    "max indices": lambda x: x.max(-1).indices,
    "min values": lambda x: x.min(-1).values,
    "min indices": lambda x: x.min(-1).indices,
    "argmax": lambda x: x.argmax(-1),
    "argmin": lambda x: x.argmin(-1),
    "aminmax": lambda x: torch.stack(torch.aminmax(x, dim=-1), -1),
    "std": lambda x: x.std(-1),
    "std uncorrected": lambda x: x.std(-1, correction=0),
    "var": lambda x: x.var(-1),
    "std of one": lambda x: x[:, :1].std(-1),
    "var of one": lambda x: x[:, :1].var(-1),
    "var_mean": lambda x: torch.stack(torch.var_mean(x, dim=-1), -1),
    "norm": lambda x: x.norm(dim=-1),
    "norm 1": lambda x: x.norm(p=1, dim=-1),
    "norm inf": lambda x: x.norm(p=torch.inf, dim=-1),
    "norm 3": lambda x: x.norm(p=3, dim=-1),
    "linalg.norm": lambda x: torch.linalg.norm(x, dim=-1),
    "linalg.vector_norm": lambda x: torch.linalg.vector_norm(x, dim=-1),
    "linalg.cross": lambda x: torch.linalg.cross(x[:, :3], x[:, 2:]),
    "normalize": lambda x: F.normalize(x, dim=-1),
    "cosine_similarity": lambda x: F.cosine_similarity(x, x.flip(-1), dim=-1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "softmin": lambda x: F.softmin(x, dim=-1),
    "cumsum": lambda x: x.cumsum(-1),
    "cumprod": lambda x: x.cumprod(-1),
    "cummax": lambda x: x.cummax(-1).values,
    "cummax indices": lambda x: x.cummax(-1).indices,
    "cummin": lambda x: x.cummin(-1).values,
    "logcumsumexp": lambda x: x.logcumsumexp(-1),
    "any": lambda x: (x > 0).any(-1),
    "all": lambda x: (x > 0).all(-1),
    "any float": lambda x: x.any(-1),
    "all float": lambda x: x.all(-1),
    "count_nonzero": lambda x: torch.count_nonzero(x, -1),
    "nansum": lambda x: x.nansum(-1),
    "nanmean": lambda x: x.nanmean(-1),
    "median": lambda x: x.median(-1).values,
    "kthvalue": lambda x: x.kthvalue(2, -1).values,
    "topk values": lambda x: x.topk(3, -1).values,
    "topk indices": lambda x: x.topk(3, -1).indices,
    "topk smallest": lambda x: x.topk(3, -1, largest=False).values,
    "sort values": lambda x: x.sort(-1).values,
    "sort descending": lambda x: x.sort(-1, descending=True).values,
    "sort stable indices": lambda x: x.sort(dim=-1, stable=True).indices,
    "argsort": lambda x: x.argsort(-1),
    "argsort stable": lambda x: x.argsort(dim=-1, stable=True),
    "diff": lambda x: x.diff(dim=-1),
    "layer_norm": lambda x: F.layer_norm(x, (5,)),
    "rms_norm": lambda x: F.rms_norm(x, (5,)),
    "group_norm": lambda x: F.group_norm(x, 1),
    "cdist": lambda x: torch.cdist(x[:, None], x[:, None].flip(-1))[:, 0],
    "pairwise_distance": lambda x: F.pairwise_distance(x, x.flip(-1)),
    "dist to first": lambda x: torch.linalg.vector_norm(x - x[:, :1], dim=-1),
    "outer": lambda x: torch.einsum("bi,bj->bij", x, x),
    "einsum bi,bi->b": lambda x: torch.einsum("bi,bi->b", x, x),
    "bmm": lambda x: torch.bmm(x[:, None], x[:, :, None])[:, 0],
    "matmul constant": lambda x: x @ torch.linspace(-1, 1, 15).reshape(5, 3),
    "linear": lambda x: F.linear(x, torch.linspace(-1, 1, 15).reshape(3, 5), torch.ones(3)),
    "baddbmm": lambda x: torch.baddbmm(x[:, None, :1], x[:, None], x[:, :, None])[:, 0],
    "cat": lambda x: torch.cat([x, x], -1),
    "stack": lambda x: torch.stack([x, -x], 1),
    "flip": lambda x: x.flip(-1),
    "roll": lambda x: x.roll(1, -1),
    "chunk": lambda x: torch.cat(x.chunk(2, -1)[::-1], -1),
    "split": lambda x: torch.cat(x.split([2, 3], -1)[::-1], -1),
    "unbind": lambda x: x.unbind(-1)[3],
    "x[..., -1]": lambda x: x[..., -1],
    "x[:, [0, -1]]": lambda x: x[:, [0, -1]],
    "index_select": lambda x: x.index_select(-1, torch.tensor([4, 0, 0])),
    "repeat_interleave": lambda x: x.repeat_interleave(2, -1),
    "repeat": lambda x: x.repeat(1, 2),
    "expand": lambda x: x[:, None].expand(-1, 3, -1),
    "permute": lambda x: x[:, None].permute(0, 2, 1),
    "unfold": lambda x: x.unfold(-1, 3, 1),
    "tril": lambda x: torch.tril(x[:, None].expand(-1, 5, -1)),
    "triu": lambda x: torch.triu(x[:, None].expand(-1, 5, -1), diagonal=1),
    "diagonal": lambda x: torch.diag_embed(x).diagonal(dim1=-2, dim2=-1),
    "diag_embed": torch.diag_embed,
    "pad": lambda x: F.pad(x, (1, 2), value=-1.0),
    "pad reflect": lambda x: F.pad(x[:, None], (2, 2), mode="reflect"),
    "pad replicate": lambda x: F.pad(x[:, None], (2, 2), mode="replicate"),
    "rot90": lambda x: torch.rot90(x[:, None], 1, (1, 2)),
    "one_hot argmax": lambda x: F.one_hot(x.nan_to_num().argmax(-1), 5),
    "embedding": lambda x: F.embedding(
        x.nan_to_num().argmax(-1), torch.linspace(-1, 1, 20).reshape(5, 4)
    ),
    "slice write": lambda x: _slice_write(x),
    "masked write": lambda x: _masked_write(x),
    "index_fill": lambda x: x.index_fill(-1, torch.tensor([1, 3]), 7.0),
    "index_add": lambda x: x.index_add(-1, torch.tensor([1, 3]), x[:, :2]),
    "histogram of places": lambda x: F.one_hot(x.nan_to_num().argsort(dim=-1, stable=True), 5).sum(
        1
    ),
    "trace": lambda x: torch.diag_embed(x).sum((-1, -2)),
    "det 2x2": lambda x: torch.linalg.det(x[:, :4].reshape(-1, 2, 2)),
    "avg_pool1d": lambda x: F.avg_pool1d(x[:, None], 2),
    "max_pool1d": lambda x: F.max_pool1d(x[:, None], 2),
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x[:, None], 1),
    "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x[:, None], 1),
    "lp_pool1d": lambda x: F.lp_pool1d(x[:, None], 2.0, 2),
    "conv1d": lambda x: F.conv1d(x[:, None], torch.tensor([[[0.5, -1.0, 0.25]]]), padding=1),
    "conv_transpose1d": lambda x: F.conv_transpose1d(x[:, None], torch.ones(1, 2, 2)),
    "conv2d": lambda x: F.conv2d(x[:, None, None], torch.ones(2, 1, 1, 2), torch.ones(2)),
    "max_pool2d": lambda x: F.max_pool2d(x[:, None, None], (1, 2)),
    "avg_pool2d": lambda x: F.avg_pool2d(x[:, None, None], (1, 2)),
    "interpolate nearest": lambda x: F.interpolate(x[:, None], scale_factor=2),
    "interpolate linear": lambda x: F.interpolate(x[:, None], scale_factor=2, mode="linear"),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x[:, :4, None, None], 2),
    "batch_norm": lambda x: F.batch_norm(x, torch.zeros(5), torch.linspace(0.1, 2, 5)),
    "instance_norm": lambda x: F.instance_norm(x[:, None]),
    "local_response_norm": lambda x: F.local_response_norm(x[:, :, None], 2),
    "dropout": lambda x: F.dropout(x, 0.5, training=False),
    "gumbel argmax": lambda x: (x.nan_to_num() + 0.1).argmax(-1),
    "quantile": lambda x: x.quantile(0.5, dim=-1),
    "renorm": lambda x: torch.renorm(x, 2, 0, 1.0),
    "scatter one": lambda x: torch.zeros_like(x).scatter(-1, x.nan_to_num().argmax(-1, True), 1.0),
    "log_prob normal": lambda x: torch.distributions.Normal(0.0, 2.0, False).log_prob(x),  # type: ignore[no-untyped-call]
    "sdpa": lambda x: _attention(x),
    "sdpa causal": lambda x: _attention(x, is_causal=True),
    "sdpa 3-D": lambda x: F.scaled_dot_product_attention(*[x[:, :, None] * 0.5] * 3),
    "sdpa 3-D causal": lambda x: F.scaled_dot_product_attention(
        x[:, :, None], x[:, :, None], x[:, :, None], is_causal=True
    ),
}


def _slice_write(x: Tensor) -> Tensor:
    x = x.clone()
    x[:, 1:3] = -1.0
    return x


def _masked_write(x: Tensor) -> Tensor:
    x = x.clone()
    x[x > 1] = 0.0
    return x


def _attention(x: Tensor, **keywords: object) -> Tensor:
    tokens = x[:, None, :, None] * torch.tensor([1.0, -0.5])
    return F.scaled_dot_product_attention(tokens, tokens, tokens, **keywords)  # type: ignore[arg-type]


def _masked_attention(x: Tensor, mask: Tensor, indices: Tensor) -> Tensor:
    return _attention(x, attn_mask=mask[:, None, None, :].expand(-1, 1, 5, -1))


MASKED: dict[str, Function] = {
    "gather": lambda x, mask, i: x.gather(-1, i),
    "scatter": lambda x, mask, i: x.scatter(-1, i[:, :1], 9.0),
    "scatter_add": lambda x, mask, i: x.scatter_add(-1, i, x[:, :3]),
    "scatter_reduce amax": lambda x, mask, i: x.scatter_reduce(-1, i, x[:, :3], "amax"),
    "masked_fill -inf softmax": lambda x, mask, i: x.masked_fill(~mask, -torch.inf).softmax(-1),
    "masked_fill -1e9 softmax": lambda x, mask, i: x.masked_fill(~mask, -1e9).softmax(-1),
    "masked argmax": lambda x, mask, i: x.masked_fill(~mask, -torch.inf).argmax(-1),
    "masked mean": lambda x, mask, i: (x * mask).sum(-1) / mask.sum(-1).clamp(min=1),
    "masked logsumexp": lambda x, mask, i: x.masked_fill(~mask, -torch.inf).logsumexp(-1),
    "where mask": lambda x, mask, i: torch.where(mask, x, torch.zeros_like(x)),
    "any": lambda x, mask, i: mask.any(-1),
    "all": lambda x, mask, i: mask.all(-1),
    "mask sum": lambda x, mask, i: mask.sum(-1),
    "mask argmax": lambda x, mask, i: mask.int().argmax(-1),
    "mask cumsum": lambda x, mask, i: mask.cumsum(-1),
    "logical": lambda x, mask, i: (mask & (x > 0)) | ~mask ^ (x < 1),
    "one_hot": lambda x, mask, i: F.one_hot(i, 5),
    "embedding": lambda x, mask, i: F.embedding(i, torch.linspace(-1, 1, 20).reshape(5, 4)),
    "x[index]": lambda x, mask, i: x[torch.arange(x.shape[0]), i[:, 0]],
    "x[-1 index]": lambda x, mask, i: x[torch.arange(x.shape[0]), i[:, 0] - 5],
    "sdpa boolean mask": _masked_attention,
    "sdpa float mask": lambda x, mask, i: _attention(
        x, attn_mask=torch.zeros(x.shape[0], 1, 5, 5).masked_fill(~mask[:, None, None, :], -1e9)
    ),
    "softmax of -inf float mask": lambda x, mask, i: _attention(
        x,
        attn_mask=torch.zeros(x.shape[0], 1, 5, 5).masked_fill(~mask[:, None, None, :], -torch.inf),
    ),
}


def _layer(layer: nn.Module, call: Callable[[nn.Module, Tensor], Tensor]) -> Function:
    """The layer as a function; registered with the module that is exported by `layers`."""
    layer.eval()

    def run(x: Tensor) -> Tensor:
        return call(layer, x)

    run.layer = layer  # type: ignore[attr-defined]
    return run


def _sequence(layer: nn.Module, x: Tensor) -> Tensor:
    out, state = layer(x[None])
    kept = state if isinstance(state, tuple) else (state,)
    return torch.cat([out[0], *(each for part in kept for each in part)], -1)


def _three_steps(layer: nn.Module, x: Tensor) -> Tensor:
    out, _ = layer(torch.stack([x, x * 0.5, x.flip(-1)]))
    return torch.cat([*out], -1)


def _batch_first(layer: nn.Module, x: Tensor) -> Tensor:
    out, _ = layer(x[:, None])
    return out[:, 0]  # type: ignore[no-any-return]


def _from(layer: nn.Module, x: Tensor) -> Tensor:
    """One step from a state that depends on the observation."""
    start = torch.stack([x[:, :4]])
    out, _ = layer(x[None], (start, start * 2) if isinstance(layer, nn.LSTM) else start)
    return out[0]  # type: ignore[no-any-return]


def layers() -> dict[str, Function]:
    """Layers with weights of their own, drawn from a fixed seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return {
            "LSTM": _layer(nn.LSTM(5, 4), _sequence),
            "LSTM with state": _layer(nn.LSTM(5, 4), _from),
            "LSTM no bias": _layer(nn.LSTM(5, 4, bias=False), _sequence),
            "LSTM two layers": _layer(nn.LSTM(5, 4, 2), _sequence),
            "LSTM batch_first": _layer(nn.LSTM(5, 4, batch_first=True), _batch_first),
            "LSTM bidirectional": _layer(nn.LSTM(5, 4, bidirectional=True), _three_steps),
            "LSTM three steps": _layer(nn.LSTM(5, 4), _three_steps),
            "LSTM proj_size": _layer(nn.LSTM(5, 4, proj_size=3), _sequence),
            "GRU": _layer(nn.GRU(5, 4), _sequence),
            "GRU with state": _layer(nn.GRU(5, 4), _from),
            "GRU no bias": _layer(nn.GRU(5, 4, bias=False), _sequence),
            "GRU two layers": _layer(nn.GRU(5, 4, 2), _sequence),
            "GRU batch_first": _layer(nn.GRU(5, 4, batch_first=True), _batch_first),
            "GRU bidirectional": _layer(nn.GRU(5, 4, bidirectional=True), _three_steps),
            "GRU three steps": _layer(nn.GRU(5, 4), _three_steps),
            "RNN tanh": _layer(nn.RNN(5, 4), _sequence),
            "RNN relu": _layer(nn.RNN(5, 4, nonlinearity="relu"), _sequence),
            "RNN three steps": _layer(nn.RNN(5, 4), _three_steps),
            "LSTMCell": _layer(nn.LSTMCell(5, 4), lambda cell, x: torch.cat(cell(x), -1)),
            "GRUCell": _layer(nn.GRUCell(5, 4), lambda cell, x: cell(x)),
            "RNNCell": _layer(nn.RNNCell(5, 4), lambda cell, x: cell(x)),
            "Linear": _layer(nn.Linear(5, 4), lambda layer, x: layer(x)),
            "Bilinear": _layer(nn.Bilinear(5, 5, 3), lambda layer, x: layer(x, x)),
            "LayerNorm": _layer(nn.LayerNorm(5), lambda layer, x: layer(x)),
            "BatchNorm1d": _layer(nn.BatchNorm1d(5), lambda layer, x: layer(x)),
            "MultiheadAttention": _layer(
                nn.MultiheadAttention(5, 1, batch_first=True),
                lambda layer, x: layer(*[torch.stack([x, -x], 1)] * 3, need_weights=False)[0],
            ),
            "TransformerEncoderLayer": _layer(
                nn.TransformerEncoderLayer(5, 1, 8, 0.0, batch_first=True),
                lambda layer, x: layer(torch.stack([x, x.flip(-1)], 1)),
            ),
        }


# What the first run found to be refused: exported one by one, so that they do not stop the others.
ALONE = {
    "erfinv", "lgamma", "digamma", "rrelu", "fmax", "fmin", "nextafter", "cummax", "cummax indices",
    "cummin", "median", "kthvalue",
}  # fmt: skip


def kinds() -> Iterator[Kind]:
    """Every operator, in groups of the same inputs."""
    yield Kind("float", lambda: (corners.floats(),), UNARY)
    yield Kind("pairs of floats", corners.pairs, BINARY)
    yield Kind("pairs of integers", corners.integers, INTEGER)
    yield Kind("rows", lambda: (corners.rows(),), ROWS, along=True)
    yield Kind("rows with masks and indices", _with_masks, MASKED, along=True)
    yield Kind("layers", lambda: (corners.rows(),), layers(), along=True)


def _with_masks() -> tuple[Tensor, ...]:
    rows = corners.rows()
    repeated = rows.repeat(3, 1)
    return repeated, corners.masks(len(rows)), corners.indices(len(repeated))
