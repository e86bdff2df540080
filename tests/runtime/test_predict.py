"""`policy(obs)` and `policy.predict` are those of Stable-Baselines3; NaN is said, once."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import roadworthy as rw
from roadworthy.runtime.feeds import LOOK_EVERY, NotANumberWarning
from roadworthy.spec.port import About, Port
from roadworthy.spec.signature import Signature
from tests import hostile

ONES = np.ones((2, hostile.WIDTH), np.float32)


@pytest.fixture(params=["onnx", "c"])  # a step in C looks for NaN itself
def policy(tmp_path: Path, request: pytest.FixtureRequest) -> rw.Policy:
    return rw.load(hostile.sealed(tmp_path / "bundle"), engine=request.param, canary=False)


class Engine:
    """Adds up what it is given."""

    def bind(self, inputs: dict[str, np.ndarray], outputs: dict[str, np.ndarray]) -> object:
        def step() -> None:
            outputs["actions"][...] = sum(inputs.values())

        return step


def made(*, noise: bool) -> rw.Policy:
    """A policy without memory, which draws or not."""
    shape = ("batch", hostile.WIDTH)
    ports = [Port(name="obs", dtype="float32", shape=shape)]
    if noise:
        drawn = About(noise="normal")
        ports.append(Port(name="noise", dtype="float32", shape=shape, about=drawn))
    outputs = (Port(name="actions", dtype="float32", shape=shape),)
    return rw.Policy(Signature(inputs=tuple(ports), outputs=outputs), Engine(), seed=1)


def test_call_is_act(policy: rw.Policy) -> None:
    other = copy.copy(policy)
    assert np.array_equal(policy(ONES), other.act(ONES))
    assert np.array_equal(policy({"obs": ONES}), other.act(ONES))


def test_predict_carries_the_state_that_it_returned(policy: rw.Policy) -> None:
    plain = copy.copy(policy)
    state = None
    for _ in range(5):
        expected = plain.act(ONES)
        action, state = policy.predict(ONES, state=state)
        assert np.array_equal(action, expected)
        policy.act(7 * ONES)  # somebody else's step, which the state does not know


def test_predict_without_a_state_starts_anew(policy: rw.Policy) -> None:
    first, _ = policy.predict(ONES)
    again, _ = policy.predict(ONES[0])
    assert np.array_equal(first[0], again)


def test_predict_resets_the_rows_that_begin(policy: rw.Policy) -> None:
    first, state = policy.predict(ONES)
    action, _ = policy.predict(ONES, state, np.array([True, False]))
    assert np.array_equal(action[0], first[0])
    assert (action[1] > first[1]).all()
    one, state = policy.predict(ONES[0])
    assert np.array_equal(policy.predict(ONES[0], state, episode_start=True)[0], one)


def test_predict_without_memory_has_no_state() -> None:
    action, state = made(noise=False).predict(ONES)
    assert np.array_equal(action, ONES)
    assert state is None


@pytest.mark.parametrize("noise", [True, False])
def test_predict_says_when_the_export_decided_otherwise(noise: bool) -> None:
    exported, other = ("random", "deterministic") if noise else ("deterministic", "random")
    with pytest.raises(rw.UsageError) as caught:
        made(noise=noise).predict(ONES, deterministic=noise)
    assert str(caught.value) == (
        f"[RW001] predict: the policy was exported as {exported}, got deterministic={noise}\n"
        f"  → pass deterministic={not noise}, or export it as {other}"
    )
    action, _ = made(noise=noise).predict(ONES, deterministic=not noise)
    assert np.array_equal(action, ONES) is not noise


def test_predict_refuses_what_is_no_state(policy: rw.Policy) -> None:
    with pytest.raises(rw.UsageError, match="expected the state that predict returned, got tuple"):
        policy.predict(ONES, state=(np.zeros(3),))  # type: ignore[arg-type]


class Doubled(rw.PolicyWrapper):
    def step(self, inputs: object) -> dict[str, np.ndarray]:
        return {name: 2 * value for name, value in super().step(inputs).items()}  # type: ignore[arg-type]


def test_wrapper_predicts_and_copies_like_a_policy(policy: rw.Policy) -> None:
    wrapper = Doubled(copy.copy(policy))
    expected, _ = policy.predict(ONES)
    action, state = wrapper.predict(ONES)
    assert np.array_equal(action, 2 * expected)
    copied = copy.copy(wrapper)
    assert type(copied) is Doubled
    copied.act(ONES)
    assert np.array_equal(wrapper.memory["last"], expected)
    assert not np.array_equal(copied.memory["last"], expected)
    assert np.array_equal(wrapper(ONES), wrapper.predict(ONES, state)[0])


@pytest.fixture
def said() -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield found


def test_nan_at_the_first_step_is_said_once_to_the_caller(
    policy: rw.Policy, said: list[warnings.WarningMessage]
) -> None:
    bad = ONES.copy()
    bad[1, 2] = np.nan
    for _ in range(3 * LOOK_EVERY):
        policy.act(bad)
    assert [each.category for each in said] == [NotANumberWarning]
    assert str(said[0].message).startswith("obs[1][2]: not a number (said once): look for a sensor")
    assert said[0].filename == __file__


def test_nan_later_on_is_said_soon(policy: rw.Policy, said: list[warnings.WarningMessage]) -> None:
    bad = np.full_like(ONES, np.nan)
    for _ in range(LOOK_EVERY + 5):
        policy.step({"obs": ONES})
    assert said == []
    for _ in range(LOOK_EVERY):
        policy.step({"obs": bad})
    assert len(said) == 1


def test_nan_that_stayed_in_memory_is_said(
    policy: rw.Policy, said: list[warnings.WarningMessage]
) -> None:
    policy.act(ONES)
    policy.step({"obs": np.full_like(ONES, np.nan)})
    for _ in range(LOOK_EVERY):
        policy.step({"obs": ONES})
    assert [str(each.message)[:35] for each in said] == ["memory last[0][0]: not a number (sa"]
    assert "policy.reset() starts the memory anew" in str(said[0].message)


def test_infinity_is_no_nan(policy: rw.Policy, said: list[warnings.WarningMessage]) -> None:
    policy.act(np.full_like(ONES, np.inf))
    assert said == []


def test_copy_watches_too(policy: rw.Policy, said: list[warnings.WarningMessage]) -> None:
    copy.copy(policy).act(np.full_like(ONES, np.nan))
    assert len(said) == 1
