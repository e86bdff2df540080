"""State that goes through the caller is asked about; code that hides from the capture is found."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import roadworthy as rw
from roadworthy.capture.capture import capture
from tests.capture.state import handed

OBS = {"obs": torch.zeros(1, 4)}
Z = torch.zeros(1, 8)


def refusal(module: nn.Module, **description: Any) -> rw.Finding:
    with pytest.raises(rw.RoadworthyError) as caught:
        capture(rw.Source(module, **({"example": OBS} | description)))
    return caught.value.findings[0]


@pytest.mark.parametrize("outputs", [None, ("actions", None), ("actions", "next")])
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (handed.HiddenArgument, "memory={'hidden': torch.zeros(1, 8)}"),
        (handed.OwnCell, "memory={'hidden': torch.zeros(1, 8)}"),
    ],
)
def test_an_optional_argument_that_returns_leads_to_memory(
    kind: type[nn.Module], said: str, outputs: Any, tmp_path: Path
) -> None:
    finding = refusal(kind(), outputs=outputs)
    assert finding.code == "RW107"
    assert finding.hint.startswith(said)
    assert "is this what persists between steps?" in finding.what


@pytest.mark.parametrize("kind", [handed.HiddenArgument, handed.PairArgument, handed.OwnCell])
def test_the_hint_of_a_returned_twin_leads_on(kind: type[nn.Module], tmp_path: Path) -> None:
    module = kind()
    match = re.match(r"memory=(\{.*\});", refusal(module).hint)
    assert match is not None
    memory = eval(match[1], {"torch": torch})
    bundle = rw.export(module, tmp_path / "bundle", example=OBS, memory=memory)
    assert bundle.signature.memory
    policy, state = rw.load(tmp_path / "bundle"), None
    for _ in range(3):
        obs = torch.randn(1, 4)
        action, state = module(obs, state)
        torch.testing.assert_close(torch.from_numpy(policy.act(obs.numpy())), action.detach())


def test_a_twin_that_does_not_matter_may_be_ignored() -> None:
    source = rw.Source(
        handed.HiddenArgument(), example=OBS, outputs=("actions", None), ignore=["hidden"]
    )
    assert capture(source).signature.memory == ()


def test_plain_ports_of_a_recurrent_module_are_asked_about() -> None:
    example = OBS | {"h_in": Z}
    finding = refusal(handed.PlainPorts(), example=example)
    assert (finding.code, finding.where) == ("RW107", "PlainPorts: h_in → h_out")
    assert finding.hint.startswith("memory={'h_in': torch.zeros(1, 8)} beside example={'obs': …}")
    source = rw.Source(handed.PlainPorts(), example=example, ignore=["h_in"])
    assert len(capture(source).signature.inputs) == 2


@pytest.mark.parametrize("kind", [handed.Swapped, handed.SwappedNew])
def test_memory_that_returns_in_another_order_is_refused(kind: type[nn.Module]) -> None:
    finding = refusal(kind(), memory={"h": Z, "c": Z})
    assert finding.code == "RW107"
    assert "each would be fed back as the other" in finding.what
    assert "memory={'c': …, 'h': …}" in finding.hint
    made = capture(rw.Source(kind(), example=OBS, memory={"c": Z, "h": Z}))
    assert [each.name for each in made.signature.memory] == ["c", "h"]


def test_a_pair_that_returns_in_another_order_is_refused() -> None:
    assert refusal(handed.SwappedPair(), memory={"state": (Z, Z)}).code == "RW107"


def test_memory_in_order_is_captured() -> None:
    made = capture(rw.Source(handed.InOrder(), example=OBS, memory={"h": Z, "c": Z}))
    assert len(made.signature.memory) == 2


def test_a_reset_that_leads_elsewhere_is_named() -> None:
    finding = refusal(handed.Resets(), memory={"h": "h"})
    assert (finding.code, finding.where) == ("RW114", "Resets.h")
    assert finding.what == "reset() sets it to 1; the declared memory starts at 0"
    assert finding.hint.endswith("memory={'h': rw.Attribute('h', initial=1)}")
    module = handed.Resets()
    module.reset()
    said = {"h": rw.Attribute("h", initial=1)}
    assert capture(rw.Source(module, example=OBS, memory=said)).signature.memory[0].initial == 1
    assert capture(rw.Source(handed.ResetsToZero(), example=OBS, memory={"h": "h"})).signature


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (handed.NotWhenExporting, "if not torch.compiler.is_exporting():"),
        (handed.Imported, "y = torch.where((obs > 150).any(), y * 0, y)"),
        (handed.WithoutABranch, "return y * (1 - int(torch.compiler.is_exporting()))"),
        (handed.OneLine, "return torch.where(obs > 150, y * 0, y) if type(obs) is Tensor"),
        (handed.AsksForFakes, "return y)"),
        (handed.TriesABranch, "if obs.abs().max() > 150:"),
        (handed.OnlyWhenCompiling, "if torch.compiler.is_compiling():"),
        (handed.ElseWhere, "self.safe(y) if torch.compiler.is_exporting()"),
    ],
)
def test_code_that_hides_from_the_capture_is_found_at_its_line(
    kind: type[nn.Module], code: str
) -> None:
    finding = refusal(kind())
    assert finding.code == "RW126"
    assert finding.where.startswith("handed.py:")
    assert code in finding.where
