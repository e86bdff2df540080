"""Nothing registered: the registration is proposed, and can be accepted as it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import roadworthy as rw
from roadworthy.environment import Input
from tests.environment.test_tutorial import Actor, DataSource, Environment, ExportableEnv


def bare() -> tuple[ExportableEnv, Actor]:
    torch.manual_seed(0)
    env = Environment(data_source=DataSource())
    return ExportableEnv(env=env), Actor(num_obs=env.num_obs, num_act=env.num_act).eval()


def test_the_proposal_names_every_tensor_by_its_path_and_kind() -> None:
    found = rw.discover(*bare())
    line = "env.context_manager().add_component({}(name={!r}, get_from_env_cb=lambda: env.env.{}))"
    assert sorted(found.lines) == sorted(
        [
            line.format("Input", "foo", "data_source.foo"),
            line.format("Input", "bar", "data_source.bar"),
            line.format("Input", "baz", "data_source.baz"),
            line.format("Memory", "actions", "_actions"),
            line.format("Output", "output", "_output"),
        ]
    )
    assert str(found) == "\n".join(found.lines)


def test_the_proposed_lines_are_code_that_makes_the_export_pass(tmp_path: Path) -> None:
    env, actor = bare()
    from roadworthy.environment import Memory, Output  # noqa: F401  # the lines name them

    for line in rw.discover(env, actor).lines:
        exec(line, globals() | locals())
    rw.export_environment(env, actor, tmp_path / "bundle")
    assert str(rw.discover(env, actor)) == "nothing is missing"


def test_discovery_registers_nothing_by_itself() -> None:
    env, actor = bare()
    rw.discover(env, actor)
    assert env.context_manager().get_input_components() == []


def test_auto_accepts_the_proposal_and_the_bundle_runs(tmp_path: Path) -> None:
    env, actor = bare()
    bundle = rw.export_environment(env, actor, tmp_path / "bundle", auto=True)
    assert sorted(port.name for port in bundle.signature.inputs) == ["bar", "baz", "foo"]
    assert [memory.name for memory in bundle.signature.memory] == ["actions", "processed_action"]
    policy = rw.load(tmp_path / "bundle")
    raw = {
        name: np.ones((1, size), np.float32) for name, size in (("foo", 4), ("bar", 2), ("baz", 2))
    }
    decided, applied = policy.step(raw), policy.step(raw)
    assert np.abs(decided["actions"]).max() > 0
    assert np.array_equal(applied["actions"], np.zeros((1, 2), np.float32))
    assert np.array_equal(applied["output"], decided["output"])


def test_the_manifest_lists_constants_and_what_is_handed_over(tmp_path: Path) -> None:
    env, actor = bare()
    env.env.gain = torch.full((1, 2), 2.0)
    plain = env.env.process_actions
    env.env.process_actions = lambda actions: plain(actions * env.env.gain)
    bundle = rw.export_environment(env, actor, tmp_path / "bundle", auto=True)
    assert bundle.manifest["recipe"]["constants"] == ["env.env.gain"]
    assert bundle.manifest["recipe"]["handed_over"] == ["processed_action"]


def test_a_half_registered_environment_is_told_only_what_is_missing() -> None:
    env, actor = bare()
    env.context_manager().add_component(Input("foo", lambda: env.env.data_source.foo))
    with pytest.raises(rw.RoadworthyError) as caught:
        rw.export_environment(env, actor, "never")
    paths = [finding.where.partition(" at ")[0] for finding in caught.value.findings]
    assert sorted(paths) == [
        "env.env._actions",
        "env.env.data_source.bar",
        "env.env.data_source.baz",
    ]
    assert not Path("never").exists()


def test_verify_against_a_module_is_refused_for_an_environment(tmp_path: Path) -> None:
    env, actor = bare()
    rw.export_environment(env, actor, tmp_path / "bundle", auto=True)
    rw.verify(tmp_path / "bundle").raise_if_failed()
    with pytest.raises(rw.RoadworthyError, match="made from the environment ExportableEnv"):
        rw.verify(tmp_path / "bundle", against=actor)
