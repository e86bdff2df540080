"""What everybody's code names and no call writes is left alone; what cannot be put back is told."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw
from roadworthy.capture.capture import capture
from roadworthy.inspection.snapshot import preserved
from tests.capture.state.ordinary import ORDINARY, Gait, Header
from tests.capture.state.wrong import Base
from tests.environment.robot import feedforward
from tests.environment.writing import InPlace

OBS = {"obs": torch.zeros(1, 4)}


@pytest.mark.parametrize("kind", ORDINARY, ids=lambda kind: kind.__name__)
def test_what_is_only_named_is_captured(kind: type[nn.Module]) -> None:
    assert capture(rw.Source(kind().eval(), example=OBS)).signature.memory == ()


@pytest.mark.parametrize("name", ["MatchesEnum", "NamesDefaultRng", "CtypesStructure"])
def test_what_is_only_named_is_certified(name: str, tmp_path: Path) -> None:
    kind = next(each for each in ORDINARY if each.__name__ == name)
    rw.export(kind().eval(), tmp_path / "b", example=OBS)
    rw.verify(tmp_path / "b").raise_if_failed()


class Terrain(enum.IntEnum):
    FLAT = 0
    ROUGH = 1


class NamesTerrain(InPlace):
    terrain = Terrain.ROUGH

    def compute_observations(self) -> Tensor:
        match self.terrain:
            case Terrain.ROUGH:
                return super().compute_observations() * (1.0 + Terrain.ROUGH)
            case _:
                return super().compute_observations()

    def process_actions(self, actions: Tensor) -> None:
        gain = Gait.TROT.gain if self.terrain is Terrain.ROUGH else 1.0
        super().process_actions(actions * gain)


def test_an_environment_that_names_an_enum_is_certified(tmp_path: Path) -> None:
    env = NamesTerrain()
    rw.export_environment(env, feedforward(env), tmp_path / "b")
    rw.verify(tmp_path / "b").raise_if_failed()


class CountsOnEnum(Base):
    """The class lets nobody reassign a member, and anybody add an attribute to one."""

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        member: Any = Gait.WALK
        member.calls = getattr(member, "calls", 0) + 1
        out: Tensor = y * member.calls
        return out


HEADER = Header(0.5)


class CountsInStructure(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        HEADER.gain += 1
        out: Tensor = y * HEADER.gain
        return out


class Locked(type):
    def __setattr__(cls, name: str, value: Any) -> None:
        if name != "calls":
            raise TypeError("a constant")
        super().__setattr__(name, value)


class Counts(metaclass=Locked):
    calls = 0
    gain = 2.0


class CountsOnLockedClass(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        Counts.calls += 1
        return y * Counts.calls * Counts.gain


@pytest.mark.parametrize("kind", [CountsOnEnum, CountsInStructure, CountsOnLockedClass])
def test_what_a_call_does_write_is_refused_and_put_back(kind: type[nn.Module]) -> None:
    with pytest.raises(rw.ExportError, match="a call writes it, and a later call reads it"):
        capture(rw.Source(kind(), example=OBS))
    assert (Counts.calls, HEADER.gain, hasattr(Gait.WALK, "calls")) == (0, 0.5, False)


class Growing(list[float]):
    """A list that only grows: what it took, nobody takes from it."""

    def note(self, value: float) -> None:
        list.append(self, value)

    def clear(self) -> None:
        raise TypeError("a log is never cleared")


class GrowsOnly(Base):
    def begin(self) -> None:
        self.log = Growing()

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        self.log.note(1.0)
        return y


def test_what_changed_and_cannot_be_put_back_is_a_finding_with_its_path() -> None:
    with pytest.raises(rw.ExportError) as caught:
        capture(rw.Source(GrowsOnly(), example=OBS))
    finding = caught.value.findings[0]
    assert (finding.code, finding.where) == ("RW112", "GrowsOnly.log")
    assert "does not let itself be put back as it was" in finding.what
    assert "declared: memory={…}" in finding.hint


def test_all_else_is_put_back_beside_what_cannot_be() -> None:
    module = GrowsOnly()
    weight = module.net.weight.detach().clone()

    def act() -> None:
        with preserved(module):
            module.net.weight.data.zero_()
            module.log.note(1.0)

    with pytest.raises(rw.ExportError, match=r"GrowsOnly\.log"):
        act()
    assert torch.equal(module.net.weight, weight)


def test_an_interrupt_is_no_finding() -> None:
    module = GrowsOnly()

    def act() -> None:
        with preserved(module):
            module.log.note(1.0)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        act()
