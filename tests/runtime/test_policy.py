"""A loaded policy: outputs are the caller's, memory is its own, rows do not mix."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import roadworthy as rw
from roadworthy.runtime.policy import MOST_FRAMES
from roadworthy.spec.samples import draw
from tests.conftest import Exported
from tests.runtime.conftest import Load, obs

Steps = list[dict[str, np.ndarray]]


def steps(policy: rw.Policy, count: int = 6, rows: int = 3, seed: int = 0) -> Steps:
    rows = policy.signature.fixed_rows or rows
    drawn = draw(policy.signature, np.random.default_rng(seed), steps=count, rows=rows)
    return [{name: array[i] for name, array in drawn.items()} for i in range(count)]


def bits(values: dict[str, np.ndarray]) -> dict[str, bytes]:
    return {name: np.ascontiguousarray(value).tobytes() for name, value in values.items()}


def played(policy: rw.Policy, inputs: Steps) -> list[dict[str, bytes]]:
    return [bits(policy.step(now)) for now in inputs]


def test_outputs_are_the_callers_own(exported: Exported) -> None:
    policy = rw.load(exported.folder)
    first, second = steps(policy, 2)
    kept = policy.step(first)
    before = bits(kept)
    later = policy.step(second)
    assert bits(kept) == before
    for value in (*kept.values(), *later.values()):
        assert value.flags.writeable
        value[...] = 0
    fresh = rw.load(exported.folder)
    played(fresh, [first, second])
    assert played(policy, [first]) == played(fresh, [first])


def test_inputs_are_not_modified(exported: Exported) -> None:
    policy = rw.load(exported.folder)
    for now in steps(policy, 3):
        before = bits(now)
        for value in now.values():
            value.flags.writeable = False
        policy.step(now)
        assert bits(now) == before


def test_two_policies_that_take_turns_never_mix(exported: Exported) -> None:
    one, other = rw.load(exported.folder), rw.load(exported.folder)
    first, second = steps(one, seed=1), steps(one, seed=2)
    mixed = [(bits(one.step(a)), bits(other.step(b))) for a, b in zip(first, second, strict=True)]
    assert [a for a, _ in mixed] == played(rw.load(exported.folder), first)
    assert [b for _, b in mixed] == played(rw.load(exported.folder), second)


def test_lone_file_moved_elsewhere_is_the_same_policy(exported: Exported, tmp_path: Path) -> None:
    lone = shutil.copy(exported.folder / "policy.onnx", tmp_path / "renamed.onnx")
    policy, whole = rw.load(lone), rw.load(exported.folder)
    assert policy.signature == whole.signature
    inputs = steps(whole)
    assert played(policy, inputs) == played(whole, inputs)


def test_two_threads_compute_what_one_computes(load: Load, export_once: Any) -> None:
    inputs = steps(load("cnn"))
    twice = rw.load(export_once("cnn").folder, threads=2)
    assert played(twice, inputs) == played(load("cnn"), inputs)


def test_memory_is_a_copy(load: Load) -> None:
    policy, calm = load("lstm"), load("lstm")
    inputs = steps(policy)
    for now in inputs:
        expected = calm.step(now)["actions"]
        assert np.array_equal(policy.step(now)["actions"], expected)
        for value in policy.memory.values():
            value[...] = 7
    assert {name: value.shape for name, value in policy.memory.items()} == {
        "h": (1, 3, 16), "c": (1, 3, 16),
    }  # fmt: skip


def test_memory_starts_at_its_initial_value(load: Load) -> None:
    policy = load("nonzero_memory")
    assert policy.memory["phase"].tolist() == [[0.25]]
    policy.step({"obs": obs(2, 6)})
    policy.reset()
    assert policy.memory["phase"].tolist() == [[0.25], [0.25]]
    assert np.array_equal(policy.memory["pose"][1], np.float32([0.1, -0.7, 1.4]))


def test_partial_reset_starts_those_rows_anew_and_no_other(load: Load) -> None:
    policy, going_on, fresh = load("lstm_pair"), load("lstm_pair"), load("lstm_pair")
    inputs = steps(policy, 8)
    played(policy, inputs[:4])
    played(going_on, inputs[:4])
    policy.reset(np.array([False, True, False]))
    for now in inputs[4:]:
        got, old, new = policy.step(now), going_on.step(now), fresh.step(now)
        assert np.array_equal(got["actions"][[0, 2]], old["actions"][[0, 2]])
        assert np.array_equal(got["actions"][1], new["actions"][1])


def test_reset_mask_before_the_first_step_is_harmless(load: Load) -> None:
    policy = load("gru")
    policy.reset(np.array([True, False, True]))
    inputs = steps(policy)
    assert played(policy, inputs) == played(load("gru"), inputs)


def test_fixed_rows_are_reset_together(load: Load) -> None:
    policy = load("fixed_batch_lstm")
    inputs = steps(policy)
    played(policy, inputs)
    policy.reset(np.array([True]))
    assert played(policy, inputs) == played(load("fixed_batch_lstm"), inputs)


@pytest.mark.parametrize("case", ["mlp", "lstm", "keeps_buffer", "cnn", "transformer", "flags"])
def test_values_without_a_batch_axis_give_a_row_of_the_batch(load: Load, case: str) -> None:
    together = load(case)
    alone = [load(case) for _ in range(3)]
    for now in steps(together, 5):
        expected = together.step(now)
        for row, policy in enumerate(alone):
            got = policy.step({name: value[row] for name, value in now.items()})
            for name, value in got.items():
                assert value.shape == expected[name].shape[1:]
                assert np.allclose(value, expected[name][row], rtol=1e-5, atol=1e-5)


def test_scalar_action_comes_back_as_a_number(load: Load) -> None:
    action = load("discrete").act(obs(6))
    assert isinstance(action, np.int64)
    assert load("discrete").act(obs(1, 6)).tolist() == [action]


def test_any_order_of_batch_sizes_gives_the_same_rows(load: Load) -> None:
    policy, rng = load("mlp"), np.random.default_rng(0)
    values = rng.standard_normal((40, 6)).astype(np.float32)
    expected = load("mlp").act(values)
    sizes = [*range(1, 3 * MOST_FRAMES), *reversed(range(1, 3 * MOST_FRAMES)), 40, 1, 40]
    for size in sizes:
        assert np.allclose(policy.act(values[:size]), expected[:size], rtol=1e-5, atol=1e-6)


def test_memory_survives_more_sizes_than_buffers_are_kept_for(
    tmp_path: Path, export_once: Callable[[str], Exported]
) -> None:
    policy = rw.load(export_once("transformer_any_length").folder)
    for tokens in [*range(1, 3 * MOST_FRAMES), *range(1, 3 * MOST_FRAMES)]:
        mask = np.zeros((2, tokens), bool)
        mask[:, 1:] = True
        ref = np.full((2, tokens, 5), 0.5, np.float32)
        got = policy.step({"obs": np.ones((2, 6), np.float32), "ref_obs": ref, "ref_mask": mask})
        # Every token but the first is hidden, so their number must not matter.
        first = {"obs": np.ones((2, 6), np.float32), "ref_obs": ref[:, :1], "ref_mask": mask[:, :1]}
        assert np.allclose(got["actions"], policy.step(first)["actions"], atol=1e-5)


def test_repr_shows_the_ports(load: Load) -> None:
    assert repr(load("lstm")) == (
        "Policy(\n"
        "input   obs      float32 (batch, 6)\n"
        "output  actions  float32 (batch, 3)\n"
        "memory  h        float32 (1, batch, 16) from 0.0  h_in → h_out\n"
        "memory  c        float32 (1, batch, 16) from 0.0  c_in → c_out\n"
        ")"
    )


def test_nested_observations_are_taken_as_they_were_given_to_the_module(load: Load) -> None:
    policy = load("nested_dict_observation")
    flat = {
        port.name: np.ones([1, *port.shape[1:]], np.float32) for port in policy.signature.inputs
    }
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        *above, last = name.split(".")
        place = nested
        for each in above:
            place = place.setdefault(each, {})
        place[last] = value
    assert nested.keys() != flat.keys()
    expected, got = policy.step(flat), policy.step(nested)
    assert all(np.array_equal(expected[name], got[name]) for name in expected)
