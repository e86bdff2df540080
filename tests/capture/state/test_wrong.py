"""What a call leaves behind and a later call reads is refused by name, however late it shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import roadworthy as rw
from tests.capture.state import world, wrong

OBS = {"obs": torch.zeros(1, 4)}
CALLS = [0]


def refusal(module: nn.Module, folder: Path, **keywords: Any) -> tuple[rw.Finding, ...]:
    with pytest.raises(rw.ExportError) as caught:
        rw.export(module, folder / "bundle", **({"example": OBS} | keywords))
    assert not (folder / "bundle").exists()
    return caught.value.findings


@pytest.mark.parametrize("kind", wrong.CAUSES, ids=lambda kind: kind.__name__)
def test_state_is_refused_and_named(kind: type[nn.Module], tmp_path: Path) -> None:
    found = refusal(kind(), tmp_path)
    assert found[0].code == "RW112"
    assert wrong.CAUSES[kind] in " ".join(each.where for each in found)
    assert "a later call reads it" in found[0].what
    assert "ignore=[" in found[0].hint


@pytest.mark.parametrize("kind", world.QUESTIONS, ids=lambda kind: kind.__name__)
def test_what_is_asked_of_the_world_is_refused_at_its_line(
    kind: type[nn.Module], tmp_path: Path
) -> None:
    code, what = world.QUESTIONS[kind]
    finding = refusal(kind(), tmp_path)[0]
    assert finding.code == code
    assert what in f"{finding.what} {finding.where}"
    assert finding.where.startswith(("world.py:", kind.__name__))


class OfOneCall(wrong.Base):
    """Another policy from a certain call on."""

    def __init__(self, call: int) -> None:
        super().__init__()
        self.call = call
        CALLS[0] = 0

    def act(self, y: torch.Tensor, obs: torch.Tensor) -> torch.Tensor:
        CALLS[0] += 1
        return y if CALLS[0] < self.call else y * 0


@pytest.mark.parametrize("call", range(1, 13))
def test_what_changes_in_the_midst_of_the_experiments_is_not_called_random(
    call: int, tmp_path: Path
) -> None:
    found = refusal(OfOneCall(call), tmp_path)
    assert {each.code for each in found} == {"RW112"}
    assert "test_wrong.CALLS[0]" in found[0].where


@pytest.mark.parametrize(
    "kind",
    [wrong.AttributeCounter, wrong.BufferCounter, wrong.GlobalCounter, wrong.ClosureCounter,
     wrong.ListInTuple, wrong.NextOfCount, world.Clock, world.RandomRarely],
)  # fmt: skip
def test_what_the_hint_says_to_ignore_is_ignored_and_written_down(
    kind: type[nn.Module], tmp_path: Path
) -> None:
    finding = refusal(kind(), tmp_path)[0]
    match = re.search(r"ignore=\['(.+)'\]", finding.hint)
    assert match is not None
    module = kind()
    bundle = rw.export(module, tmp_path / "bundle", example=OBS, ignore=[match[1]])
    assert bundle.manifest["recipe"]["ignore"] == [match[1]]
    assert rw.verify(tmp_path / "bundle", against=module).passed


@pytest.mark.parametrize("kind", [wrong.ReboundTensor, wrong.Latch, wrong.Peak])
def test_what_the_hint_says_to_declare_can_be_declared(
    kind: type[nn.Module], tmp_path: Path
) -> None:
    finding = refusal(kind(), tmp_path)[0]
    match = re.match(r"declare what persists: memory=\{'(.+)': '(.+)'\};", finding.hint)
    assert match is not None
    memory = {match[1]: rw.Attribute(match[2], initial="current")}
    bundle = rw.export(kind(), tmp_path / "bundle", example=OBS, memory=memory)
    assert [each.name for each in bundle.signature.memory] == [match[1]]


def test_a_tensor_without_rows_can_be_declared(tmp_path: Path) -> None:
    (finding,) = refusal(wrong.BufferCounter(), tmp_path)
    assert finding.hint.startswith("declare what persists: memory={'steps': 'steps'}")


def test_a_counter_that_clears_declared_memory(tmp_path: Path) -> None:
    memory = {"h": "h"}
    (finding,) = refusal(wrong.ClearsMemory(), tmp_path, memory=memory)
    assert (finding.code, finding.where) == ("RW112", "ClearsMemory.steps")
    (finding,) = refusal(wrong.ClearsByTensor(), tmp_path, memory=memory)
    assert (finding.code, finding.where) == ("RW112", "ClearsByTensor.steps")


def test_two_states_are_told_at_once(tmp_path: Path) -> None:
    found = refusal(wrong.TwoStates(), tmp_path)
    assert {each.where for each in found} == {"TwoStates.steps", "TwoStates.peak"}


def test_what_is_ignored_and_matters_at_once_is_refused_still(tmp_path: Path) -> None:
    (finding, *_) = refusal(wrong.AtOnce(), tmp_path, ignore=["steps"])
    assert finding.code == "RW112"
    assert finding.what.endswith(": what is ignored matters: steps")


def test_one_name_may_be_given_as_text(tmp_path: Path) -> None:
    bundle = rw.export(wrong.AttributeCounter(), tmp_path / "b", example=OBS, ignore="steps")
    assert bundle.manifest["recipe"]["ignore"] == ["steps"]


def test_what_was_watched_is_put_back(tmp_path: Path) -> None:
    module = wrong.DefaultOne()
    refusal(module, tmp_path)
    assert module.past == {}
    for kind in (wrong.GlobalCounter, wrong.GlobalDict, wrong.GlobalList, wrong.OtherClass):
        refusal(kind(), tmp_path)
        refusal(kind(), tmp_path)
    assert type(wrong.COUNT) is type(wrong.Registry.calls) is int
