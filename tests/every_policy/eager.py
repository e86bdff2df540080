"""The recurrent policies of the registry, stepped by hand in plain PyTorch.

Written without Roadworthy: which axis is the batch, how memory starts and how a row is reset is
said here again, so that a mistake in the library cannot also be in the truth.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

# Case → the axis on which its memory holds the rows.
ROW_AXIS = {
    "lstm": 1, "lstm_pair": 1, "gru": 1, "fixed_batch_lstm": 1, "keeps_pair": 1,
    "own_cell": 0, "nonzero_memory": 0, "keeps_hidden": 0, "keeps_buffer": 0,
    "gru_two_layers": 1, "normalized_lstm": 1,
    "action_filter": 0, "window_transformer": 0, "integer_clock": 0,
}  # fmt: skip
START = {
    "lstm": lambda n: {"h": torch.zeros(1, n, 16), "c": torch.zeros(1, n, 16)},
    "lstm_pair": lambda n: {"state": (torch.zeros(2, n, 16), torch.zeros(2, n, 16))},
    "gru": lambda n: {"h": torch.zeros(1, n, 16)},
    "fixed_batch_lstm": lambda n: {"h": torch.zeros(2, n, 16), "c": torch.zeros(2, n, 16)},
    "own_cell": lambda n: {"trace": torch.zeros(n, 8), "last": torch.zeros(n, 3)},
    "nonzero_memory": lambda n: {
        "phase": torch.full((n, 1), 0.25),
        "pose": torch.tensor([[0.1, -0.7, 1.4]]).repeat(n, 1),
    },
    "keeps_hidden": lambda n: {"hidden": torch.zeros(n, 12)},
    "keeps_pair": lambda n: {"hidden_states": (torch.zeros(1, n, 12), torch.zeros(1, n, 12))},
    "keeps_buffer": lambda n: {"history": torch.zeros(n, 3, 6)},
    "gru_two_layers": lambda n: {"h": torch.zeros(2, n, 12)},
    "normalized_lstm": lambda n: {"h": torch.zeros(1, n, 16), "c": torch.zeros(1, n, 16)},
    "action_filter": lambda n: {"last": torch.zeros(n, 3)},
    "window_transformer": lambda n: {"window": torch.zeros(n, 4, 8)},
    "integer_clock": lambda n: {"tick": torch.zeros(n, 1, dtype=torch.int64)},
}


class Eager:
    """One recurrent module in evaluation, with `rows` rows of memory."""

    def __init__(self, case: str, module: nn.Module, rows: int) -> None:
        self.module = module.eval()
        self.case, self.rows = case, rows
        self.reset(torch.ones(rows, dtype=torch.bool))

    def reset(self, mask: Tensor) -> None:
        start = START[self.case](self.rows)
        if mask.all():
            self.memory = start
        else:
            axis = ROW_AXIS[self.case]
            self.memory = {k: _mixed(v, start[k], mask, axis) for k, v in self.memory.items()}
        if self.case.startswith("keeps"):
            for name, value in self.memory.items():
                setattr(self.module, name, value)

    @torch.no_grad()
    def step(self, obs: Tensor) -> Tensor:
        if self.case.startswith("keeps"):
            actions = self.module(obs)
            self.memory = {name: getattr(self.module, name) for name in self.memory}
            return actions
        result = self.module(obs, **self.memory)
        if isinstance(result, dict):
            self.memory = {name: result[name] for name in self.memory}
            return result["actions"]
        actions, *memory = result
        self.memory = dict(zip(self.memory, memory, strict=True))
        return actions


def _mixed(old: Any, new: Any, mask: Tensor, axis: int) -> Any:
    if isinstance(old, tuple):
        return tuple(_mixed(a, b, mask, axis) for a, b in zip(old, new, strict=True))
    shape = [1] * old.ndim
    shape[axis] = -1
    return torch.where(mask.reshape(shape), new, old)
