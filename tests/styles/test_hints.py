"""A hint is a promise: applied as it stands, it leads on, and never in a circle."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import nn

import roadworthy as rw
from roadworthy.capture.analysis import ModuleAnalysis
from roadworthy.capture.export_mode import export_mode
from tests.styles import states
from tests.styles.classes import OBS, Flagged, RslActorCritic
from tests.tiers import representative

KEYWORD = re.compile(r"\b(memory|method|constants|outputs)=")


class Silent(RslActorCritic):
    def forward(self, observations: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        raise NotImplementedError


HIDDEN = {"hidden": torch.zeros(1, 8)}
CASES: dict[str, tuple[type[nn.Module], dict[str, Any]]] = {
    "forward that raises": (Silent, {"example": {"observations": torch.zeros(1, OBS)}}),
    "forward that takes nothing": (
        RslActorCritic,
        {"example": {"observations": torch.zeros(1, OBS)}},
    ),
    "flags in the example": (
        Flagged,
        {"example": {"observation": torch.zeros(1, OBS), "deterministic": True, "mask": None}},
    ),
    "int": (states.Counting, {}),
    "float": (states.Phase, {}),
    "scalar tensor": (states.ScalarTensor, {}),
    "list": (states.Frames, {}),
    "deque": (states.Queue, {}),
    "dict": (states.Keyed, {}),
    "nested": (states.Nested, {}),
    "ring": (states.Ring, {}),
    "no batch axis": (states.Rowless, {}),
    "first history": (states.FirstHistory, {}),
    "first deque": (states.FirstQueue, {}),
    "average": (states.Average, {}),
    "tare": (states.Tared, {}),
    "plan": (states.Ensembled, {}),
    "declared, not as it starts": (states.Average, {"memory": {"ema": "ema"}}),
    "state before the action": (states.StateFirst, {"memory": HIDDEN}),
    "carry in a named tuple": (states.Named, {"memory": HIDDEN}),
}


def said(hint: str) -> dict[str, Any]:
    """The keywords that a hint says, as Python reads them."""
    found: dict[str, Any] = {}
    for match in KEYWORD.finditer(hint):
        text = hint[match.end() :]
        for end in range(len(text), 0, -1):
            try:
                found[match[1]] = eval(text[:end], {"rw": rw, "torch": torch})
                break
            except (SyntaxError, NameError):
                continue
    return found


@pytest.mark.parametrize("name", representative(CASES, ["int", "list", "tare"]))
def test_a_hint_that_is_followed_leads_on(name: str) -> None:
    make, keywords = CASES[name]
    module = make()
    keywords = {"example": {"obs": torch.zeros(1, OBS)}, **keywords}
    tried: list[str] = []
    while True:
        try:
            source = rw.Source(module, **keywords)
            with export_mode(source):
                ModuleAnalysis(source)
            break
        except rw.RoadworthyError as error:
            refusal = error.findings[0]
            more = said(refusal.hint)
            if refusal.hint in tried or not more:
                pytest.fail(f"it does not lead on: {refusal}")
            tried.append(refusal.hint)
            for key, value in more.items():
                old = keywords.get(key)
                keywords[key] = {**old, **value} if isinstance(old, dict) else value
            for constant in keywords.get("constants", {}):
                keywords["example"].pop(constant, None)
    assert tried, "nothing was refused"
