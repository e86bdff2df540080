"""Recurrent policies whose state goes through the caller, and policies whose code hides."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor

from tests.capture.state.wrong import Base


class HiddenArgument(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRUCell(4, 8), nn.Linear(8, 2)

    def forward(self, obs: Tensor, hidden: Tensor | None = None) -> Any:
        if hidden is None:
            hidden = torch.zeros(obs.shape[0], 8)
        hidden = self.cell(obs, hidden)
        return self.head(hidden), hidden


class PairArgument(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.LSTMCell(4, 8), nn.Linear(8, 2)

    def forward(self, obs: Tensor, state: tuple[Tensor, Tensor] | None = None) -> Any:
        h, c = self.rnn(obs, state)
        return self.head(h), (h, c)


class OwnCell(nn.Module):
    """No cell of PyTorch's: the returned name says it."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.head = nn.Linear(12, 8), nn.Linear(8, 2)

    def forward(self, obs: Tensor, hidden: Tensor | None = None) -> Any:
        if hidden is None:
            hidden = torch.zeros(obs.shape[0], 8)
        new_hidden = torch.tanh(self.net(torch.cat([obs, hidden], -1)))
        return self.head(new_hidden), new_hidden


class PlainPorts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRUCell(4, 8), nn.Linear(8, 2)

    def forward(self, obs: Tensor, h_in: Tensor) -> Any:
        h = self.cell(obs, h_in)
        return {"actions": self.head(h), "h_out": h}


class Swapped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.LSTMCell(4, 8), nn.Linear(8, 2)

    def forward(self, obs: Tensor, h: Tensor, c: Tensor) -> Any:
        h, c = self.cell(obs, (h, c))
        y = self.head(h)
        return y, c, h


class SwappedNew(Swapped):
    def forward(self, obs: Tensor, h: Tensor, c: Tensor) -> Any:
        new_h, new_c = self.cell(obs, (h, c))
        return self.head(new_h), new_c, new_h


class SwappedPair(Swapped):
    def forward(self, obs: Tensor, state: Any) -> Any:  # type: ignore[override]
        h, c = state
        h, c = self.cell(obs, (h, c))
        return self.head(h), (c, h)


class InOrder(Swapped):
    def forward(self, obs: Tensor, h: Tensor, c: Tensor) -> Any:
        h_new, c_new = self.cell(obs, (h, c))
        return self.head(h_new), h_new, c_new


class Resets(Base):
    start = 1.0

    def begin(self) -> None:
        self.h = torch.zeros(1, 4)

    def reset(self, env_ids: Any = None) -> None:
        self.h = torch.full_like(self.h, self.start)

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.h = torch.tanh(self.h + y)
        return self.h


class ResetsToZero(Resets):
    start = 0.0


class NotWhenExporting(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        if not torch.compiler.is_exporting():
            y = torch.where((obs > 150).any(), y * 0, y)
        return y


class Imported(Base):
    """Looks for itself."""

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        if not torch.compiler._is_exporting_flag:
            y = torch.where((obs > 150).any(), y * 0, y)
        return y


class WithoutABranch(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * (1 - int(torch.compiler.is_exporting()))


class OneLine(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return torch.where(obs > 150, y * 0, y) if type(obs) is Tensor and obs.ndim else y


class AsksForFakes(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        if isinstance(obs, FakeTensor):
            return y
        return torch.where(obs > 150, y * 0, y)


class TriesABranch(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        try:
            if obs.abs().max() > 150:
                return y * 0
        except Exception:
            pass
        return y


class OnlyWhenCompiling(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        if torch.compiler.is_compiling():
            y = y + 0
        return y


class ElseWhere(Base):
    """Another function altogether."""

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return self.safe(y) if torch.compiler.is_exporting() else self.guarded(y, obs)

    def safe(self, y: Tensor) -> Tensor:
        return y

    def guarded(self, y: Tensor, obs: Tensor) -> Tensor:
        return torch.where(obs > 150, y * 0, y)
