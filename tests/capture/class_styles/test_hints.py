"""A hint is a promise: applied as it stands, it leads on, and never in a circle."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import roadworthy as rw
from roadworthy.capture.analysis import ModuleAnalysis
from roadworthy.capture.export_mode import analysis_mode
from tests.capture.class_styles import states
from tests.capture.class_styles.classes import ACT, OBS, Flagged, RslActorCritic
from tests.capture.class_styles.hints import followed
from tests.tiers import representative


class Silent(RslActorCritic):
    def forward(self, observations: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        raise NotImplementedError


class Drawing(nn.Module):
    """Acts through a method that draws, unless it is told not to, and returns its value too."""

    def __init__(self) -> None:
        super().__init__()
        self.actor, self.critic = nn.Linear(OBS, ACT), nn.Linear(OBS, 1)
        self.average: torch.Tensor | None = None

    def act(
        self, obs: torch.Tensor, deterministic: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self.average = obs if self.average is None else 0.9 * self.average + 0.1 * obs
        mean = self.actor(obs - self.average)
        return mean if deterministic else torch.normal(mean, 0.1), self.critic(obs)


HIDDEN = {"hidden": torch.zeros(1, 8)}
FIRST = {"average": rw.Attribute("average", initial="first input")}
CASES: dict[str, tuple[type[nn.Module], dict[str, Any]]] = {
    "forward that raises": (Silent, {"example": {"observations": torch.zeros(1, OBS)}}),
    "forward that takes nothing": (
        RslActorCritic,
        {"example": {"observations": torch.zeros(1, OBS)}},
    ),
    "no forward, draws, two results": (Drawing, {}),
    "draws beside a memory": (Drawing, {"method": "act", "memory": FIRST}),
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


@pytest.mark.parametrize(
    "name", representative(CASES, ["int", "list", "tare", "no forward, draws, two results"])
)
def test_a_hint_that_is_followed_leads_to_an_export(name: str) -> None:
    make, described = CASES[name]
    module = make()

    def trial(keywords: dict[str, Any]) -> None:
        source = rw.Source(module, **keywords)
        with analysis_mode(source):
            ModuleAnalysis(source)

    tried, left = followed(trial, {"example": {"obs": torch.zeros(1, OBS)}, **described})
    assert left is None, f"it does not lead on: {left}"
    assert tried, "nothing was refused"
