"""The state of a policy can be taken out, kept and put back: one policy serves many clients."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import roadworthy as rw
from roadworthy.errors import PortMismatch, UsageError
from roadworthy.runtime.state import PolicyState
from roadworthy.spec.samples import draw
from tests.conftest import Exported
from tests.environment.environments import ENVIRONMENTS
from tests.runtime.conftest import Load, obs

Steps = list[dict[str, np.ndarray]]
Bits = dict[str, bytes]


class NoisyCell(nn.Module):
    """Remembers, and adds the noise that it is given."""

    def forward(self, obs: torch.Tensor, noise: torch.Tensor, last: torch.Tensor) -> Any:
        last = 0.5 * last + obs
        return last + noise, last


def noisy(folder: Path) -> rw.Bundle:
    source = rw.Source(
        NoisyCell(),
        example={"obs": torch.zeros(1, 3), "noise": torch.zeros(1, 3)},
        memory={"last": torch.zeros(1, 3)},
        about={"noise": rw.About(noise="normal")},
    )
    return rw.export(source, folder)


@pytest.fixture(scope="module")
def folders(
    tmp_path_factory: pytest.TempPathFactory, export_once: Callable[[str], Exported]
) -> dict[str, Path]:
    """A recurrent policy, two environments of two rates, and a policy that draws noise."""
    root = tmp_path_factory.mktemp("states")
    made = {"lstm": export_once("lstm").folder, "noisy": noisy(root / "noisy").folder}
    for name in ("pd_four_ticks", "gru"):
        env, actor = ENVIRONMENTS[name]()
        made[f"env {name}"] = rw.export_environment(env, actor, root / name).folder
    return made


KINDS = ("lstm", "noisy", "env pd_four_ticks", "env gru")


def steps(policy: rw.Policy, count: int, *, rows: int, seed: int) -> Steps:
    drawn = draw(policy.signature, np.random.default_rng(seed), steps=count, rows=rows)
    names = [port.name for port in policy.signature.observed]
    return [{name: drawn[name][i] for name in names} for i in range(count)]


def bits(values: dict[str, np.ndarray]) -> Bits:
    return {name: np.ascontiguousarray(value).tobytes() for name, value in values.items()}


def played(policy: rw.Policy, inputs: Steps) -> list[Bits]:
    return [bits(policy.step(now)) for now in inputs]


@pytest.mark.parametrize("kind", KINDS)
def test_one_policy_serves_three_clients_as_three_policies_would(
    folders: dict[str, Path], kind: str
) -> None:
    """Clients of different sizes come in any order, in the middle of a decision too."""
    server = rw.load(folders[kind], seed=99)
    fixed = server.signature.fixed_rows
    own = [rw.load(folders[kind], seed=client) for client in range(3)]
    inputs = [
        steps(own[client], 12, rows=fixed or size, seed=client)
        for client, size in enumerate((1, 3, 3))
    ]
    held = [policy.state() for policy in own]
    taken = [0, 0, 0]
    order = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], 12))
    for client in order:
        now = inputs[client][taken[client]]
        server.restore(held[client])
        got = server.step(now)
        held[client] = pickle.loads(pickle.dumps(server.state()))
        assert bits(got) == bits(own[client].step(now))
        taken[client] += 1
    assert taken == [12, 12, 12]


@pytest.mark.parametrize("kind", KINDS)
def test_restored_policy_goes_on_bit_for_bit_from_any_step(
    folders: dict[str, Path], kind: str
) -> None:
    policy = rw.load(folders[kind], seed=5)
    inputs = steps(policy, 10, rows=policy.signature.fixed_rows or 2, seed=1)
    for start in range(6):
        policy.reset(seed=5)
        played(policy, inputs[:start])
        saved = policy.state()
        expected = played(policy, inputs[start:])
        policy.restore(saved)
        assert played(policy, inputs[start:]) == expected
        other = rw.load(folders[kind], seed=6)
        other.restore(saved)
        assert played(other, inputs[start:]) == expected
        assert saved.noise is None or other.seed == 5


def test_state_does_not_change_when_the_policy_goes_on(load: Load) -> None:
    policy = load("lstm")
    policy.step({"obs": obs(2, 6)})
    saved = policy.state()
    before = bits(dict(saved.memory))
    policy.step({"obs": 1 + obs(2, 6)})
    policy.restore(saved)
    policy.step({"obs": 1 + obs(2, 6)})
    assert bits(dict(saved.memory)) == before
    with pytest.raises(ValueError, match="read-only"):
        saved.memory["h"][...] = 0


def test_state_of_a_reset_policy_still_lets_the_rows_change(load: Load) -> None:
    policy = load("lstm")
    fresh = policy.state()
    policy.step({"obs": obs(3, 6)})
    policy.restore(fresh)
    assert policy.rows == 1
    assert policy.step({"obs": obs(5, 6)})["actions"].shape == (5, 3)
    assert policy.rows == 5


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("kind", KINDS)
def test_copy_goes_on_alone(
    folders: dict[str, Path], kind: str, how: Callable[[rw.Policy], rw.Policy]
) -> None:
    policy, alone = rw.load(folders[kind], seed=5), rw.load(folders[kind], seed=5)
    inputs = steps(policy, 9, rows=policy.signature.fixed_rows or 2, seed=1)
    expected = played(alone, inputs)
    played(policy, inputs[:3])
    copied = how(policy)
    assert played(copied, inputs[3:]) == expected[3:]
    assert played(policy, inputs[3:]) == expected[3:]
    assert copied.signature is policy.signature


def test_memory_that_is_put_back_is_the_memory(load: Load) -> None:
    policy, calm = load("lstm_pair"), load("lstm_pair")
    inputs = steps(policy, 6, rows=3, seed=1)
    played(policy, inputs[:3])
    played(calm, inputs[:3])
    saved = policy.memory
    played(policy, inputs)
    policy.set_memory(saved)
    assert played(policy, inputs[3:]) == played(calm, inputs[3:])


def test_single_rows_are_set_and_no_other_moves(load: Load) -> None:
    policy, calm, client = load("lstm"), load("lstm"), load("lstm")
    inputs = steps(policy, 6, rows=3, seed=1)
    played(policy, inputs[:3])
    played(calm, inputs[:3])
    for now in steps(policy, 4, rows=1, seed=2):
        client.step(now)
    # A client of one row takes the place in the middle.
    policy.set_memory(client.memory, mask=np.array([False, True, False]))
    for now in inputs[3:]:
        got, old = policy.step(now)["actions"], calm.step(now)["actions"]
        new = client.step({"obs": now["obs"][1:2]})["actions"]
        assert np.array_equal(got[[0, 2]], old[[0, 2]])
        assert np.allclose(got[1], new[0], atol=1e-6)


def test_one_memory_is_set_and_the_others_stay(load: Load) -> None:
    policy = load("lstm")
    policy.step({"obs": 1 + obs(2, 6)})
    before = policy.memory
    policy.set_memory({"h": np.full((1, 2, 16), 0.5, np.float32)})
    assert np.all(policy.memory["h"] == 0.5)
    assert np.array_equal(policy.memory["c"], before["c"])


def test_values_for_every_memory_may_bring_another_number_of_rows(load: Load) -> None:
    policy, other = load("lstm"), load("lstm")
    policy.step({"obs": obs(2, 6)})
    other.step({"obs": 1 + obs(5, 6)})
    policy.set_memory(other.memory)
    assert policy.rows == 5
    now = {"obs": 1 + obs(5, 6)}
    assert bits(policy.step(now)) == bits(other.step(now))


@pytest.mark.parametrize("rows", [3, 5])
def test_clock_goes_on_when_memory_is_set(folders: dict[str, Path], rows: int) -> None:
    policy, other = rw.load(folders["env gru"]), rw.load(folders["env gru"])
    (now,) = steps(policy, 1, rows=3, seed=1)
    policy.step(now)
    inputs = steps(other, 4, rows=rows, seed=2)
    played(other, inputs[:3])
    assert policy.state().tick == other.state().tick == 1
    policy.set_memory(other.memory)
    assert played(policy, inputs[3:]) == played(other, inputs[3:])


def test_nobody_is_set_by_an_empty_mask(load: Load) -> None:
    policy = load("lstm")
    policy.step({"obs": 1 + obs(2, 6)})
    before = policy.memory
    nobody = {name: np.zeros((1, 0, 16), np.float32) for name in "hc"}
    policy.set_memory(nobody, mask=np.array([False, False]))
    assert bits(policy.memory) == bits(before)


HINT = "\n  → pass what Policy.memory gave, or an array of that type and shape"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            {"h": np.zeros((1, 2, 16))},
            ["[RW010] h: expected float32 (1, batch, 16) with batch = 2, got float64 (1, 2, 16)"],
        ),
        (
            {"h": obs(1, 3, 16)},
            ["[RW012] h: expected float32 (1, batch, 16) with batch = 2, got float32 (1, 3, 16)"],
        ),
        (
            {"h": obs(1, 2, 16), "c": obs(1, 3, 16)},
            ["[RW012] c: expected float32 (1, batch, 16) with batch = 2, got float32 (1, 3, 16)"],
        ),
        (
            {"h": obs(2, 16), "c": [[1], [1, 2]]},
            [
                "[RW012] h: expected float32 (1, batch, 16) with batch = 2, got float32 (2, 16)",
                "[RW010] c: expected float32 (1, batch, 16) with batch = 2, got list",
            ],
        ),
    ],
    ids=["type", "rows", "two numbers of rows", "several"],
)
def test_memory_that_does_not_fit_is_refused_and_nothing_changes(
    load: Load, values: dict[str, Any], expected: list[str]
) -> None:
    policy = load("lstm")
    policy.step({"obs": 1 + obs(2, 6)})
    before = policy.memory
    with pytest.raises(PortMismatch) as caught:
        policy.set_memory(values)
    assert str(caught.value) == "\n".join(each + HINT for each in expected)
    assert bits(policy.memory) == bits(before)


def test_unknown_memory_is_answered_with_the_nearest(load: Load) -> None:
    with pytest.raises(PortMismatch) as caught:
        load("nonzero_memory").set_memory({"fase": obs(1, 1)})
    assert str(caught.value) == "[RW011] fase: no such memory\n  → did you mean 'phase'?"


@pytest.mark.parametrize("mask", [np.array([True]), np.array([1, 0]), True])
def test_bad_memory_mask_is_refused(load: Load, mask: Any) -> None:
    policy = load("lstm")
    policy.step({"obs": obs(2, 6)})
    with pytest.raises(PortMismatch, match=r"memory mask: expected bool \(2,\), one flag for each"):
        policy.set_memory({"h": obs(1, 1, 16)}, mask=mask)


def test_fixed_rows_are_set_together(load: Load) -> None:
    policy = load("fixed_batch_lstm")
    policy.act(obs(policy.rows, 6))
    saved = policy.memory
    policy.reset()
    every = np.ones(policy.rows, bool)
    policy.set_memory(saved, mask=~every)
    assert not policy.memory["h"].any()
    policy.set_memory(saved, mask=every)
    assert bits(policy.memory) == bits(saved)


def test_state_of_another_policy_is_refused_with_all_that_is_wrong(
    load: Load, folders: dict[str, Path]
) -> None:
    policy, other = load("lstm"), rw.load(folders["noisy"])
    other.act(np.ones((2, 3), np.float32))
    before = bits(policy.memory)
    with pytest.raises(PortMismatch) as caught:
        policy.restore(other.state())
    assert str(caught.value).splitlines() == [
        "[RW011] last: no such memory",
        "  → known: 'h', 'c'",
        "[RW011] h: missing memory, expected float32 (1, batch, 16)",
        "[RW011] c: missing memory, expected float32 (1, batch, 16)",
        "[RW010] noise: expected a state without noise, got one with",
    ]
    assert bits(policy.memory) == before


def test_tick_beyond_the_clock_is_refused(folders: dict[str, Path]) -> None:
    policy = rw.load(folders["env pd_four_ticks"])
    saved = policy.state()
    wrong = PolicyState(
        rows=saved.rows, memory=saved.memory, tick=4, noise=saved.noise, fresh=False
    )
    with pytest.raises(PortMismatch, match=r"\[RW010\] tick: expected a tick below 4, got 4"):
        policy.restore(wrong)


def test_single_rows_cannot_be_set_where_rows_are_fixed(tmp_path: Path) -> None:
    memory = {"last": torch.zeros(2, 3)}
    example = {"obs": torch.zeros(2, 3), "noise": torch.zeros(2, 3)}
    rw.export(rw.Source(NoisyCell(), example=example, memory=memory, batch=2), tmp_path / "two")
    policy = rw.load(tmp_path / "two")
    with pytest.raises(UsageError, match="the policy has 2 fixed rows, which change together"):
        policy.set_memory({"last": obs(2, 3)}, mask=np.array([True, False]))
