"""Whether a node fits: it is run once on example values."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional
from torch import nn

from tests.random_policies import text
from tests.random_policies.policy import Input, Node

ROWS = 11
NAMESPACE: dict[str, Any] = {"torch": torch, "nn": nn, "F": torch.nn.functional}
_FLOATS = {2: "vx", 3: "sx", 4: "ix"}


def letters(value: torch.Tensor, precision: str) -> str:
    """The kinds of operand that a value may be, as the table of operators writes them."""
    if value.dtype == torch.bool:
        return "b" if value.ndim == 2 else ""
    if value.dtype == torch.uint8:
        return "u"
    if not value.is_floating_point():
        return "k" if value.ndim <= 2 else ""
    if value.dtype != getattr(torch, precision):
        return "o"
    return _FLOATS.get(value.ndim, "")


def example(port: Input, seed: int, rows: int = ROWS) -> torch.Tensor:
    """Ordinary values of an input."""
    draws = torch.Generator().manual_seed(seed)
    shape = (rows, *port.shape)
    dtype: torch.dtype = getattr(torch, port.dtype)
    if dtype == torch.bool:
        return torch.rand(shape, generator=draws) < 0.5
    if not dtype.is_floating_point:
        high = 255 if port.high is None else int(port.high)
        return torch.randint(0, high + 1, shape, generator=draws).to(dtype)
    if port.low is None or port.high is None:
        return torch.randn(shape, generator=draws).to(dtype)
    return (port.low + (port.high - port.low) * torch.rand(shape, generator=draws)).to(dtype)


def result(node: Node, precision: str, values: dict[str, torch.Tensor]) -> torch.Tensor | None:
    """What the node gives; None where it cannot run, or where rows are no longer first."""
    shapes = {name: tuple(values[name].shape[1:]) for name in node.operands}
    scope = {**NAMESPACE, **values, "self": SimpleNamespace()}
    try:
        with precise(precision), torch.no_grad(), warnings.catch_warnings():
            # What torch warns of (the spread of one value) is NaN, and drawn again.
            warnings.simplefilter("ignore")
            for line in text.node_init(node, precision, shapes):
                exec(line, scope)
            layer = getattr(scope["self"], node.name, None)
            if isinstance(layer, nn.Module):
                layer.eval()
            for name, start in text.memories(node, precision, shapes).items():
                scope[name] = eval(start, scope | {"B": ROWS})
            for line in text.node_lines(node, precision, shapes):
                exec(line, scope)
    except (RuntimeError, IndexError, ValueError, AssertionError, TypeError, KeyError):
        return None
    found = scope[node.name]
    if not isinstance(found, torch.Tensor) or found.ndim < 1 or found.shape[0] != ROWS:
        return None
    kept = [scope[name] for name in text.memories(node, precision, shapes)]
    starts = [eval(s, scope | {"B": ROWS}) for s in text.memories(node, precision, shapes).values()]
    moved = [
        a for a, b in zip(kept, starts, strict=True) if a.shape != b.shape or a.dtype != b.dtype
    ]
    return None if moved or found.numel() == 0 or found[0].numel() > 512 else found


def is_ordinary(value: torch.Tensor, largest: float) -> bool:
    """Whether all values are finite and of a size that policies have."""
    return bool(value.isfinite().all()) and float(value.double().abs().max()) <= largest


class precise:
    """A context in which layers are made in a precision, and no draw is felt outside."""

    def __init__(self, precision: str) -> None:
        self._precision: torch.dtype = getattr(torch, precision)
        self._fork = torch.random.fork_rng(devices=[])

    def __enter__(self) -> None:
        self._before = torch.get_default_dtype()
        torch.set_default_dtype(self._precision)
        self._fork.__enter__()

    def __exit__(self, *raised: Any) -> None:
        self._fork.__exit__(*raised)
        torch.set_default_dtype(self._before)
