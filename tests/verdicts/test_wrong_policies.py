"""Wrong policies in two variants each: none is certified, and each refusal names its cause.

The first variant of a policy is the bare class, the second the same deep inside another module,
behind an encoder of another size and seed. tests/capture/state has the first of its own classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw
from roadworthy.capture.capture import capture
from tests.capture.state import handed, world, wrong
from tests.verdicts import places

HIDING = (
    handed.NotWhenExporting, handed.Imported, handed.WithoutABranch, handed.OneLine,
    handed.AsksForFakes, handed.TriesABranch, handed.OnlyWhenCompiling, handed.ElseWhere,
)  # fmt: skip
MEMORY = torch.zeros(1, 8)


class Deep(nn.Module):
    """Another style: an encoder, the policy in a dict of modules, a dict of outputs."""

    def __init__(self, policy: nn.Module) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(9, 16), nn.ELU(), nn.Linear(16, 4))
        self.blocks = nn.ModuleDict({"policy": policy})

    def forward(self, robot: dict[str, Tensor]) -> dict[str, Tensor]:
        features = self.encoder(torch.cat([robot["joints"], robot["base"]], -1))
        return {"targets": self.blocks["policy"](features)}


def bare(kind: Callable[[], nn.Module]) -> rw.Source:
    torch.manual_seed(1)
    return rw.Source(kind(), example={"obs": torch.zeros(1, 4)})


def deep(kind: Callable[[], nn.Module]) -> rw.Source:
    torch.manual_seed(2)
    robot = {"joints": torch.zeros(1, 6), "base": torch.zeros(1, 3)}
    return rw.Source(Deep(kind()), example={"robot": robot})


def findings(source: rw.Source) -> tuple[rw.Finding, ...]:
    """Those of the capture, which nothing gets past: an export does it first."""
    with pytest.raises(rw.RoadworthyError) as caught:
        capture(source)
    return caught.value.findings


def told(found: tuple[rw.Finding, ...]) -> str:
    return " ".join(f"{each.where} {each.what}" for each in found)


@pytest.mark.parametrize("variant", [bare, deep])
@pytest.mark.parametrize("kind", places.PLACES, ids=lambda kind: kind.__name__)
def test_a_place_for_state_is_named(kind: type[nn.Module], variant: Any) -> None:
    code, name = places.PLACES[kind]
    found = findings(variant(kind))
    assert found[0].code in code
    assert name in told(found)


@pytest.mark.parametrize("kind", wrong.CAUSES, ids=lambda kind: kind.__name__)
def test_state_deep_inside_is_named(kind: type[nn.Module]) -> None:
    found = findings(deep(kind))
    assert found[0].code == "RW112"
    name = wrong.CAUSES[kind].removeprefix("wrong.")  # whose global it is, is a matter of taste
    inside = name.replace(f"{kind.__name__}.", "Deep.blocks.policy.", 1)
    assert name in told(found) or inside in told(found)


@pytest.mark.parametrize("kind", world.QUESTIONS, ids=lambda kind: kind.__name__)
def test_a_question_deep_inside_is_found_at_its_line(kind: type[nn.Module]) -> None:
    code, name = world.QUESTIONS[kind]
    found = findings(deep(kind))
    assert found[0].code == code
    assert name.replace(kind.__name__, "Deep.blocks.policy") in told(found)


@pytest.mark.parametrize("kind", HIDING, ids=lambda kind: kind.__name__)
def test_hiding_deep_inside_is_found_at_its_line(kind: type[nn.Module]) -> None:
    (finding, *_) = findings(deep(kind))
    assert finding.code == "RW126"
    assert finding.where.startswith("handed.py:")


def test_the_list_is_long_enough() -> None:
    distinct = {*places.PLACES, *wrong.CAUSES, *world.QUESTIONS, *HIDING}
    assert len(distinct) >= 60
    assert len(distinct) == len({each.__name__ for each in distinct})


@pytest.mark.parametrize("kind", [places.InC, places.InAnArray], ids=lambda kind: kind.__name__)
def test_what_c_code_counts_is_put_back(kind: type[nn.Module]) -> None:
    source = bare(kind)
    findings(source)
    held = source.module.count.value if kind is places.InC else source.module.tally[0]
    assert held == 0
