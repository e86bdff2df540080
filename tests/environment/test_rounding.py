"""What rounding does is measured for whole environments too, at both of their rates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import roadworthy as rw
from roadworthy.environment import Memory
from roadworthy.environment.capture import capture_environment
from roadworthy.environment.source import EnvironmentSource
from roadworthy.spec.run import Inner
from tests.environment import robots
from tests.environment.environments import ENVIRONMENTS, plain
from tests.environment.test_simulator_habits import Cart, actor


class FourAtTwoRates(robots.FourRobots):
    decimation = 2


class Strongest(robots.Pd):
    """Observes a share of the largest, as a quaternion is taken out of a matrix."""

    def compute_observations(self) -> torch.Tensor:
        seen = super().compute_observations()
        return seen / (1.0 + seen.abs().amax(dim=-1, keepdim=True))


def test_a_maximum_that_only_one_half_takes_is_no_choice() -> None:
    original = capture_environment(EnvironmentSource(*plain(Strongest)))
    signature = original.program.signature
    yardstick = original.yardstick(signature)
    inputs = {each.name: np.ones((1, 2), np.float32) for each in signature.inputs}
    memory = {each.name: np.ones((1, 2), np.float32) for each in signature.memory}
    found = [
        yardstick.rounded(inputs, memory | {signature.clock: np.array(tick, np.int32)})
        for tick in (0, 1)
    ]
    assert found[0].keys() == found[1].keys()


@pytest.mark.parametrize("name", ["pd_four_ticks", "four_robots", "lstm"])
def test_an_environment_is_judged_by_its_own_rounding(name: str, tmp_path: Path) -> None:
    env, actor = ENVIRONMENTS[name]()
    bundle = rw.export_environment(env, actor, tmp_path / "b")
    facts = {each.name: each.facts for each in bundle.certificate.checks}
    assert facts["replay"]["measured"]
    assert facts["fresh steps"]["float64"]
    assert max(facts["fresh steps"]["roundings"].values()) < 5


def test_each_row_goes_through_the_graph_that_its_clock_asks_for() -> None:
    original = capture_environment(EnvironmentSource(*plain(FourAtTwoRates)))
    signature, rng = original.program.signature, np.random.default_rng(0)
    yardstick = original.yardstick(signature)
    inputs = {
        each.name: rng.standard_normal((4, 2)).astype(np.float32) for each in signature.inputs
    }
    memory = {
        each.name: rng.standard_normal((4, 2)).astype(np.float32) for each in signature.memory
    }

    def at(*ticks: int) -> dict[str, np.ndarray]:
        clock = {signature.clock: np.array(ticks, np.int32)}
        return dict(yardstick.rounded(inputs, memory | clock))

    mixed, deciding, applying = at(0, 1, 1, 0), at(0, 0, 0, 0), at(1, 1, 1, 1)
    last = Inner("memory", "last")
    assert not np.array_equal(deciding[last], applying[last])
    for name, value in mixed.items():
        expected = np.where([[True], [False], [False], [True]], deciding[name], applying[name])
        assert np.allclose(value, expected if value.ndim > 1 else [1, 0, 0, 1], atol=1e-6), name


class Chaotic(Cart):
    """A pattern generator of which the next step is never quite what rounding makes of it."""

    def register(self) -> None:
        super().register()
        self.phase = torch.full((1, 1), 0.3)
        self.context_manager().add_component(Memory("phase", lambda: self.phase))

    def compute_observations(self) -> torch.Tensor:
        return torch.cat([self.phase, self.velocity + self.position], dim=1)

    def process_actions(self, actions: torch.Tensor) -> None:
        self.action[:] = actions
        self.phase[:] = torch.sin(31.0 * torch.tanh(self.phase + 0.1 * actions) + 0.7)

    def observations_reset(self) -> torch.Tensor:
        self.phase.fill_(0.3)
        return super().observations_reset()


def test_a_free_run_may_depart_as_far_as_the_environments_own_twins(tmp_path: Path) -> None:
    bundle = rw.export_environment(Chaotic(), actor(), tmp_path / "b")
    (free,) = [each for each in bundle.certificate.checks if each.name == "free run"]
    assert free.facts["measured"]
    assert max(each.absolute for each in free.differences) > 0.1, "chaos is what this is about"
