"""One step of recurrent layers whose state is an argument."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from roadworthy.frameworks.network.actor import Tensors

Cell = nn.LSTM | nn.GRU
_CRITIC = "value_"


def names_of(cell: Cell, place: int = 0) -> tuple[str, ...]:
    """What its memory is called: `h` and `c`; with a number behind it where there are several."""
    letters = ("h", "c") if isinstance(cell, nn.LSTM) else ("h",)
    return tuple(f"{letter}{place or ''}" for letter in letters)


def start(cell: Cell, place: int = 0) -> Tensors:
    """The memory at the beginning of an episode, for one row."""
    size = (cell.num_layers, 1, cell.hidden_size)
    return {name: torch.zeros(size) for name in names_of(cell, place)}


def start_of_critic(cell: Cell) -> Tensors:
    """The memory of a critic's own recurrent layer: `value_h`, `value_c`."""
    return {f"{_CRITIC}{name}": value for name, value in start(cell).items()}


def stepped_critic(cell: Cell, value: Tensor, ports: Tensors) -> tuple[Tensor, Tensors]:
    """The same as `stepped`, with the memory of a critic."""
    own = {name: ports[f"{_CRITIC}{name}"] for name in names_of(cell)}
    out, after = stepped(cell, value, own)
    return out, {f"{_CRITIC}{name}": state for name, state in after.items()}


def stepped(cell: Cell, value: Tensor, ports: Tensors, place: int = 0) -> tuple[Tensor, Tensors]:
    """The output of one step, and the memory after it."""
    names = names_of(cell, place)
    before = tuple(ports[name] for name in names)
    out, after = cell(value.unsqueeze(0), before if len(names) > 1 else before[0])
    states = after if isinstance(after, tuple) else (after,)
    return out.squeeze(0), dict(zip(names, states, strict=True))
