"""Calls in the wrong order, or with the wrong kind of thing: refused, and memory stays put."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import roadworthy as rw
from roadworthy.errors import BundleError, PortMismatch, UsageError
from tests.runtime.conftest import Load, obs, refusal


def test_memory_is_not_fed_by_name(load: Load) -> None:
    policy = load("lstm")
    for name in ("h", "h_in"):
        (found,) = refusal(policy, {"obs": obs(1, 6), name: obs(1, 1, 16)})
        expected = "no such input\n  → memory is fed back by the policy itself: leave it out"
        assert found == f"[RW011] {name}: {expected}"


def test_number_of_rows_changes_after_a_reset_only(load: Load) -> None:
    policy = load("lstm")
    policy.step({"obs": obs(2, 6)})
    assert refusal(policy, {"obs": obs(3, 6)}) == [
        "[RW010] batch: the policy remembers 2 rows, got 3"
        "\n  → call policy.reset() before the number of rows changes"
    ]
    policy.reset()
    assert policy.step({"obs": obs(3, 6)})["actions"].shape == (3, 3)


@pytest.mark.parametrize(
    ("mask", "got"),
    [
        (np.array([True]), "bool (1,)"),
        (np.array([1, 0]), "int64 (2,)"),
        (np.array([[True, False]]), "bool (1, 2)"),
        (True, "bool ()"),
    ],
)
def test_bad_reset_mask_is_refused(load: Load, mask: Any, got: str) -> None:
    policy = load("lstm")
    policy.step({"obs": obs(2, 6)})
    before = policy.memory
    with pytest.raises(PortMismatch) as caught:
        policy.reset(mask)
    assert str(caught.value) == (
        f"[RW010] reset mask: expected bool (2,), one flag for each row, got {got}"
        "\n  → pass a boolean array such as terminated | truncated"
    )
    assert all(np.array_equal(before[name], policy.memory[name]) for name in before)


def test_act_with_several_inputs_asks_for_a_mapping(load: Load) -> None:
    with pytest.raises(UsageError) as caught:
        load("flags").act(obs(1, 6))
    assert str(caught.value) == (
        "[RW001] the policy has 2 inputs, got one ndarray\n  → pass a dict with 'obs', 'contacts'"
    )


@pytest.mark.parametrize("value", [obs(1, 6), 5, None])
def test_step_takes_a_mapping_before_and_after_the_first_step(load: Load, value: Any) -> None:
    policy = load("mlp")
    for _ in range(2):
        with pytest.raises(UsageError, match="step takes a mapping of port names") as caught:
            policy.step(value)
        got = f"got {type(value).__name__}"
        assert str(caught.value).endswith(f"{got}\n  → step({{'obs': …}}), or act(obs)")
        policy.act(obs(6))


def test_index_out_of_range_is_refused_and_leaves_the_policy_usable(load: Load) -> None:
    policy = load("discrete_observation")
    expected = policy.act(3)
    with pytest.raises(BundleError, match="onnxruntime cannot run the model"):
        policy.act(99)
    assert policy.act(3) == expected


@pytest.mark.parametrize(
    "wrong",
    [
        {"obs": obs(1, 5)},
        {"obs": np.ones((1, 6), np.int64)},
        {"obs": obs(2, 6)},
        {},
        {"obs": obs(1, 6), "h": obs(1, 1, 16)},
        7,
    ],
    ids=["shape", "dtype", "rows", "missing", "memory", "number"],
)
def test_refused_step_moves_no_memory(load: Load, wrong: Any) -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_normal((4, 1, 6)).astype(np.float32)
    disturbed, calm = load("lstm"), load("lstm")
    for value in values:
        expected, got = calm.step({"obs": value}), disturbed.step({"obs": value})
        assert got["actions"].tobytes() == expected["actions"].tobytes()
        before = disturbed.memory
        with pytest.raises(UsageError):
            disturbed.step(wrong)
        assert all(np.array_equal(before[name], disturbed.memory[name]) for name in before)


def test_what_is_no_path_is_not_loaded() -> None:
    with pytest.raises(UsageError) as caught:
        rw.load(5)  # type: ignore[arg-type]
    (finding,) = caught.value.findings
    assert finding.what == "expected the folder of a bundle, got a int"
    assert finding.hint == "rw.load('folder/'): the one that rw.export wrote"
