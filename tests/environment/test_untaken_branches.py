"""What matters only where no run goes is found; what is right and looks odd is exported."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw
from roadworthy import export_environment
from roadworthy.environment import ExportableActor
from roadworthy.environment.reaching import reach
from roadworthy.environment.source import EnvironmentSource
from roadworthy.environment.stepping import captured_halves
from roadworthy.errors import UsageError
from roadworthy.targets.onnx.refusals import Place, runtime_failure
from tests.environment import untaken_branches
from tests.environment.mistakes import Sound
from tests.environment.robot import feedforward
from tests.environment.test_late_changes import refused


@pytest.mark.parametrize(
    "kind",
    [
        untaken_branches.RaysAlone,
        pytest.param(untaken_branches.FarRaysAlone, marks=pytest.mark.slow),
        pytest.param(untaken_branches.MaskedRaysAlone, marks=pytest.mark.slow),
        pytest.param(untaken_branches.TwiceGatedRaysAlone, marks=pytest.mark.slow),
    ],
    ids=lambda kind: kind.__name__,
)
def test_what_moves_and_matters_only_when_a_ray_misses_is_refused(
    kind: type[Sound], tmp_path: Path
) -> None:
    env = kind()
    finding = refused(env, tmp_path)
    assert finding.code == "RW121"
    assert finding.where.startswith("env.base at untaken_branches.py:")
    assert "Input(name='base'" in finding.hint


@pytest.mark.parametrize(
    "kind",
    [
        untaken_branches.Overwritten,
        untaken_branches.Rolled,
        untaken_branches.NarrowIndices,
        pytest.param(untaken_branches.Rays, marks=pytest.mark.slow),
        pytest.param(untaken_branches.AtRest, marks=pytest.mark.slow),
        pytest.param(untaken_branches.PushedInPlace, marks=pytest.mark.slow),
    ],
    ids=lambda kind: kind.__name__,
)
def test_what_looks_odd_and_is_right_is_exported(kind: type[Sound], tmp_path: Path) -> None:
    env = kind()
    assert export_environment(env, feedforward(env), tmp_path / "bundle").certificate.passed


def test_a_command_behind_a_selector_stays_and_what_nothing_reads_goes(tmp_path: Path) -> None:
    class Both(untaken_branches.Selected, untaken_branches.Generic):
        """A selector that is off, and a height that no observation reads."""

    env = Both()
    bundle = export_environment(env, feedforward(env), tmp_path / "bundle")
    assert [port.name for port in bundle.signature.inputs] == ["foo", "bar", "on", "wanted"]
    (note,) = [each for each in bundle.certificate.findings if each.code == "RW132"]
    assert (note.where, note.severity) == ("height", "note")
    policy = rw.load(tmp_path / "bundle")
    ones = {n: np.ones((1, 2), np.float32) for n in ("foo", "bar")}
    ones["wanted"] = np.full((1, 6), 5.0, np.float32)
    off = policy.step(ones | {"on": np.array([[False]])})["obs"]
    on = policy.step(ones | {"on": np.array([[True]])})["obs"]
    np.testing.assert_allclose(on[0, :4] - off[0, :4], 5.0, atol=1e-6)


def test_an_environment_of_which_nothing_is_read_is_refused(tmp_path: Path) -> None:
    class Elsewhere(Sound):
        def register(self) -> None:
            super().register()
            foo, bar = self.context_manager().get_input_components()[:2]
            foo._get_from_env_cb = lambda: self.elsewhere[0]
            bar._get_from_env_cb = lambda: self.elsewhere[1]

        def build(self) -> None:
            self.elsewhere = [torch.zeros(1, 2), torch.zeros(1, 2)]
            super().build()

    finding = refused(Elsewhere(), tmp_path)
    assert finding.code == "RW121"
    assert finding.where.startswith("env.env.data_source.")


class ByGroup(ExportableActor):
    def __init__(self) -> None:
        super().__init__()
        self.policy, self.scan = nn.Linear(6, 2), nn.Linear(2, 2)

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        return torch.tanh(self.policy(obs["policy"]) + self.scan(obs["scan"]))


def test_observations_by_group_are_outputs_of_their_own(tmp_path: Path) -> None:
    torch.manual_seed(0)
    env, actor = untaken_branches.Grouped(), ByGroup().eval()
    bundle = export_environment(env, actor, tmp_path / "bundle")
    assert [p.name for p in bundle.signature.outputs] == [
        "actions", "obs.policy", "obs.scan", "command",
    ]  # fmt: skip
    assert bundle.signature.outputs[2].about.elements == ("scan_0", "scan_1")
    got = rw.load(tmp_path / "bundle").step(
        {"foo": np.float32([[0.1, 0.2]]), "bar": np.float32([[0.3, 0.4]])}
    )
    env.env.data_source.foo[:] = torch.tensor([[0.1, 0.2]])
    env.env.data_source.bar[:] = torch.tensor([[0.3, 0.4]])
    with torch.no_grad():
        expected = actor(env.compute_observations())
    np.testing.assert_allclose(got["actions"], expected, atol=1e-6)
    np.testing.assert_allclose(got["obs.scan"], [[0.2, 0.4]], atol=1e-6)


def test_what_is_ignored_is_a_constant_and_the_manifest_says_so(tmp_path: Path) -> None:
    env = untaken_branches.RaysAlone()
    bundle = export_environment(env, feedforward(env), tmp_path / "bundle", ignore=["base"])
    said = json.loads((tmp_path / "bundle" / "manifest.json").read_text())["recipe"]
    assert said["ignore"] == ["base"]
    assert "env.base" in said["constants"]
    assert bundle.certificate.passed


def test_a_name_to_ignore_that_nothing_has_is_refused(tmp_path: Path) -> None:
    env = untaken_branches.RaysAlone()
    with pytest.raises(UsageError, match="no attribute 'bases'") as caught:
        export_environment(env, feedforward(env), tmp_path / "bundle", ignore=["bases"])
    assert caught.value.findings[0].hint.startswith("did you mean 'base'")


def test_the_reach_of_a_graph_follows_writes() -> None:
    env = untaken_branches.Overwritten()
    source = EnvironmentSource(env, feedforward(env))
    halves = captured_halves(source)
    decides = reach(halves["step"].graph)
    assert not decides.of(env.noise)
    assert decides.of(torch.zeros(3))  # unknown to the graph: it may matter
    assert dict(zip(source.ports, decides.inputs, strict=True)) == {
        "foo": True, "bar": True, "memory.last.in": True,
    }  # fmt: skip
    applies = reach(halves["substep"].graph)
    assert applies.inputs == (False, False, True)


def test_no_tick_between_decisions_observes() -> None:
    class Counting(untaken_branches.PushedInPlace):
        observed = 0

        def compute_observations(self) -> Tensor:
            type(self).observed += 1
            return super().compute_observations()

    env = Counting()
    source = EnvironmentSource(env, feedforward(env))
    source.substep()
    Counting.observed, before = 0, env.history.clone()
    _, empty = source.substep()
    assert Counting.observed == 0
    assert torch.equal(env.history, before)
    assert {name: tuple(each.shape) for name, each in empty.items()} == {"obs": (1, 12)}
    assert not empty["obs"].any()


def test_zeros_like_the_observations_push_no_history() -> None:
    class Default(untaken_branches.PushedInPlace):
        def empty_actor_observations(self) -> Tensor:
            return super(untaken_branches.PushedInPlace, self).empty_actor_observations()

    env = Default()
    before = env.history.clone()
    assert env.empty_actor_observations().shape == (1, 12)
    assert len(env.get_observation_names()) == 12
    assert torch.equal(env.history, before)


def test_the_innermost_node_is_the_one_that_is_reported() -> None:
    message = (
        "Type Error: implementation for If(20) node with name 'node_If_3' of graph: "
        "Could not find an implementation for GatherND(13) node with name 'step/node_index'"
    )
    known = [
        Place("node_If_3", "If", "bool", ""),
        Place("step/node_index", "GatherND", "int32", "walk.py:12 (table[rows])"),
    ]
    finding = runtime_failure(message, known).findings[0]
    assert finding.what == "onnxruntime cannot run GatherND in int32"
    assert (finding.where, finding.hint) == (
        "walk.py:12 (table[rows])",
        "work in int64 at that line: x.long()",
    )
