"""A state at which an artifact looks wrong is measured before it is judged."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from roadworthy.spec.port import Array
from roadworthy.spec.run import Arrays
from roadworthy.spec.signature import Signature
from roadworthy.verification.judging import Judge
from roadworthy.verification.originals.original import NoYardstick, TurningErrors
from roadworthy.verification.states import StateLayout, States

SIGNATURE = {
    "inputs": [{"name": "obs", "dtype": "float32", "shape": ["batch", 1]}],
    "outputs": [{"name": "actions", "dtype": "float32", "shape": ["batch", 1]}],
    "memory": [],
    "action": None,
    "period_s": None,
    "decimation": 1,
}
# Not one of the states that are measured at first, evenly spread.
ODD = 37


class Saturated:
    """A policy that rounds at one state alone: everywhere else a unit is saturated."""

    inexact, turning, smooth = "", False, True
    quantities: frozenset[str] = frozenset()

    def __init__(self, *, rows: int | None = None) -> None:
        self.rows = rows

    def rounded(self, inputs: Mapping[str, Array], memory: Mapping[str, Array]) -> Arrays:
        if self.rows is not None and len(inputs["obs"]) == self.rows:
            raise NoYardstick
        return {"actions": np.ones_like(inputs["obs"])}

    def shaken(
        self, inputs: Mapping[str, Array], memory: Mapping[str, Array], *, ulps: int, seed: int
    ) -> Arrays:
        return {"actions": 1 + np.float32(1e-4) * (inputs["obs"] > 0.5)}

    def turned(
        self,
        inputs: Mapping[str, Array],
        memory: Mapping[str, Array],
        *,
        ulps: int,
        seed: int,
        errors: TurningErrors | None = None,
    ) -> Arrays:
        return self.rounded(inputs, memory)

    def turning_errors(self, inputs: Mapping[str, Array], memory: Mapping[str, Array]) -> None:
        pass

    def exact(self, inputs: Mapping[str, Array], memory: Mapping[str, Array]) -> Arrays:
        return {"actions": np.ones(inputs["obs"].shape)}

    def work(self, inputs: Mapping[str, Array], memory: Mapping[str, Array]) -> int:
        return 1 << 40


@pytest.mark.parametrize(
    ("off", "rows", "wrong"), [(1e-3, None, False), (1e-2, None, True), (1e-3, 1, True)]
)
def test_a_doubt_is_measured_where_it_can_be(off: float, rows: int | None, wrong: bool) -> None:
    obs = np.zeros((100, 1), np.float32)
    obs[ODD] = 1
    original = {"actions": np.ones((100, 1), np.float32)}
    signature = Signature.from_json(SIGNATURE)
    yardstick = Saturated(rows=rows)
    judge = Judge.at(yardstick, StateLayout(signature), States({"obs": obs}, {}), original, 0)
    assert ODD not in judge.places
    got = {"actions": original["actions"].copy()}
    got["actions"][ODD] += off
    assert judge.judged(got)["actions"].failing[ODD] == wrong
    assert judge.judged(got)["actions"].failing.sum() == wrong
