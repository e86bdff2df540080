"""Recurrent policies: hidden states are memory, `is_init` is the runtime's reset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.envs import BatchSizeTransform
from torchrl.modules import GRUModule, LSTMModule, set_recurrent_mode

import roadworthy as rw
from roadworthy.errors import UsageError
from roadworthy.inspection.snapshot import changed, values
from tests.adapters.torchrl.policies import EXAMPLE, exported, seeded

STEPS, ROWS = 1000, 3


def recurrent(kind: Any, **keywords: Any) -> Any:
    return seeded(
        lambda: TensorDictSequential(
            TensorDictModule(nn.Sequential(nn.Linear(4, 6), nn.Tanh()), ["observation"], ["code"]),
            kind(6, 8, in_key="code", out_key="feature", **keywords),
            TensorDictModule(nn.Linear(8, 2), ["feature"], ["action"]),
        )
    )


def torchrl_actions(
    policy: Any, observations: np.ndarray, resets: np.ndarray, states: dict[Any, Any]
) -> np.ndarray:
    """TorchRL stepped as in an environment: `is_init` is true where an episode begins, and the
    stale hidden state of the episode before is still there."""
    carried: dict[Any, torch.Tensor] = {}
    actions = []
    for observation, reset in zip(observations, resets, strict=True):
        step = TensorDict(
            {
                "observation": torch.from_numpy(observation),
                "is_init": torch.from_numpy(reset)[:, None],
            },
            batch_size=[ROWS],
        )
        for key, value in carried.items():
            step.set(key, value)
        with torch.no_grad():
            step = policy(step)
        carried = {before: step.get(after) for before, after in states.items()}
        actions.append(step["action"].numpy())
    return np.stack(actions)


@pytest.mark.parametrize("python_based", [False, True], ids=["nn", "python"])
@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (LSTMModule, ["recurrent_state_h", "recurrent_state_c"]),
        (GRUModule, ["recurrent_state"]),
    ],
)
def test_thousand_steps_with_resets_follow_torchrl(
    kind: Any, names: list[str], python_based: bool, tmp_path: Path
) -> None:
    made = recurrent(kind, num_layers=2, python_based=python_based)
    policy = exported(made, tmp_path / "p", example=EXAMPLE)
    assert [each.name for each in policy.signature.memory] == names
    assert [each.shape for each in policy.signature.memory] == [("batch", 2, 8)] * len(names)
    rng = np.random.default_rng(0)
    observations = rng.standard_normal((STEPS, ROWS, 4), dtype=np.float32)
    resets = rng.random((STEPS, ROWS)) < 0.02
    resets[0] = True
    states = {name: ("next", name) for name in names}
    expected = torchrl_actions(made, observations, resets, states)
    got = []
    for observation, reset in zip(observations, resets, strict=True):
        policy.reset(reset)
        got.append(policy.step({"observation": observation})["action"])
    np.testing.assert_allclose(np.stack(got), expected, rtol=0, atol=1e-5)


def test_recurrent_policy_of_the_tutorial(tmp_path: Path) -> None:
    """Reshaping steps around the LSTM, and states that keep their key."""
    lstm = LSTMModule(
        4, 8, num_layers=2,
        in_keys=["observation", "hidden0", "hidden1"], out_keys=["inner", "hidden0", "hidden1"],
    )  # fmt: skip
    made = seeded(
        lambda: TensorDictSequential(
            BatchSizeTransform(reshape_fn=lambda x: x.unsqueeze(0)),
            lstm,
            TensorDictModule(nn.Linear(8, 5), ["inner"], ["action"]),
            BatchSizeTransform(reshape_fn=lambda x: x.squeeze(0)),
        )
    )
    policy = exported(made, tmp_path / "p", example=EXAMPLE)
    assert str(policy.signature) == (
        "input   observation  float32 (batch, 4)\n"
        "output  action       float32 (batch, 5)\n"
        "memory  hidden0      float32 (batch, 2, 8) from 0.0  hidden0_in → hidden0_out\n"
        "memory  hidden1      float32 (batch, 2, 8) from 0.0  hidden1_in → hidden1_out"
    )
    observations = np.random.default_rng(1).standard_normal((20, ROWS, 4), dtype=np.float32)
    resets = np.zeros((20, ROWS), dtype=bool)
    resets[0], resets[7, 1] = True, True
    # On its own the policy needs states that have its batch: it is given zeros to start with.
    expected = torchrl_actions_from_zeros(made, observations, resets)
    for step, (observation, reset) in enumerate(zip(observations, resets, strict=True)):
        policy.reset(reset)
        got = policy.step({"observation": observation})["action"]
        np.testing.assert_allclose(got, expected[step], rtol=0, atol=1e-5)


def torchrl_actions_from_zeros(policy: Any, observations: Any, resets: Any) -> list[np.ndarray]:
    states = {name: torch.zeros(ROWS, 2, 8) for name in ("hidden0", "hidden1")}
    actions = []
    for observation, reset in zip(observations, resets, strict=True):
        given = {
            "observation": torch.from_numpy(observation),
            "is_init": torch.from_numpy(reset)[:, None],
        }
        with torch.no_grad():
            step = policy(TensorDict(given | states, batch_size=[ROWS]))
        states = {name: step[name] for name in states}
        actions.append(step["action"].numpy())
    return actions


def cell() -> Any:
    return seeded(
        lambda: TensorDictSequential(
            TensorDictModule(nn.GRUCell(4, 8), ["observation", "h"], [("next", "h")]),
            TensorDictModule(nn.Linear(8, 2), [("next", "h")], ["action"]),
        )
    )


def test_state_of_a_cell_of_ones_own_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        rw.export(cell(), tmp_path / "p", example=EXAMPLE)
    assert str(caught.value) == (
        "[RW145] h: the policy reads 'h' and writes ('next', 'h'): it persists, and nothing says "
        "where it starts\n"
        "  → memory={'h': torch.zeros(1, …)}, the value of one row at a reset"
    )


def test_state_of_a_cell_of_ones_own_is_memory(tmp_path: Path) -> None:
    made = cell()
    start = torch.full((1, 8), 0.5)
    policy = exported(made, tmp_path / "p", example=EXAMPLE, memory={"h": start})
    hidden = start.expand(ROWS, 8)
    for seed in range(5):
        observation = np.random.default_rng(seed).standard_normal((ROWS, 4), dtype=np.float32)
        with torch.no_grad():
            hidden = made[0].module(torch.from_numpy(observation), hidden)
            expected = made[1].module(hidden).numpy()
        got = policy.step({"observation": observation})["action"]
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        (
            {"hh": torch.zeros(1, 8)},
            "[RW145] hh: the policy reads no such key\n  → did you mean 'h'?",
        ),
        (
            {"observation": torch.zeros(1, 4)},
            "[RW145] observation: the policy reads 'observation', but writes neither it nor "
            "('next', 'observation')\n  → give it in the example instead",
        ),
    ],
)  # fmt: skip
def test_memory_that_the_policy_does_not_keep_is_refused(
    memory: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as caught:
        rw.export(cell(), tmp_path / "p", example=EXAMPLE, memory=memory)
    assert message in str(caught.value)


def test_policy_comes_back_as_it_was(tmp_path: Path) -> None:
    made = recurrent(GRUModule).train()
    keys = list(made.in_keys), list(made.out_keys)
    before, state = values(made), torch.get_rng_state()
    with set_recurrent_mode(True):
        rw.export(made, tmp_path / "p", example=EXAMPLE)
    assert changed(before, values(made)) == []
    assert made.training
    assert (list(made.in_keys), list(made.out_keys)) == keys
    assert torch.equal(torch.get_rng_state(), state)
