"""Nothing that moves is frozen, however late; nothing that stands still is refused."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import roadworthy as rw
from roadworthy import export_environment
from roadworthy.environment import Input, Memory
from roadworthy.errors import RoadworthyError
from tests.environment import late_changes
from tests.environment.harmless import RIGHT
from tests.environment.mistakes import Sound
from tests.environment.robot import feedforward


def refused(env: Sound, folder: Path) -> rw.Finding:
    with pytest.raises(RoadworthyError) as caught:
        export_environment(env, feedforward(env), folder / "bundle")
    assert list(folder.iterdir()) == []
    return caught.value.findings[0]


# Each lives as long as the numbers in its code ask for: the others are for `make test-all`.
QUICKLY = (
    "ForgottenDecimation", "TwoForFour", "LateTerm", "RareCommand", "LatchNumber", "AirTimeAsInput",
    "StandingWorld", "IdleReset", "Clock", "OwnGenerator",
)  # fmt: skip


def in_turn(kinds: Iterable[type[Sound]], quickly: tuple[str, ...]) -> list[Any]:
    return [
        pytest.param(each, marks=() if each.__name__ in quickly else pytest.mark.slow)
        for each in kinds
    ]


@pytest.mark.parametrize(
    "kind", in_turn(late_changes.WRONG, QUICKLY), ids=lambda kind: kind.__name__
)
def test_a_wrong_environment_is_refused_with_its_cause(kind: type[Sound], tmp_path: Path) -> None:
    code, where = late_changes.WRONG[kind]
    finding = refused(kind(), tmp_path)
    assert finding.code == code
    assert where in finding.where


@pytest.mark.parametrize("kind", RIGHT, ids=lambda kind: kind.__name__)
def test_a_right_environment_is_exported(kind: type[Sound], tmp_path: Path) -> None:
    env = kind()
    bundle = export_environment(env, feedforward(env), tmp_path / "bundle")
    assert bundle.certificate.passed


@pytest.mark.parametrize(
    "kind",
    [late_changes.ForgottenAirTime, late_changes.ForgottenAirTimeRebound, late_changes.LongDelay],
    ids=lambda kind: kind.__name__,
)
def test_the_line_of_the_hint_leads_to_a_certified_export(
    kind: type[Sound], tmp_path: Path
) -> None:
    env = kind()
    hint = refused(env, tmp_path).hint
    assert "Memory(" in hint
    exec(hint, {"env": env, "Input": Input, "Memory": Memory})
    assert export_environment(env, feedforward(env), tmp_path / "bundle").certificate.passed


def test_the_ticks_that_were_declared_and_those_that_were_seen_are_told(tmp_path: Path) -> None:
    finding = refused(late_changes.TwoForFour(), tmp_path)
    assert "expected 2 calls of apply_actions, got 4" in finding.what
    assert finding.hint == "say in TwoForFour how many ticks a step has: decimation = 4"


class Unfollowed(late_changes.Endless):
    """A step that applies the actions by code of its own, and numbers beyond every run."""

    def step(self, actions: late_changes.Tensor) -> tuple[late_changes.Tensor, bool]:
        self.process_actions(actions)
        self.env.command[:] = 2.0 * self.env.last
        self.age += 1
        if self.age > 50_000:
            self.age = 0
        self.world()
        return self.compute_observations(), False


def test_the_certificate_says_what_was_not_followed_and_not_reached(tmp_path: Path) -> None:
    env = Unfollowed()
    export_environment(env, feedforward(env), tmp_path / "bundle")
    said = json.loads((tmp_path / "bundle" / "certificate.json").read_text())
    (check,) = [each for each in said["checks"] if each["name"] == "free run"]
    assert "step() does not show its ticks" in check["claim"]
    assert "not reached: what happens after 50000 steps" in check["claim"]
