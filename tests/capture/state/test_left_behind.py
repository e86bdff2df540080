"""State outside of any attribute, with the rows of the call that left it: said to be that."""

from __future__ import annotations

import threading
import weakref
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw

SAID: ContextVar[Tensor | None] = ContextVar("SAID", default=None)
UNSAID: ContextVar[Tensor] = ContextVar("UNSAID")
LOCAL = threading.local()
BESIDE: weakref.WeakKeyDictionary[nn.Module, Tensor] = weakref.WeakKeyDictionary()


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(8, 2)

    def follow(self, obs: Tensor, last: Tensor | None) -> Tensor:
        last = torch.zeros_like(obs) if last is None else last
        action: Tensor = self.net(torch.cat([obs, last], dim=-1))
        return action


class InContext(Base):
    def forward(self, obs: Tensor) -> Tensor:
        last = SAID.get()
        SAID.set(obs)
        return self.follow(obs, last)


class InContextWithoutDefault(Base):
    """It fails before it writes: what the first call left stays for ever."""

    def forward(self, obs: Tensor) -> Tensor:
        action = self.follow(obs, UNSAID.get(None))
        UNSAID.set(obs)
        return action


class InThread(Base):
    def forward(self, obs: Tensor) -> Tensor:
        action = self.follow(obs, getattr(LOCAL, "last", None))
        LOCAL.last = obs
        return action


class Beside(Base):
    def forward(self, obs: Tensor) -> Tensor:
        action = self.follow(obs, BESIDE.get(self.net))
        BESIDE[self.net] = obs
        return action


class OnFunction(Base):
    def forward(self, obs: Tensor) -> Tensor:
        own: Any = OnFunction.forward
        action = self.follow(obs, getattr(own, "last", None))
        own.last = obs
        return action


class OnParameter(Base):
    def forward(self, obs: Tensor) -> Tensor:
        own: Any = self.net.weight
        action = self.follow(obs, getattr(own, "last", None))
        own.last = obs
        return action


class InDefault(Base):
    def forward(self, obs: Tensor, cache: dict[str, Tensor] = {}) -> Tensor:  # noqa: B006
        action = self.follow(obs, cache.get("last"))
        cache["last"] = obs
        return action


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        (InContext, "test_left_behind.SAID.get()"),
        (InContextWithoutDefault, "test_left_behind.UNSAID.get()"),
        (InThread, "test_left_behind.LOCAL.last"),
        (Beside, "test_left_behind.BESIDE"),
        (OnFunction, "OnFunction.forward.last"),
        (OnParameter, "OnParameter.net.weight.last"),
        (InDefault, "InDefault.forward.cache.last"),
    ],
)
def test_state_outside_of_attributes_is_named_and_not_blamed_on_the_example(
    kind: type[Base], where: str, tmp_path: Path
) -> None:
    with pytest.raises(rw.ExportError) as caught:
        rw.export(kind(), tmp_path / "b", example={"obs": torch.ones(1, 4)})
    finding = caught.value.findings[0]
    assert finding.code == "RW112"
    assert finding.where.startswith(where)
    assert "a call writes it, and a later call reads it" in finding.what
    assert "keep it in a tensor attribute with a batch axis, then declare it" in finding.hint


@pytest.mark.parametrize("kind", [InContext, InThread, Beside, OnFunction, OnParameter, InDefault])
def test_refused_export_leaves_nothing_behind(kind: type[Base], tmp_path: Path) -> None:
    """Who tries again with other rows must not meet what the first trial left."""
    for rows in (1, 2):
        with pytest.raises(rw.ExportError, match="a call writes it, and a later call reads it"):
            rw.export(kind(), tmp_path / "b", example={"obs": torch.ones(rows, 4)})


def test_module_that_wants_the_rows_of_its_example_is_not_said_to_have_state(
    tmp_path: Path,
) -> None:
    class Fixed(Base):
        def forward(self, obs: Tensor) -> Tensor:
            return self.follow(obs, torch.zeros(1, 4))

    with pytest.raises(rw.BatchSpecialised, match="RW101"):
        rw.export(Fixed(), tmp_path / "b", example={"obs": torch.ones(1, 4)})
