"""The hints of refused policies are followed as they stand: each leads on, none in a circle.

A way ends with a policy that can be captured, or with a line of code to change. One that ends with
code is in `ENDS`, with what is said there: the rest of the list is captured.
"""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch
from torch import nn

import roadworthy as rw
from roadworthy.capture.capture import capture
from tests.acceptance import places, walkers
from tests.capture.state import world, wrong
from tests.styles.hints import Way, followed
from tests.tiers import representative

WALKERS = (
    walkers.CountsSteps, walkers.KeepsPhase, walkers.KeepsHidden, walkers.SmoothsInBuffer,
)  # fmt: skip
KINDS: dict[str, type[nn.Module]] = {
    each.__name__: each for each in (*places.PLACES, *wrong.CAUSES, *world.QUESTIONS, *WALKERS)
}
KEPT = ["CountsSteps", "KeepsHidden", "TurnsAPlan", "AttributeCounter", "Clock"]

# Policy → what is said where no keyword helps.
ENDS: dict[str, str] = {}


def source_of(kind: type[nn.Module], keywords: dict[str, Any]) -> rw.Source:
    torch.manual_seed(1)
    return rw.Source(kind(), **keywords)


@pytest.mark.parametrize("way", get_args(Way))
@pytest.mark.parametrize("name", representative(KINDS, KEPT))
def test_the_hints_of_a_wrong_policy_lead_on(name: str, way: Way) -> None:
    kind = KINDS[name]
    size = 6 if kind in WALKERS else 4
    keywords = {"example": {"obs": torch.zeros(1, size)}}
    tried, left = followed(lambda said: capture(source_of(kind, said)), keywords, way)
    assert tried or left is not None
    assert (left is not None) == (name in ENDS), f"{name} ends at: {left}"
    if left is not None:
        assert ENDS[name] in f"{left.code} {left.what}"
