"""Networks rebuilt from the names and shapes of their weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from roadworthy.errors import UsageError
from roadworthy.frameworks.reading import UNEXPLAINED

Weights = Mapping[str, Tensor]
Stride = tuple[int, int]  # and padding

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "tanh": nn.Tanh, "relu": nn.ReLU, "elu": nn.ELU, "selu": nn.SELU, "celu": nn.CELU,
    "gelu": nn.GELU, "silu": nn.SiLU, "leaky_relu": nn.LeakyReLU, "sigmoid": nn.Sigmoid,
    "softplus": nn.Softplus, "softsign": nn.Softsign, "mish": nn.Mish, "relu6": nn.ReLU6,
    "hardtanh": nn.Hardtanh, "hardswish": nn.Hardswish, "logsigmoid": nn.LogSigmoid,
    "tanhshrink": nn.Tanhshrink, "identity": nn.Identity,
}  # fmt: skip
# As classes and configuration files write them.
_SPELT = {"swish": "silu", "lrelu": "leaky_relu", "none": "identity", "linear": "identity",
          "leakyrelu": "leaky_relu"}  # fmt: skip


def activation_name(text: str) -> str:
    """The name of an activation, however it is spelt: "nn.ReLU", "ReLU()", "swish"."""
    plain = text.strip("<>'\" ").rpartition(".")[2].partition("(")[0].strip("'\"> ").lower()
    plain = _SPELT.get(plain, plain)
    if plain not in ACTIVATIONS:
        raise KeyError(text)
    return plain


def under(weights: Weights, prefix: str) -> dict[str, Tensor]:
    """The weights whose names begin with `prefix.`, without it."""
    start = f"{prefix}."
    return {name[len(start) :]: w for name, w in weights.items() if name.startswith(start)}


def places(weights: Weights) -> list[int]:
    """The places that `0.weight`, `2.bias`, … have in a sequence, in order."""
    found = {int(name.partition(".")[0]) for name in weights if re.match(r"\d+\.", name)}
    return sorted(found)


def sequence(
    weights: Weights,
    activation: str,
    *,
    where: str,
    active_end: bool = False,
    build: Callable[[Weights, str], nn.Module] | None = None,
) -> nn.Sequential:
    """The sequence of layers that these weights belong to, with them inside.

    Places without weights are the activation. `active_end` adds one behind the last layer.
    `build` makes a layer of its weights; left out, `layer` does.
    """
    layers: list[nn.Module] = []
    known = places(weights)
    for place in range(known[-1] + 1 if known else 0):
        own = under(weights, str(place))
        made = (build or layer)(own, f"{where}.{place}") if own else ACTIVATIONS[activation]()
        layers.append(made)
    if active_end and layers:
        layers.append(ACTIVATIONS[activation]())
    return nn.Sequential(*layers)


def convolutions(
    weights: Weights, steps: Iterable[Stride], activation: str, where: str
) -> nn.Sequential:
    """A sequence of convolutions that ends with an activation, or a norm behind one, flattened."""
    layers = sequence(weights, activation, where=where, build=partial(layer, steps=iter(steps)))
    ended = [ACTIVATIONS[activation]()] if isinstance(layers[-1], nn.Conv2d) else []
    return nn.Sequential(*layers, *ended, nn.Flatten())


def layer(weights: Weights, where: str, *, steps: Iterator[Stride] | None = None) -> nn.Module:
    """One layer with its weights, told apart by their shapes: Linear, LayerNorm, BatchNorm1d.

    With `steps`, the stride and padding of each convolution: Conv2d, or the BatchNorm2d behind one.
    """
    weight = weights.get("weight")
    made: nn.Module | None = None
    if "running_mean" in weights:
        norm = nn.BatchNorm1d if steps is None else nn.BatchNorm2d
        made = norm(len(weights["running_mean"]), affine=weight is not None)
    elif weight is not None and weight.ndim == 4 and steps is not None:
        out, channels, height, width = weight.shape
        made = nn.Conv2d(channels, out, (height, width), *next(steps), bias="bias" in weights)
    elif weight is not None and weight.ndim == 2 and steps is None:
        made = nn.Linear(weight.shape[1], weight.shape[0], bias="bias" in weights)
    elif weight is not None and weight.ndim == 1 and steps is None:
        made = nn.LayerNorm(weight.shape[0], bias="bias" in weights)
    if made is None:
        shapes = ", ".join(f"{name} {tuple(each.shape)}" for name, each in weights.items())
        between = "" if steps is None else "between convolutions "
        raise unexplained(where, f"no known layer {between}has the weights {shapes}")
    return loaded(made, weights, where)


def loaded(module: nn.Module, weights: Weights, where: str) -> nn.Module:
    """The module with these weights in float32; an error where they are not exactly its own."""
    own = module.state_dict()
    given = {name: w for name, w in weights.items() if name in own or "num_batches" not in name}
    wrong = [
        f"{name} {tuple(given[name].shape) if name in given else 'is missing'}"
        f"{'' if name in own else ' is not known'}"
        for name in {**own, **given}
        if name not in own
        or (name not in given and "num_batches" not in name)
        or (name in given and given[name].shape != own[name].shape)
    ]
    if wrong:
        raise unexplained(where, f"the weights do not fit: {', '.join(wrong)}")
    module.load_state_dict(
        {n: w.to(torch.float32) if w.is_floating_point() else w for n, w in given.items()},
        strict=False,
    )
    return module.eval().requires_grad_(False)


def recurrent(weights: Weights, where: str) -> nn.LSTM | nn.GRU:
    """An LSTM or GRU with its weights; its kind, layers, sizes and biases by their names."""
    inputs, hidden = weights["weight_ih_l0"].shape[1], weights["weight_hh_l0"].shape[1]
    gates = weights["weight_ih_l0"].shape[0] // hidden
    count = len([name for name in weights if re.fullmatch(r"weight_ih_l\d+", name)])
    kind = {4: nn.LSTM, 3: nn.GRU}.get(gates)
    if kind is None:
        raise unexplained(where, f"no LSTM and no GRU has {gates} gates")
    made: nn.LSTM | nn.GRU = kind(inputs, hidden, count, bias="bias_ih_l0" in weights)
    loaded(made, weights, where)
    return made


def kernels_of(weights: Weights) -> list[Tensor]:
    """The kernels of the convolutions in a sequence, in order."""
    found = (weights.get(f"{place}.weight") for place in places(weights))
    return [kernel for kernel in found if kernel is not None and kernel.ndim == 4]


def widths(module: nn.Module) -> str:
    """`4 → 64 → 64`: the sizes between the linear layers of a network."""
    linear = [each for each in module.modules() if isinstance(each, nn.Linear)]
    sizes = [linear[0].in_features, *(each.out_features for each in linear)] if linear else []
    return " → ".join(map(str, sizes))


def unexplained(where: str, what: str) -> UsageError:
    """The error for weights that belong to no network that can be rebuilt."""
    return UsageError(
        what, where=where, code=UNEXPLAINED,
        hint="load it in Python and pass the module: rw.export(module, folder, example=…)",
    )  # fmt: skip


def left_over(weights: Weights, used: Sequence[str]) -> tuple[str, ...]:
    """The names of the weights that begin with none of the used prefixes."""
    return tuple(name for name in weights if not name.startswith(tuple(used)))
