"""`outputs`: the critic's value where the file holds one, and in words why where it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import roadworthy as rw
from tests.checkpoints.recording import recording
from tests.checkpoints.stepping import Stepped
from tests.checkpoints.test_bare import atari, written

FILES = Path(__file__).parent / "files"
SAID = {"activation": "tanh", "normalizer": "none", "output": "plain"}


def continuous() -> Any:
    torch.manual_seed(0)
    net: Any = nn.Module()
    net.actor_mean = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
    net.critic = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))
    net.actor_logstd = nn.Parameter(torch.zeros(1, 2))
    return net


def test_cleanrl_s_critic_gives_its_value(tmp_path: Path) -> None:
    net = continuous()
    outputs = ["value", "mean", "action_raw"]
    source = rw.to_source(written(net.state_dict(), tmp_path), assume=SAID, outputs=outputs)
    obs = torch.randn(1000, 3)
    got = Stepped(source, 1000).step({"obs": obs})
    np.testing.assert_allclose(got["value"], net.critic(obs).detach(), atol=1e-5)
    for name in ("action", "mean", "action_raw"):
        np.testing.assert_allclose(got[name], net.actor_mean(obs).detach(), atol=1e-5)


def test_layers_that_actor_and_critic_share_are_run_once(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net: Any = atari("actor")
    path = written(net.state_dict(), tmp_path)
    source: Any = rw.to_source(path, assume={"activation": "relu"}, outputs=["value", "logits"])
    kinds = [type(each).__name__ for each in source.module.modules()]
    assert kinds.count("Conv2d") == 3
    obs = torch.randint(0, 256, (8, 4, 84, 84), dtype=torch.uint8)
    got = Stepped(source, 8).step({"obs": obs})
    latent = net.network(obs / 255.0)
    np.testing.assert_allclose(got["value"], net.critic(latent).detach(), atol=1e-5)
    np.testing.assert_allclose(got["logits"], net.actor(latent).detach(), atol=1e-5)


def test_memory_that_actor_and_critic_share_is_one(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net: Any = nn.Module()
    net.network = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
    net.lstm, net.actor, net.critic = nn.LSTM(8, 6), nn.Linear(6, 3), nn.Linear(6, 1)
    said = {"activation": "relu", "normalizer": "none"}
    path = written(net.state_dict(), tmp_path)
    source: Any = rw.to_source(path, assume=said, outputs=["value"])
    assert sorted(source.memory) == ["c", "h"]
    actor, state = Stepped(source, 5), None
    for _ in range(200):
        obs = torch.randn(5, 4)
        out, state = net.lstm(net.network(obs)[None], state)
        got = actor.step({"obs": obs})
        np.testing.assert_allclose(got["value"], net.critic(out[0]).detach(), atol=1e-5)
        np.testing.assert_array_equal(got["action"], net.actor(out[0]).argmax(1))


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("rsl_rl-5.0.1/student", "distillation trains no critic"),
        ("rsl_rl-3.3.0/cnn", "the critic sees images"),
        ("tianshou-1.2.0/ppo-bounded", "the actor alone is rebuilt"),
    ],
)
def test_where_there_is_no_value_the_reason_is_said(place: str, reason: str) -> None:
    recorded = recording(FILES / place)
    with pytest.raises(rw.UsageError, match=reason) as caught:
        rw.to_source(recorded.checkpoint, assume=recorded.assume, outputs=["value"])
    assert "it has action, action_raw" in caught.value.findings[0].hint


def test_a_critic_that_sees_more_is_not_given_less(tmp_path: Path) -> None:
    net = continuous()
    net.critic = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 1))
    with pytest.raises(rw.UsageError, match="the critic takes 5 numbers, the policy 3"):
        rw.to_source(written(net.state_dict(), tmp_path), assume=SAID, outputs=["value"])


def test_whether_a_critic_sees_the_same_is_asked_with_its_value_alone() -> None:
    recorded = recording(FILES / "rsl_rl-4.0.1" / "gru")
    said = {name: each for name, each in recorded.assume.items() if name != "critic_obs"}
    rw.to_source(recorded.checkpoint, assume=said)
    with pytest.raises(rw.UsageError, match="critic_obs: whether the critic sees"):
        rw.to_source(recorded.checkpoint, assume=said, outputs=["value"])
    own = {**said, "critic_obs": "own"}
    source: Any = rw.to_source(recorded.checkpoint, assume=own, outputs=["value"])
    assert sorted(source.example) == ["critic_obs", "policy"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "place", ["sample_factory-2.1.1/conv", "skrl-1.4.3/ppo-cnn-bytes", "rsl_rl-5.0.1/mlp"]
)
def test_a_value_is_certified_with_the_action(place: str, tmp_path: Path) -> None:
    recorded = recording(FILES / place)
    rw.export(recorded.checkpoint, tmp_path / "out", assume=recorded.assume, outputs=["value"])
    given = {name: value[0] for name, value in recorded.inputs.items()}
    got = rw.load(tmp_path / "out").step(given)
    np.testing.assert_allclose(got["action"], recorded.actions[0], atol=1e-5)
    np.testing.assert_allclose(got["value"], recorded.values[0], atol=1e-5, rtol=1e-5)
    assert rw.verify(tmp_path / "out", against=recorded.checkpoint).passed
