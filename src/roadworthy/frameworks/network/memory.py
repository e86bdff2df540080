"""One step of recurrent layers whose state is an argument."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from roadworthy.frameworks.network.actor import Tensors

Cell = nn.LSTM | nn.GRU
# What a cell hands to its next step: a GRU has the first alone.
STATES = ("h", "c")
# Before the names of what a critic remembers: `value_h`, `value_c`.
CRITIC = "value_"


def names_of(cell: Cell, place: int = 0, prefix: str = "") -> tuple[str, ...]:
    """What its memory is called: `h` and `c`; with a number behind it where there are several."""
    letters = STATES if isinstance(cell, nn.LSTM) else STATES[:1]
    return tuple(f"{prefix}{letter}{place or ''}" for letter in letters)


def start(cell: Cell | None, place: int = 0, prefix: str = "") -> Tensors:
    """The memory at the beginning of an episode, for one row; none without a recurrent layer."""
    if cell is None:
        return {}
    size = (cell.num_layers, 1, cell.hidden_size)
    return {name: torch.zeros(size) for name in names_of(cell, place, prefix)}


def stepped(
    cell: Cell | None, value: Tensor, ports: Tensors, place: int = 0, prefix: str = ""
) -> tuple[Tensor, Tensors]:
    """The output of one step, and the memory after it; the value itself without a layer."""
    if cell is None:
        return value, {}
    names = names_of(cell, place, prefix)
    before = tuple(ports[name] for name in names)
    out, after = cell(value.unsqueeze(0), before if len(names) > 1 else before[0])
    states = after if isinstance(after, tuple) else (after,)
    return out.squeeze(0), dict(zip(names, states, strict=True))
