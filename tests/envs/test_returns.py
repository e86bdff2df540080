"""Returns of both sides: the interval, the margin, the power and the verdict."""

from __future__ import annotations

import json

import numpy as np
import pytest

import roadworthy as rw
from roadworthy.runtime.gym.returns import compare_returns

THEIRS = [100.0 + each for each in range(20)]


def test_equal_returns_have_an_interval_of_nothing() -> None:
    earned = compare_returns(THEIRS, THEIRS, margin=0.0, seed=0)
    assert (earned.low, earned.high, earned.differs) == (0.0, 0.0, False)
    assert earned.verdict == "earns what the original earns"


@pytest.mark.parametrize(
    ("change", "verdict"),
    [(-3.0, "earns less than the original"), (3.0, "earns more than the original")],
)
def test_a_difference_beyond_the_margin_is_seen_in_both_directions(
    change: float, verdict: str
) -> None:
    other = [each + change for each in THEIRS]
    seen = compare_returns(THEIRS, other, margin=2.9, seed=0)
    assert (seen.differs, seen.verdict) == (True, verdict)
    assert not compare_returns(THEIRS, other, margin=3.1, seed=0).differs


def test_the_words_have_the_sign_right_where_returns_are_negative() -> None:
    """-358 is more than -551."""
    theirs, ours = [-551.0, -551.5, -550.5], [-358.0, -358.5, -357.5]
    assert (
        compare_returns(theirs, ours, margin=None, seed=0).verdict == "earns more than the original"
    )
    assert (
        compare_returns(ours, theirs, margin=None, seed=0).verdict == "earns less than the original"
    )


def test_what_the_originals_own_twin_shows_is_no_fault() -> None:
    ours = [each - 20.0 for each in THEIRS]
    assert compare_returns(THEIRS, ours, margin=2.0, seed=0).differs
    alike = compare_returns(THEIRS, ours, margin=2.0, seed=0, twin=[each - 19 for each in THEIRS])
    assert alike.differs  # less than its twin, too
    rng = np.random.default_rng(1)
    twin = [each + rng.normal(-20, 30) for each in THEIRS]
    assert not compare_returns(THEIRS, ours, margin=2.0, seed=0, twin=twin).differs


def test_the_margin_is_a_share_of_the_mean_where_none_is_given() -> None:
    assert compare_returns(THEIRS, THEIRS, margin=None, seed=0).margin == pytest.approx(
        0.05 * np.mean(THEIRS)
    )


def test_few_episodes_prove_little_and_say_so() -> None:
    rng = np.random.default_rng(0)
    noisy = [each + rng.normal(0, 40) for each in THEIRS]
    few = compare_returns(THEIRS[:3], noisy[:3], margin=1.0, seed=0)
    many = compare_returns(THEIRS, noisy, margin=1.0, seed=0)
    assert few.power > many.power > 10
    assert not few.differs
    assert many.episodes_needed is not None
    assert many.episodes_needed > 20
    one = compare_returns([1.0], [2.0], margin=0.1, seed=0)
    assert (one.differs, one.power) == (False, float("inf"))
    json.dumps(one.to_json(), allow_nan=False)


def test_the_text_shows_means_interval_margin_and_power() -> None:
    text = str(compare_returns([10.0, 10.0], [9.0, 9.0], margin=2.0, seed=0, twin=[9.0, 10.0]))
    assert text == (
        "mean return 9 against 10, 9.5 for the original's own twin in 2 episodes, difference in "
        "[-1, -1] (99% interval, margin 2); 2 would have been seen"
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"episodes": 0}, "episodes must be at least 1, got 0"),
        ({"margin": -1.0}, "margin must be 0 or more, got -1.0"),
        ({"tie_margin": float("nan")}, "tie_margin must be 0 or more, got nan"),
    ],
)
def test_a_world_refuses_impossible_numbers(options: dict[str, float], text: str) -> None:
    with pytest.raises(rw.RoadworthyError) as caught:
        rw.ClosedLoop("CartPole-v1", **options)  # type: ignore[arg-type]
    assert text in str(caught.value)
