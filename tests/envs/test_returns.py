"""Non-inferiority: the interval, the margin and the verdict."""

from __future__ import annotations

import numpy as np
import pytest

import roadworthy as rw
from roadworthy.envs.returns import compare_returns

THEIRS = [100.0 + each for each in range(20)]


def test_equal_returns_have_an_interval_of_nothing() -> None:
    earned = compare_returns(THEIRS, THEIRS, margin=0.0, seed=0)
    assert (earned.low, earned.high, earned.not_inferior) == (0.0, 0.0, True)


def test_a_loss_beyond_the_margin_is_inferior_and_within_it_is_not() -> None:
    worse = [each - 3.0 for each in THEIRS]
    assert not compare_returns(THEIRS, worse, margin=2.9, seed=0).not_inferior
    assert compare_returns(THEIRS, worse, margin=3.1, seed=0).not_inferior


def test_a_gain_is_never_inferior() -> None:
    assert compare_returns(THEIRS, [each + 50 for each in THEIRS], margin=0, seed=0).not_inferior


def test_the_margin_is_a_share_of_the_mean_where_none_is_given() -> None:
    assert compare_returns(THEIRS, THEIRS, margin=None, seed=0).margin == pytest.approx(
        0.05 * np.mean(THEIRS)
    )


def test_noise_widens_the_interval_and_few_episodes_prove_little() -> None:
    rng = np.random.default_rng(0)
    noisy = [each + rng.normal(0, 40) for each in THEIRS]
    few = compare_returns(THEIRS[:3], noisy[:3], margin=1.0, seed=0)
    many = compare_returns(THEIRS, noisy, margin=1.0, seed=0)
    assert few.high - few.low > many.high - many.low > 10
    assert not few.not_inferior


def test_the_text_shows_means_interval_and_margin() -> None:
    text = str(compare_returns([10.0, 10.0], [9.0, 9.0], margin=2.0, seed=0))
    assert text == (
        "mean return 9 against 10 in 2 episodes, difference in [-1, -1] (95% interval, margin 2)"
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
