"""Drawn values: within the limits, at corners and thresholds, the same for the same seed."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import roadworthy as rw
from roadworthy.spec.corners import corners
from roadworthy.spec.port import Memory, Port
from roadworthy.spec.run import draw_resets
from roadworthy.spec.samples import draw, draw_ordinary
from roadworthy.spec.sampling import MOST_STEPS, Sampling, Typical
from roadworthy.spec.signature import Signature

OUT = Port(name="actions", dtype="float32", shape=("batch", 2))


def port(dtype: str = "float32", shape: tuple[Any, ...] = ("batch", 6), **about: Any) -> Port:
    return Port(name="obs", dtype=dtype, shape=shape, about=rw.About(**about))


def drawn(one: Port, sampling: Sampling | None = None, *, steps: int = 256, seed: int = 0) -> Any:
    out = OUT if "batch" in one.shape else Port(name="actions", dtype="float32", shape=(2, 2))
    signature = Signature(inputs=(one,), outputs=(out,))
    rng = np.random.default_rng(seed)
    return draw(signature, rng, steps=steps, rows=2, sampling=sampling)["obs"]


@pytest.mark.parametrize(
    ("low", "high"), [(200, 400), (-1e6, 1e6), (0, 1e-4), (3e4, 3.0001e4), (-5, -4)]
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_values_fill_the_limits_whatever_they_are(dtype: str, low: float, high: float) -> None:
    values = drawn(port(dtype, low=low, high=high))
    ends = np.clip([low, high], -65504, 65504) if dtype == "float16" else np.array([low, high])
    first, last = ends.astype(dtype)
    assert values.dtype == dtype
    assert values.min() == first
    assert values.max() == last
    assert np.isin(np.nextafter(first, last), values)
    assert np.isin(np.nextafter(last, first), values)
    if dtype != "float16":
        middle = (values > first + 0.25 * (last - first)) & (values < last - 0.25 * (last - first))
        assert middle.mean() > 0.25


def test_one_sided_and_missing_limits_hold_element_by_element() -> None:
    low, high = [-1, 200, -np.inf, 0, -3.4e38, -np.inf], [1, 400, 7, np.inf, 3.4e38, np.inf]
    values = drawn(port(low=low, high=high))
    assert (values >= np.float32(low)).all()
    assert (values <= np.float32(high)).all()
    assert np.abs(values[..., 4:]).max() > 1e3
    assert np.abs(values[..., 4:]).max() < 1e6
    assert values[..., 3].max() > 10
    assert values[..., 2].min() < -10
    assert values[..., 1].std() > 30


def test_values_without_limits_have_several_scales_and_most_are_ordinary() -> None:
    sizes = np.abs(drawn(port()))
    largest = sizes.max(axis=-1)
    assert sizes.max() == pytest.approx(1e5)
    assert ((sizes > 1e3) & (sizes < 1e4)).any()
    assert ((sizes > 0) & (sizes < 1e-2)).any()
    assert ((largest > 0.3) & (largest < 5)).mean() > 0.4
    assert np.abs(drawn(port("float16"))).max() <= 65504


def test_values_follow_the_statistics_of_a_normaliser() -> None:
    typical = {"obs": Typical(mean=[500.0] * 6, spread=[1e-3] * 6)}
    values = drawn(port(), Sampling(typical=typical))
    assert (np.abs(values - 500) < 0.05).all(axis=-1).mean() > 0.3


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_corner_is_in_a_trace(dtype: str, seed: int) -> None:
    one = port(dtype)
    rows = drawn(one, seed=seed).reshape(-1, 6)
    present = {row.tobytes() for row in rows}
    named = corners(one, (6,))
    assert {"zeros", "-0.0", "ones", "π", "-π", "one-hot 5", "quaternions on -z"} <= set(named)
    assert "after many turns back" in named
    assert [name for name, row in named.items() if row.tobytes() not in present] == []


def test_masks_are_empty_full_and_mixed() -> None:
    flags = drawn(port("bool"))
    assert (~flags).all(axis=-1).any()
    assert flags.all(axis=-1).any()
    assert 0.3 < flags.mean() < 0.8


def test_whole_numbers_reach_their_ends_and_beyond_where_nothing_is_said() -> None:
    limited = drawn(port("int64", low=-(2**63), high=2**63 - 1))
    assert (limited.min(), limited.max()) == (-(2**63), 2**63 - 1)
    assert set(np.unique(drawn(port("int64")))) == {-1, 0, 1}
    assert set(np.unique(drawn(port("int32"), Sampling(thresholds=(150.0,))))) == {
        -1, 0, 1, 149, 150, 151,
    }  # fmt: skip
    assert set(np.unique(drawn(port("int8", low=3, high=5)))) == {3, 4, 5}
    pixels = drawn(port("uint8", shape=("batch", 3)))
    assert (pixels.min(), pixels.max()) == (0, 255)


@pytest.mark.parametrize("threshold", [150.0, 200.0, 3e4, 0.0123])
def test_every_element_meets_a_threshold_and_both_sides_of_it(threshold: float) -> None:
    values = drawn(port(), Sampling(thresholds=(threshold,)))
    exact = np.float32(threshold)
    for wanted in (exact, -exact):
        around = (wanted, np.nextafter(wanted, -np.inf), np.nextafter(wanted, np.inf))
        beside = (wanted * np.float32(0.999), wanted * np.float32(1.001))
        met = [values == each for each in around]
        met += [np.abs(values - each) <= 1e-6 * np.abs(each) for each in beside]
        assert all(each.reshape(-1, 6).any(axis=0).all() for each in met)
    length = np.linalg.norm(values.astype(np.float64), axis=-1)
    assert (np.abs(length - 1.001 * threshold) < 1e-5 * threshold).any()


def test_thresholds_outside_the_limits_are_not_tried() -> None:
    values = drawn(port(low=-1, high=1), Sampling(thresholds=(0.5, 150.0)))
    assert (values == np.float32(0.5)).any()
    assert np.abs(values).max() == 1


def test_rows_repeat_and_equal_their_neighbours() -> None:
    values = drawn(port())
    assert (values[1:] == values[:-1]).all(axis=-1).any()
    assert (values[:, 0] == values[:, 1]).all(axis=-1).any()


def test_what_was_left_out_is_not_drawn() -> None:
    left_out = {"obs": {"all False": "the original raises"}}
    assert drawn(port("bool"), Sampling(left_out=left_out)).any(axis=-1).all()


def test_the_same_seed_gives_the_same_bytes() -> None:
    sampling = Sampling(thresholds=(3.0,), horizon=50)
    one, same, other = (drawn(port(), sampling, seed=seed).tobytes() for seed in (1, 1, 2))
    assert one == same != other


def test_daily_values_have_one_scale() -> None:
    signature = Signature(inputs=(port(),), outputs=(OUT,))
    values = draw_ordinary(signature, np.random.default_rng(0), steps=64, rows=2)["obs"]
    assert np.abs(values).max() <= 100
    assert not (values == 0).all(axis=-1).any()


@pytest.mark.parametrize("shape", [("batch",), (2, "batch", 3), ("batch", 5, "tokens"), (2, 4)])
def test_rows_are_where_the_port_has_them(shape: tuple[Any, ...]) -> None:
    one = port(shape=shape)
    values = drawn(one, Sampling(thresholds=(150.0,), horizon=20), steps=100)
    assert values.shape == (
        100,
        *(2 if each == "batch" else {"tokens": 4}.get(each, each) for each in shape),
    )
    axis = 1 + (shape.index("batch") if "batch" in shape else 0)
    still = np.moveaxis(values, axis, 1)[:28, 1]
    assert not still.any()


def test_large_rows_come_from_a_small_pool() -> None:
    image = port(shape=("batch", 3, 40, 40), low=0, high=1)
    values = drawn(image, Sampling(thresholds=(0.5,)))
    assert len({row.tobytes() for row in values.reshape(-1, 3 * 40 * 40)}) <= 24
    assert (values == np.float32(0.5)).any()


@pytest.mark.parametrize(("rows", "horizon"), [(2, 100), (1, 100), (2, 700), (7, 300), (2, 5000)])
def test_some_rows_live_as_long_as_the_horizon_is(rows: int, horizon: int) -> None:
    sampling = Sampling(horizon=horizon)
    state = Memory(name="count", dtype="float32", shape=("batch", 1))
    signature = Signature(inputs=(port(),), outputs=(OUT,), memory=(state,))
    steps = sampling.steps(256, rows=rows)
    resets = draw_resets(
        signature, np.random.default_rng(0), steps=steps, rows=rows, life=sampling.life
    )
    assert steps <= MOST_STEPS
    assert resets[0].all()
    assert sampling.beyond_reach == (horizon == 5000)
    longest = max(_lives(resets[:, row]) for row in range(rows))
    assert longest >= min(horizon + 8, MOST_STEPS)
    if rows == 1:
        assert resets[sampling.life, 0], "a single row lives twice: once in motion, once still"


def _lives(resets: Any) -> int:
    begins = [*np.flatnonzero(resets).tolist(), len(resets)]
    return max(b - a for a, b in itertools.pairwise(begins))


def test_sampling_survives_json() -> None:
    sampling = Sampling(
        thresholds=(1.5, 200.0),
        horizon=7,
        typical={"obs": Typical(mean=(1.0, 2.0), spread=3.0)},
        left_out={"mask": {"all False": "the original raises"}},
    )
    assert Sampling.from_json(sampling.to_json()) == sampling
