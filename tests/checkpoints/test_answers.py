"""What files do not say is asked at once, and answered by what lies beside them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import roadworthy as rw
from tests.checkpoints.comparing import TOLERANCE, apart
from tests.checkpoints.recording import Recording, recording

FILES = Path(__file__).parent / "files"
# As mjlab writes it, tuples and all.
MJLAB = """
actor:
  class_name: MLPModel
  activation: elu
  hidden_dims: !!python/tuple [16, 12]
  distribution_cfg: {class_name: GaussianDistribution, init_std: 1.0}
obs_groups:
  actor: !!python/tuple [policy]
clip_actions: null
"""
ISAACLAB = """
policy: {class_name: ActorCritic, activation: relu}
empirical_normalization: true
clip_actions: 100.0
"""
SKRL = """
models:
  policy:
    class: GaussianMixin
    network: [{name: net, input: STATES, layers: [16, 12], activations: elu}]
    output: ACTIONS
"""


def beside(place: str, tmp_path: Path, settings: str) -> Recording:
    """A recorded checkpoint as a run has it: with settings, and no assumptions."""
    run = tmp_path / "run"
    shutil.copytree(FILES / place, run)
    (run / "params").mkdir()
    (run / "params" / "agent.yaml").write_text(settings)
    recorded = recording(run)
    inputs = {name: each for name, each in recorded.inputs.items() if name != "critic_obs"}
    return Recording(name=place, checkpoint=recorded.checkpoint, assume={},
                     inputs=inputs, actions=recorded.actions)  # fmt: skip


@pytest.mark.parametrize(
    ("place", "settings"),
    [("rsl_rl-5.0.1/mlp", MJLAB), ("rsl_rl-2.3.3/mlp-normalised", ISAACLAB),
     ("skrl-1.4.3/ppo-elu", SKRL)],
)  # fmt: skip
def test_agent_yaml_answers_every_question(place: str, settings: str, tmp_path: Path) -> None:
    assert apart(beside(place, tmp_path, settings)) <= TOLERANCE


def test_the_origin_says_who_answered(tmp_path: Path) -> None:
    source = rw.to_source(beside("rsl_rl-5.0.1/mlp", tmp_path, MJLAB).checkpoint)
    assert isinstance(source, rw.Source)
    assert source.origin is not None
    said = {fact["name"]: (fact["value"], fact["source"]) for fact in source.origin["facts"]}
    assert said["activation"] == ("elu", "params/agent.yaml (actor.activation)")
    assert said["clip_actions"][0] == "none"


def test_all_questions_are_asked_at_once() -> None:
    with pytest.raises(rw.UsageError) as caught:
        rw.to_source(FILES / "rsl_rl-5.0.1" / "state-dependent" / "model_0.pt")
    asked = [finding.what.partition(":")[0] for finding in caught.value.findings]
    assert asked == ["activation", "distribution", "obs_groups", "clip_actions", "action_scale"]
    assert "--assume activation=tanh|relu" in caught.value.findings[0].hint


def test_the_clip_of_the_wrapper_and_a_scale_are_applied(tmp_path: Path) -> None:
    recorded = recording(FILES / "rsl_rl-2.1.2" / "mlp-elu")
    assume = {**recorded.assume, "clip_actions": 0.1, "action_scale": 0.5}
    actions = 0.5 * np.clip(recorded.actions, -0.1, 0.1)
    changed = Recording(name="clipped", checkpoint=recorded.checkpoint, assume=assume,
                        inputs=recorded.inputs, actions=actions)  # fmt: skip
    assert apart(changed) <= TOLERANCE
    assert np.abs(recorded.actions).max() > 0.1


def test_networks_that_nobody_knows_are_named_not_left_out(tmp_path: Path) -> None:
    tree = torch.load(FILES / "rsl_rl-2.1.2" / "mlp-elu" / "model_0.pt")
    tree["model_state_dict"]["history_encoder.0.weight"] = torch.zeros(2, 2)
    torch.save(tree, tmp_path / "model_1.pt")
    with pytest.raises(rw.UsageError, match=r"nothing explains history_encoder\.0\.weight"):
        rw.to_source(
            tmp_path / "model_1.pt",
            assume={"activation": "elu", "clip_actions": "none", "action_scale": "none"},
        )


def test_groups_must_be_as_long_as_the_network_takes() -> None:
    recorded = recording(FILES / "rsl_rl-5.0.1" / "groups")
    assume = {**recorded.assume, "obs_groups": "policy:9,command:2"}
    with pytest.raises(rw.UsageError, match="the groups have 11 numbers, the network takes 10"):
        rw.to_source(recorded.checkpoint, assume=assume)


@pytest.mark.slow
def test_a_checkpoint_of_each_framework_is_certified(tmp_path: Path) -> None:
    places = ("rsl_rl-3.0.1/groups", "sample_factory-2.1.1/tanh-separate",
              "tianshou-0.5.1/ppo-normalised")  # fmt: skip
    for place in places:
        recorded = recording(FILES / place)
        folder = tmp_path / recorded.name
        rw.export(recorded.checkpoint, folder, assume=recorded.assume)
        policy = rw.load(folder)
        given = {name: value[0] for name, value in recorded.inputs.items()}
        np.testing.assert_allclose(policy.step(given)["action"], recorded.actions[0], atol=1e-5)


def test_the_bounds_of_rl_games_are_asked_with_the_rest(tmp_path: Path) -> None:
    weights = {
        "actor_mlp.0.weight": torch.randn(8, 4), "actor_mlp.0.bias": torch.zeros(8),
        "mu.weight": torch.randn(3, 8), "mu.bias": torch.zeros(3),
    }  # fmt: skip
    own = {f"a2c_network.{name}": value for name, value in weights.items()}
    torch.save({"model": own, "epoch": 3, "frame": 100}, tmp_path / "ant.pth")
    with pytest.raises(rw.UsageError) as caught:
        rw.to_source(tmp_path / "ant.pth")
    asked = [finding.what.partition(":")[0] for finding in caught.value.findings]
    assert asked[-3:] == ["clip_actions", "action_low", "action_high"]
    assert "where clip_actions is true" in caught.value.findings[-1].what


def test_a_pickled_module_is_refused_in_our_words(tmp_path: Path) -> None:
    torch.save(torch.nn.Sequential(torch.nn.Linear(3, 2)), tmp_path / "actor.pt")
    with pytest.raises(rw.UsageError) as caught:
        rw.to_source(tmp_path / "actor.pt")
    (finding,) = caught.value.findings
    assert finding.code == "RW183"
    assert finding.what.endswith("it wants to build torch.nn.modules.container.Sequential")
    assert "\x1b" not in str(caught.value)
    with pytest.raises(rw.UsageError, match=r"it holds a whole module \(Sequential\)") as caught:
        rw.to_source(tmp_path / "actor.pt", trust=True)
    assert "rw.export(torch.load('actor.pt'" in caught.value.findings[0].hint
