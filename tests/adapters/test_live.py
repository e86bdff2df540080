"""Live models go in without a question, and act as their framework does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

import roadworthy as rw
from tests.adapters import living

pytestmark = [pytest.mark.framework, pytest.mark.filterwarnings("ignore")]

LSTM = {"name": "lstm", "units": 8, "layers": 1, "before_mlp": True, "layer_norm": True}
GRU = {"name": "gru", "units": 8, "layers": 1, "concat_output": True}
SMALL = {"policy_kwargs": {"net_arch": [16]}}
RECURRENT = {"policy": "MlpLstmPolicy", "policy_kwargs": {"lstm_hidden_size": 8, "net_arch": [16]}}
BOUNDED = Box(-5, 5, (10,), np.float32)
MIXED = Dict({"joints": Box(-1, 1, (3,)), "gear": Discrete(4)})
PIXELS = Box(0, 255, (36, 36, 3), np.uint8)

MADE: dict[str, Callable[[], Any]] = {
    "sb3-ppo": lambda: living.sb3_model("PPO", **SMALL),
    "sb3-sac": lambda: living.sb3_model("SAC", **SMALL),
    "sb3-td3": lambda: living.sb3_model("TD3", **SMALL),
    "sb3-dqn": lambda: living.sb3_model("DQN", **SMALL),
    "sb3-qrdqn": lambda: living.sb3_model("QRDQN", **SMALL),
    "sb3-multi-discrete": lambda: living.sb3_model("A2C", actions=MultiDiscrete([3, 4]), **SMALL),
    "sb3-maskable": lambda: living.sb3_model("MaskablePPO", **SMALL),
    "sb3-recurrent": lambda: living.sb3_model("RecurrentPPO", **RECURRENT),
    "sb3-dict": lambda: living.sb3_model("PPO", MIXED, policy="MultiInputPolicy"),
    "sb3-pixels": lambda: living.sb3_model("PPO", PIXELS, Discrete(3), policy="CnnPolicy"),
    "skrl-ppo": lambda: living.skrl_agent(),
    "skrl-sac": lambda: living.skrl_agent("SAC"),
    "skrl-categorical": lambda: living.skrl_agent("PPO", Discrete(4)),
    "skrl-multi-categorical": lambda: living.skrl_agent("PPO", MultiDiscrete([3, 4])),
    "rl_games-continuous": lambda: living.rl_games_player(),
    "rl_games-discrete": lambda: living.rl_games_player("discrete"),
    "rl_games-multi-discrete": lambda: living.rl_games_player("multi_discrete"),
    "rl_games-sac": lambda: living.rl_games_player("sac"),
    "rl_games-lstm": lambda: living.rl_games_player(rnn=LSTM),
    "rl_games-gru-separate": lambda: living.rl_games_player(rnn=GRU, separate=True),
}


@pytest.mark.parametrize("name", MADE)
def test_what_is_captured_answers_as_the_framework_does(name: str) -> None:
    torch.manual_seed(0)
    source = rw.to_source(MADE[name]())
    assert isinstance(source, rw.Source)
    truth = source.rewritten.module.eval()
    rows = 3 if source.memory else 200
    memory = {n: value.repeat(1, rows, 1) for n, value in source.memory.items()}
    rng = np.random.default_rng(0)
    for _ in range(20 if memory else 1):
        given = {n: drawn(n, value, source, rows, rng) for n, value in source.example.items()}
        with torch.no_grad():
            got = source.module.eval()(**given, **memory)
            expected = truth(**given, **memory)
        assert got.keys() == expected.keys()
        for port, value in expected.items():
            torch.testing.assert_close(got[port], value, atol=1e-5, rtol=1e-5, check_dtype=False)
        memory = {n: expected[n] for n in memory}


def drawn(name: str, like: Any, source: rw.Source, rows: int, rng: Any) -> torch.Tensor:
    """Rows inside of the limits of a port."""
    shape = (rows, *like.shape[1:])
    about = source.about.get(name, rw.About())
    if like.dtype == torch.bool:
        return torch.from_numpy(rng.random(shape) < 0.6)
    if like.is_floating_point():
        return torch.from_numpy(rng.standard_normal(shape)).to(like.dtype)
    return torch.from_numpy(rng.integers(0, np.max(about.high) + 1, shape)).to(like.dtype)


def exported(thing: Any, folder: Path, **keywords: Any) -> rw.Bundle:
    bundle = rw.export(thing, folder, **keywords)
    rw.verify(folder, against=thing, **keywords).raise_if_failed()
    return bundle


def test_a_runner_of_rsl_rl_gives_a_port_for_each_group_and_the_clip_of_its_environment(
    tmp_path: Path,
) -> None:
    runner = living.rsl_rl_runner(class_name="RNNModel", rnn_hidden_dim=8)
    signature = exported(runner, tmp_path / "runner").signature
    assert [port.name for port in signature.inputs] == ["policy", "command"]
    assert [memory.name for memory in signature.memory] == ["h", "c"]
    assert signature.action is not None
    assert signature.action.high == living.Walker.clip_actions
    assert runner.alg.get_policy().get_hidden_state() is None


def test_a_model_of_several_groups_needs_an_example() -> None:
    model = living.rsl_rl_runner().alg.get_policy()
    with pytest.raises(rw.UsageError, match="the model reads policy, command"):
        rw.to_source(model)
    example = living.Walker().get_observations()
    assert list(rw.to_source(model, example=example).example) == ["policy", "command"]


def test_a_model_behind_vecnormalize_takes_what_the_environment_gives(tmp_path: Path) -> None:
    from stable_baselines3 import PPO

    env = living.vec_normalized(BOUNDED, Box(-1, 1, (2,)))
    model = PPO("MlpPolicy", env, device="cpu", policy_kwargs={"net_arch": [16]})
    exported(model, tmp_path / "ppo")
    policy, row = rw.load(tmp_path / "ppo"), np.full(10, 2.0, np.float32)
    expected, _ = model.predict(env.normalize_obs(row[None]), deterministic=True)
    np.testing.assert_allclose(policy.act(row[None]), expected, atol=1e-5)
    without = PPO("MlpPolicy", living.Room(BOUNDED, Box(-1, 1, (2,))), device="cpu")
    assert list(rw.to_source(without, vecnormalize=env).example) == ["obs"]
    with pytest.raises(rw.UsageError, match="expected a VecNormalize"):
        rw.to_source(without, vecnormalize=3)


def test_a_player_and_an_agent_are_certified_against_their_own_call(tmp_path: Path) -> None:
    exported(living.rl_games_player(rnn=GRU), tmp_path / "player")
    exported(living.skrl_agent(), tmp_path / "agent")


def test_who_says_the_method_describes_the_module_by_hand() -> None:
    model = living.skrl_agent().policy
    source = rw.to_source(
        model, example={"x": torch.zeros(1, 10)},
        method=lambda m, x: m.compute({"observations": x}, role="policy")[0],
    )  # fmt: skip
    assert list(source.example) == ["x"]
