"""Memory need not be the last thing returned: its successor is said by its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import roadworthy as rw
from roadworthy.capture.results import split_result
from roadworthy.capture.stages import declared_slots
from tests.capture.class_styles.classes import OBS
from tests.capture.class_styles.states import InADict, Named, StateFirst, Step
from tests.tiers import representative

ZEROS = torch.zeros(1, 8)
PLACES: dict[str, tuple[Callable[[], nn.Module], Any, list[str]]] = {
    "position": (StateFirst, 0, ["actions"]),
    "from the end": (StateFirst, -2, ["actions"]),
    "field": (Named, "carry", ["actions", "value"]),
    "position in a named tuple": (Named, 1, ["actions", "value"]),
    "inside of a dict": (InADict, ("info", "rnn"), ["info.value", "mu"]),
}


@pytest.mark.parametrize("name", representative(PLACES, ["position"]))
def test_the_successor_is_taken_from_its_place(name: str, tmp_path: Path) -> None:
    make, place, outputs = PLACES[name]
    module = make()
    memory = {"hidden": rw.Argument(ZEROS, returned=place)}
    bundle = rw.export(module, tmp_path / "b", example={"obs": torch.zeros(1, OBS)}, memory=memory)
    assert [port.name for port in bundle.signature.outputs] == outputs
    assert [each.name for each in bundle.signature.memory] == ["hidden"]
    rw.verify(tmp_path / "b", against=module).raise_if_failed()


def test_several_places_are_taken_out_together() -> None:
    source = rw.Source(
        StateFirst(),
        example={"obs": torch.zeros(1, OBS)},
        memory={"h": rw.Argument(ZEROS, returned=0), "c": rw.Argument(ZEROS, returned=2)},
    )
    slots, _ = declared_slots(source)
    h, action, c = torch.ones(1, 8), torch.zeros(1, 3), torch.full((1, 8), 2.0)
    rest, persisted = split_result((h, action, c), slots)
    assert rest is action
    assert persisted["h"] is h
    assert persisted["c"] is c


def test_a_field_of_its_own_name_is_found_in_a_named_tuple() -> None:
    source = rw.Source(StateFirst(), example={"obs": torch.zeros(1, OBS)}, memory={"carry": ZEROS})
    slots, _ = declared_slots(source)
    result = Step(torch.zeros(1, 3), torch.ones(1, 8), torch.zeros(1, 1))
    rest, persisted = split_result(result, slots)
    assert list(rest) == ["actions", "value"]
    assert persisted["carry"] is result.carry


def test_a_place_that_is_not_there_is_said() -> None:
    source = rw.Source(
        StateFirst(),
        example={"obs": torch.zeros(1, OBS)},
        memory={"hidden": rw.Argument(ZEROS, returned="rnn")},
    )
    slots, _ = declared_slots(source)
    with pytest.raises(rw.UsageError, match="returned='rnn' is not among the results"):
        split_result({"mu": ZEROS, "state": ZEROS}, slots)


class Delay(nn.Module):
    """The action is what was remembered, as it came in: what is remembered next stands behind."""

    def forward(self, obs: torch.Tensor, before: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return before, obs


def test_memory_that_is_handed_out_as_it_came_is_not_its_successor(tmp_path: Path) -> None:
    example, memory = {"obs": torch.zeros(1, 3)}, {"before": torch.zeros(1, 3)}
    rw.export(Delay(), tmp_path / "b", example=example, memory=memory)
    policy = rw.load(tmp_path / "b")
    given = [torch.full((3,), float(step)).numpy() for step in (1, 2, 3)]
    assert [policy.act(obs)[0] for obs in given] == [0, 1, 2]


class Written(nn.Module):
    """Writes into its memory by a view, or in a helper, and returns something else at the end."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.read, self.act, self.way = nn.Linear(3, 4), nn.Linear(4, 2), way

    def move(self, kept: torch.Tensor, new: torch.Tensor) -> None:
        kept.copy_(new)

    def forward(self, obs: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, ...]:
        new = torch.tanh(self.read(obs) + 0.5 * h)
        if self.way == "view":
            h[:].copy_(new)
        elif self.way == "helper":
            self.move(h, new)
        else:
            h.view(-1, 4).mul_(0.0).add_(new)
        return self.act(new), h, torch.relu(new) * 0.5


@pytest.mark.parametrize("way", ["view", "helper", "chain"])
def test_memory_that_is_written_into_and_stands_elsewhere_is_asked_about(
    way: str, tmp_path: Path
) -> None:
    example, memory = {"obs": torch.randn(1, 3)}, {"h": torch.zeros(1, 4)}
    names = ("actions", "extra")
    with pytest.raises(rw.UsageError, match="returns the next 'h' as number 1 of 3"):
        rw.export(Written(way), tmp_path / "b", example=example, memory=memory, outputs=names)
