"""A policy can stand inside another: what holds of `Policy` holds of what is around it."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import roadworthy as rw
from roadworthy.errors import PortMismatch
from roadworthy.runtime.protocol import PolicyLike, PolicyWrapper
from tests.runtime.conftest import Load, obs
from tests.runtime.wrappers import Clamp, Halved, Recorder, Slew, around


def values(count: int, rows: int = 2) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((rows, 6)).astype(np.float32) for _ in range(count)]


def test_each_wrapper_is_a_policy(load: Load) -> None:
    for each in around(load("lstm")):
        assert isinstance(each, PolicyLike)
    assert not isinstance(object(), PolicyLike)


@pytest.mark.parametrize("kind", [rw.Policy, PolicyWrapper, Halved])
def test_methods_are_those_of_the_protocol(kind: type) -> None:
    for name, method in inspect.getmembers(PolicyLike, inspect.isfunction):
        if not name.startswith("_"):
            assert inspect.signature(getattr(kind, name)) == inspect.signature(method), name


def test_recorder_keeps_what_it_passes_on(load: Load) -> None:
    recorder, plain = Recorder(load("lstm")), load("lstm")
    for now in values(4):
        assert np.array_equal(recorder.act(now), plain.act(now))
    assert [len(recorder.steps), recorder.rows] == [4, 2]
    assert np.array_equal(recorder.steps[-1][0]["obs"], values(4)[-1])


def test_changing_step_changes_act(load: Load) -> None:
    clamped, plain = Clamp(load("lstm"), 0.05), load("lstm")
    expected = [np.clip(plain.act(now), -0.05, 0.05) for now in values(4)]
    assert np.array_equal([clamped.act(now) for now in values(4)], expected)
    assert np.abs(expected).max() == np.float32(0.05)


def test_wrappers_stand_around_each_other(load: Load) -> None:
    stack = Clamp(Recorder(Halved(load("lstm"))), 0.01)
    stack.act(obs(2, 6))
    stack.set_memory({name: 0 * value for name, value in stack.memory.items()})
    assert not stack.memory["h"].any()
    stack.reset(np.array([True, False]))
    assert stack.signature.action_output == "actions"


def test_what_a_wrapper_remembers_is_part_of_the_state(load: Load) -> None:
    limited = Slew(load("lstm"), 0.01)
    for now in values(3):
        limited.act(now)
    saved = limited.state()
    expected = [limited.act(now) for now in values(3)]
    limited.reset()
    limited.restore(saved)
    assert np.array_equal([limited.act(now) for now in values(3)], expected)


def test_policy_inside_refuses_the_state_of_its_wrapper(load: Load) -> None:
    limited = Slew(load("lstm"), 0.01)
    limited.act(obs(2, 6))
    with pytest.raises(PortMismatch) as caught:
        limited.policy.restore(limited.state())
    assert str(caught.value) == (
        "[RW011] slew.last: the state is that of a wrapper, and this is the policy inside"
        "\n  → restore it through the wrapper that made it"
    )
