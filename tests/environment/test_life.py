"""One life of an environment serves the search, the trials at later moments, and every check."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import roadworthy as rw
from roadworthy.environment import Memory
from roadworthy.environment.free_run import free_run
from roadworthy.environment.horizon import Horizon
from roadworthy.environment.life import LEAST_STEPS, Life
from roadworthy.environment.nudging import Suspect, Trials
from roadworthy.environment.source import describe
from roadworthy.environment.ticks import eager, watch_ticks
from roadworthy.inspection.snapshot import Snapshot
from roadworthy.verification.originals.original import NoYardstick
from tests.environment.test_simulator_habits import Cart, actor


class Counted(Cart):
    steps = 0

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        type(self).steps += 1
        return super().step(actions)


def test_an_export_lives_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counted, "steps", 0)
    bundle = rw.export_environment(Counted(), actor(), tmp_path / "cart", progress=False)
    (check,) = (each for each in bundle.certificate.checks if each.name == "free run")
    assert check.passed
    assert f"for {LEAST_STEPS} policy steps" in check.claim
    # What is run in order to see which code runs at all is put back, this number with it.
    assert Counted.steps == LEAST_STEPS


class Remembering(Cart):
    """Memory that a reset clears, and that grows as long as it does not."""

    def register(self) -> None:
        super().register()
        self.total = torch.zeros(1, 1)
        self.context_manager().add_component(Memory("total", lambda: self.total))

    def process_actions(self, actions: torch.Tensor) -> None:
        super().process_actions(actions)
        self.total += actions

    def apply_actions(self) -> None:
        self.force[:] = self.action - 0.01 * self.total

    def observations_reset(self) -> torch.Tensor:
        self.total.zero_()
        return super().observations_reset()


def no_yardstick() -> Any:
    raise NoYardstick("none here")


def test_a_life_that_was_written_down_convicts_another_file(tmp_path: Path) -> None:
    """What is replayed is what was lived: a file of other weights fails beside it."""
    env = Remembering()
    source = describe(env, actor=actor())
    life = Life()
    with eager(source), watch_ticks(source) as live:
        life.restart(live)
        for _ in range(9):
            life.step(live)
        life.restart(live)
        life.step(live)
    right = rw.export_environment(Remembering(), actor(), tmp_path / "right", progress=False)
    torch.manual_seed(1)
    other = torch.nn.Linear(2, 1)
    wrong = rw.export_environment(Remembering(), other, tmp_path / "wrong", progress=False)
    for bundle, passes in ((right, True), (wrong, False)):
        policy = rw.load(bundle.folder)
        assert free_run(policy, source, Horizon(9), no_yardstick, life).passed is passes
    # Without the second reset the memory of the tenth step is not what was lived.
    life.starts.pop()
    policy = rw.load(right.folder)
    assert not free_run(policy, source, Horizon(9), no_yardstick, life).passed


def test_a_moment_is_kept_without_those_who_watch() -> None:
    env = Cart()
    source = describe(env, actor=actor())
    with eager(source), watch_ticks(source) as live:
        live.restart()
        live.step(torch.ones(1, 1))
        moment = live.snapshot()
        velocity = env.velocity.clone()
        assert "apply_actions" in vars(env)
        live.step(torch.ones(1, 1))
    moment.restore()
    assert torch.equal(env.velocity, velocity)
    assert not {"apply_actions", "process_actions", "compute_observations"} & vars(env).keys()


class Foreign:
    """An array of another library in the memory of the CPU, as warp's are."""

    def __init__(self, size: int) -> None:
        self.numbers = np.zeros(size, np.float32)

    @property
    def __array_interface__(self) -> Any:
        return self.numbers.__array_interface__


class Meshes(Cart):
    """A step that counts in a large array: trials must not see each other there."""

    def register(self) -> None:
        super().register()
        self.mesh, self.harmless = Foreign(1 << 15), torch.zeros(1, 1)

    def process_actions(self, actions: torch.Tensor) -> None:
        self.action[:] = actions + float(self.mesh.numbers[-1])
        self.mesh.numbers[-1] += 1


def test_what_a_trial_writes_into_a_large_array_convicts_nobody() -> None:
    env = Meshes()
    source = describe(env, actor=actor())
    trials = Trials(source, Snapshot(*source.roots.values()))
    assert trials.culprits("step", [Suspect(env.harmless)]) == []
    assert trials.culprits("step", [Suspect(env.position)]) != []
    assert not env.mesh.numbers.any()


def test_snapshots_that_share_a_copy_keep_what_each_of_them_saw() -> None:
    holder = Foreign(1 << 15)
    first = Snapshot([holder])
    second = Snapshot([holder])
    holder.numbers[7] = 1
    third = Snapshot([holder])
    holder.numbers[:] = 2
    assert first.is_large_changed()
    first.restore(large=False)
    assert holder.numbers[7] == 2
    for snapshot, value in ((third, 1), (first, 0), (third, 1), (second, 0)):
        snapshot.restore()
        assert holder.numbers[7] == value
        assert holder.numbers.sum() == value
