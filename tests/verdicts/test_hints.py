"""The hints of refused policies are followed as they stand: each leads on, none in a circle.

A way ends with a policy that can be captured, or with something to change in the code.
"""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch
from torch import nn

import roadworthy as rw
from roadworthy.capture.capture import capture
from tests.capture.class_styles.hints import Way, followed
from tests.capture.state import world, wrong
from tests.tiers import representative
from tests.verdicts import places, walkers

WALKERS = (
    walkers.CountsSteps, walkers.KeepsPhase, walkers.KeepsHidden, walkers.SmoothsInBuffer,
)  # fmt: skip
# Blinking follows a clock so fast that what it comes to, once that is ignored, is chance.
KINDS: dict[str, type[nn.Module]] = {
    each.__name__: each
    for each in (*places.PLACES, *wrong.CAUSES, *world.QUESTIONS, *WALKERS)
    if each is not world.Blinking
}
KEPT = ["CountsSteps", "KeepsHidden", "TurnsAPlan", "AttributeCounter", "Clock"]
# What is said at last where no keyword helps, and the code has to change.
IN_CODE = {
    "RW103": "a branch, or a number that Python reads",
    "RW104": "what torch.export cannot follow: attributes of a weight, a module in itself",
    "RW111": "numbers that are drawn",
    "RW112": "what is ignored, and matters at once",
    "RW118": "a write through .data",
    "RW125": "what only NumPy knows",
}
# Whose author hears no more than that from torch.export, once the state is said not to matter.
UNFOLLOWED = ("TensorAttribute", "Toggled")


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
    assert tried or left is not None, "nothing was refused"
    assert left is None or left.code in IN_CODE, f"it ends at {left}"
    assert left is None or left.code != "RW104" or name in UNFOLLOWED, f"it ends at {left}"
    assert left is None or way == "ignore" or name not in KEPT, f"it ends at {left}"
