"""Mistakes inside a module: parts left out, weights exchanged, gates in another order.

Each is made on a module in export mode, whose tensors are put back when the mode ends.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from roadworthy.verification.originals.gate_blocks import GATES, reordered, reset_gate_first

# An original of a thousand layers is not searched for ever.
MOST_OF_A_KIND = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleMutant:
    """One mistake: what it is, what to do about it, and how it is made."""

    what: str
    hint: str
    where: str
    applied: Callable[[], AbstractContextManager[None]]


def module_mutants(module: nn.Module) -> Iterator[ModuleMutant]:
    """Mistakes worth trying on `module`, the frequent ones first."""
    for kind in (
        _left_out, _input_scaled, _rounded, _gates,
        _siblings, _parts_exchanged, _exchanged, _no_bias,
    ):  # fmt: skip
        yield from itertools.islice(kind(module), MOST_OF_A_KIND)


def _left_out(module: nn.Module) -> Iterator[ModuleMutant]:
    for path, part in _parts(module):
        named = f"{path!r} ({type(part).__name__})"
        yield ModuleMutant(
            what=f"the artifact lacks {named}: the original without it gives the same values",
            hint=f"export a module whose forward calls {path!r}",
            where=path,
            applied=partial(_hooked, part, lambda m, given, out: _same_shape(given, out)),
        )
        yield ModuleMutant(
            what=f"the artifact applies {named} twice",
            hint=f"apply {path!r} in one place only: inside the policy, or outside",
            where=path,
            applied=partial(_hooked, part, lambda m, given, out: _again(m, given, out)),
        )


def _input_scaled(module: nn.Module) -> Iterator[ModuleMutant]:
    first = next((each for each in _parts(module) if each[1]._parameters), None)
    if first is None:
        return
    path, part = first
    for factor, meaning in ((255.0, "255 times larger"), (1 / 255.0, "255 times smaller")):
        yield ModuleMutant(
            what=f"the input of {path!r} is {meaning} in the artifact: /255 is missing, or done "
            "twice",
            hint="divide pixels by 255 once, in the policy or before it",
            where=path,
            applied=partial(_prepared, part, factor),
        )


def _rounded(module: nn.Module) -> Iterator[ModuleMutant]:
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        name = str(dtype).removeprefix("torch.")
        yield ModuleMutant(
            what=f"the weights of the artifact are those of the original, rounded to {name}",
            hint=f"export the weights as they are, not {name}",
            where="weights",
            applied=partial(_as_if, module, dtype),
        )


def _gates(module: nn.Module) -> Iterator[ModuleMutant]:
    for path, part in _parts(module):
        gates = next((names for kind, names in GATES.items() if isinstance(part, kind)), "")
        for order in list(itertools.permutations(gates))[1:]:
            yield ModuleMutant(
                what=f"the artifact takes the gates of {path!r} for ({', '.join(order)}); "
                f"PyTorch keeps them as ({', '.join(gates)})",
                hint="reorder the gates in weights and biases when converting them",
                where=path,
                applied=partial(_done, reordered, part, gates, order),
            )
        if isinstance(part, nn.GRU | nn.GRUCell):
            yield ModuleMutant(
                what=f"the artifact applies the reset gate of {path!r} before the matrix product; "
                "PyTorch applies it after",
                hint="use the other variant of the cell: linear_before_reset=1 in ONNX, "
                "reset_after=True in Keras",
                where=path,
                applied=partial(_hooked, part, reset_gate_first),
            )


def _parts_exchanged(module: nn.Module) -> Iterator[ModuleMutant]:
    for (path, part), (other, second) in itertools.combinations(_stateful(module), 2):
        if _alike(path, part, other, second):
            yield ModuleMutant(
                what=f"the artifact has the weights of {path!r} and {other!r} swapped",
                hint="export again from the loaded module; external data files may be mixed up",
                where=path,
                applied=partial(_done, _exchange_states, part, second),
            )


def _siblings(module: nn.Module) -> Iterator[ModuleMutant]:
    """Another part of the same shape: a target network, an average of the weights, a critic."""
    for (path, part), (other, donor) in itertools.permutations(_stateful(module), 2):
        if _alike(path, part, other, donor):
            yield ModuleMutant(
                what=f"the artifact has the weights of {other!r} where the original has "
                f"those of {path!r}",
                hint=f"export {path!r}: {other!r} is another network of the same shape",
                where=path,
                applied=partial(_done, part.load_state_dict, _copies(donor.state_dict())),
            )


def _exchanged(module: nn.Module) -> Iterator[ModuleMutant]:
    pairs = itertools.combinations(module.named_parameters(), 2)
    for (one, first), (other, second) in pairs:
        if first.shape == second.shape:
            yield ModuleMutant(
                what=f"the artifact has the values of {one!r} and {other!r} swapped",
                hint="export again from the loaded module; external data files may be mixed up",
                where=one,
                applied=partial(_done, _exchange, first, second),
            )


def _no_bias(module: nn.Module) -> Iterator[ModuleMutant]:
    for path, parameter in module.named_parameters():
        if "bias" in path.rpartition(".")[2]:
            yield ModuleMutant(
                what=f"the artifact lacks {path!r}: the original with zeros there gives the same "
                "values",
                hint="export the layer with its bias",
                where=path,
                applied=partial(_done, parameter.data.zero_),
            )


def _parts(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    return ((path, part) for path, part in module.named_modules() if path)


def _stateful(module: nn.Module) -> list[tuple[str, nn.Module]]:
    return [(path, part) for path, part in _parts(module) if part.state_dict()]


def _alike(path: str, part: nn.Module, other: str, second: nn.Module) -> bool:
    """Whether two parts could hold each other's weights; neither is inside the other."""
    nested = other.startswith(f"{path}.") or path.startswith(f"{other}.")
    return not nested and _shapes(part.state_dict()) == _shapes(second.state_dict())


def _shapes(state: dict[str, Tensor]) -> list[tuple[str, torch.Size]]:
    return [(name, value.shape) for name, value in state.items()]


def _copies(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in state.items()}


def _same_shape(given: tuple[Any, ...], out: Any) -> Any:
    """What went in where that could stand for what came out; what came out otherwise."""
    if len(given) != 1 or not isinstance(given[0], Tensor) or not isinstance(out, Tensor):
        return out
    return given[0] if given[0].shape == out.shape else out


def _again(part: nn.Module, given: tuple[Any, ...], out: Any) -> Any:
    return out if _same_shape(given, out) is out else part.forward(out)


@contextmanager
def _hooked(part: nn.Module, hook: Callable[..., Any]) -> Iterator[None]:
    handle = part.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def _prepared(part: nn.Module, factor: float) -> Iterator[None]:
    handle = part.register_forward_pre_hook(lambda m, given: (given[0] * factor, *given[1:]))
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def _as_if(module: nn.Module, dtype: torch.dtype) -> Iterator[None]:
    with torch.no_grad():
        for each in (*module.parameters(), *module.buffers()):
            if each.is_floating_point():
                each.copy_(each.to(dtype))
    yield


@contextmanager
def _done(change: Callable[..., Any], *arguments: Any) -> Iterator[None]:
    with torch.no_grad():
        change(*arguments)
    yield


def _exchange_states(one: nn.Module, other: nn.Module) -> None:
    kept, given = _copies(one.state_dict()), _copies(other.state_dict())
    one.load_state_dict(given)
    other.load_state_dict(kept)


def _exchange(one: Tensor, other: Tensor) -> None:
    kept = one.clone()
    one.copy_(other)
    other.copy_(kept)
