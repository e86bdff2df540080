"""Values that do not fit are refused with the reason, all at once, and the policy goes on."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from roadworthy.runtime import feeds
from roadworthy.runtime.feeds import PrecisionWarning
from roadworthy.spec.port import Port
from tests.runtime.conftest import Load, obs, refusal


def test_unknown_name_is_answered_with_the_nearest(load: Load) -> None:
    assert refusal(load("mlp"), {"obss": obs(6)}) == [
        "[RW011] obss: no such input\n  → did you mean 'obs'?",
        "[RW011] obs: missing input, expected float32 (batch, 6)",
    ]


def test_unknown_name_far_from_any_lists_the_known_ones(load: Load) -> None:
    found = refusal(load("mlp"), {"obs": obs(6), "zzz": obs(6)})
    assert found == ["[RW011] zzz: no such input\n  → known: 'obs'"]


def test_missing_names_are_all_reported(load: Load) -> None:
    assert refusal(load("transformer"), {}) == [
        "[RW011] obs: missing input, expected float32 (batch, 6)",
        "[RW011] ref_obs: missing input, expected float32 (batch, 4, 5)",
        "[RW011] ref_mask: missing input, expected bool (batch, 4)",
    ]


def test_several_mistakes_are_reported_at_once(load: Load) -> None:
    values = {"obs": np.zeros((1, 6), np.int64), "mask": obs(1, 4), "ref_mask": obs(1, 4)}
    codes = [text.partition(":")[0] for text in refusal(load("transformer"), values)]
    assert codes == ["[RW011] mask", "[RW011] ref_obs", "[RW010] obs", "[RW010] ref_mask"]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((3, 5), "expected float32 (batch, 6), got float32 (3, 5)\n  → the last axis must be 6"),
        ((5,), "expected float32 (batch, 6), got float32 (5,)\n  → the last axis must be 6"),
        ((1, 1, 6), "got float32 (1, 1, 6)\n  → drop the extra axes: obs.reshape(-1, 6)"),
        ((), "expected float32 (batch, 6), got float32 ()"),
        ((0, 6), "got float32 (0, 6)\n  → the batch is empty: pass at least one row"),
    ],
)
def test_wrong_shape_shows_both_sides(load: Load, shape: tuple[int, ...], expected: str) -> None:
    (found,) = refusal(load("mlp"), {"obs": obs(*shape)})
    assert found.startswith("[RW012] obs: ")
    assert expected in found


def test_two_wrong_shapes_are_both_reported(load: Load) -> None:
    found = refusal(load("flags"), {"obs": obs(1, 7), "contacts": np.zeros((1, 5), bool)})
    assert [text.partition(":")[0] for text in found] == ["[RW012] obs", "[RW012] contacts"]


def test_values_with_and_without_a_batch_axis_do_not_mix(load: Load) -> None:
    found = refusal(load("flags"), {"obs": obs(6), "contacts": np.zeros((1, 4), bool)})
    assert found == [
        "[RW012] contacts: got (1, 4) with a batch axis, while another input has none"
        "\n  → give every input a batch axis, or none"
    ]


def test_two_inputs_must_have_the_same_number_of_rows(load: Load) -> None:
    found = refusal(load("flags"), {"obs": obs(3, 6), "contacts": np.zeros((2, 4), bool)})
    assert found == [
        "[RW012] contacts: expected bool (batch, 4) with batch = 3, got bool (2, 4)",
    ]


def test_fixed_batch_takes_that_number_of_rows_only(load: Load) -> None:
    (found,) = refusal(load("fixed_batch"), {"obs": obs(2, 6)})
    assert "[RW012] obs: expected float32 (1, 6), got float32 (2, 6)" in found
    assert "this policy was exported for one row, no more and no fewer" in found


@pytest.mark.parametrize(
    ("case", "value", "expected"),
    [
        (
            "mlp",
            np.zeros((1, 6), np.int64),
            "[RW010] obs: expected float32 (batch, 6), got int64 (1, 6)"
            "\n  → pass obs.astype(np.float32) if that is what the policy was trained on",
        ),
        (
            "mlp",
            np.zeros((1, 6), np.uint8),
            "[RW010] obs: expected float32 (batch, 6), got uint8 (1, 6)"
            "\n  → pass obs.astype(np.float32), divided by 255 if the policy was trained on [0, 1]",
        ),
        (
            "discrete_observation",
            np.array([1.0]),
            "[RW010] obs: expected int64 (batch,), got float64 (1,)"
            "\n  → pass obs.astype(np.int64) if the fractions do not matter",
        ),
        (
            "half_precision",
            np.zeros((1, 6), np.float32),
            "[RW010] obs: expected float16 (batch, 6), got float32 (1, 6)"
            "\n  → pass obs.astype(np.float16) if that is what the policy was trained on",
        ),
        (
            "mlp",
            ["a"] * 6,
            "[RW010] obs: expected float32 (batch, 6), got <U1 (6,)"
            "\n  → pass obs.astype(np.float32) if that is what the policy was trained on",
        ),
    ],
)
def test_other_dtype_is_refused_with_the_cast_to_write(
    load: Load, case: str, value: Any, expected: str
) -> None:
    assert refusal(load(case), {"obs": value}) == [expected]


def test_flags_take_no_integers(load: Load) -> None:
    found = refusal(load("flags"), {"obs": obs(1, 6), "contacts": np.ones((1, 4), np.int64)})
    assert found == [
        "[RW010] contacts: expected bool (batch, 4), got int64 (1, 4)"
        "\n  → pass contacts != 0, or say which values mean True"
    ]


def test_ragged_list_is_no_array(load: Load) -> None:
    (found,) = refusal(load("mlp"), {"obs": [[1.0], [1.0, 2.0]]})
    expected = "[RW010] obs: expected float32 (batch, 6), got a list that NumPy cannot read: "
    assert found.startswith(expected)


def test_narrower_integers_and_floats_are_widened(load: Load) -> None:
    table = load("discrete_observation")
    assert [table.act(np.int32(i)) for i in range(12)] == [table.act(i) for i in range(12)]
    half = np.linspace(-1, 1, 6).astype(np.float16)
    policy = load("mlp")
    assert np.array_equal(policy.act(half), policy.act(half.astype(np.float32)))


def test_float64_is_rounded_with_one_warning_at_the_callers_line(load: Load) -> None:
    policy = load("mlp")
    value = np.linspace(-1, 1, 6)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rounded = policy.act(value)
        policy.step({"obs": value[None]})
    assert [(each.category, each.filename) for each in caught] == [(PrecisionWarning, __file__)]
    assert str(caught[0].message) == "obs: float64 values are rounded to float32 (said once)"
    assert np.array_equal(rounded, policy.act(value.astype(np.float32)))


def test_float64_warning_of_a_step_points_at_the_caller_too(load: Load) -> None:
    with pytest.warns(PrecisionWarning) as caught:
        load("mlp").step({"obs": np.zeros((1, 6))})
    assert [each.filename for each in caught] == [__file__]


def test_list_of_floats_is_accepted(load: Load) -> None:
    policy = load("mlp")
    with pytest.warns(PrecisionWarning):
        given = policy.act([0.5] * 6)
    assert np.array_equal(given, policy.act(np.full(6, 0.5, np.float32)))


def test_float64_that_overflows_is_refused(load: Load) -> None:
    found = refusal(load("mlp"), {"obs": np.full((1, 6), 1e39)})
    assert found == [
        "[RW010] obs: a float64 value of 1e+39 overflows float32"
        "\n  → clip the value, or look for a sensor that reads infinity"
    ]


def test_an_axis_of_open_size_was_not_exported_for_some_rows() -> None:
    port = Port(name="path", dtype="float32", shape=("points", 3))
    finding = feeds._wrong_shape(port, np.zeros((0, 3), np.float64), {})
    assert "exported for" not in finding.hint
    finding = feeds._wrong_shape(port, np.zeros((5, 3), np.float64), {})
    assert "exported for" not in finding.hint
