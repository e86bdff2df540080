"""What a graph says about the values and the steps worth trying."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw
from roadworthy.capture.capture import capture
from roadworthy.spec.sampling import Sampling
from tests.verdicts import corners


def sampling(function: Callable[..., Tensor], **description: Any) -> Sampling:
    return capture(corners.source(function, **description)).sampling


LIMITS = torch.tensor([100.0, 200.0, 300.0, 400.0, 500.0, 600.0])


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda net, obs: net(obs), ()),
        (lambda net, obs: net(obs) * (obs[:, :1] > 150), (150.0,)),
        (lambda net, obs: net(obs.clamp(-7, 9)), (7.0, 9.0)),
        (lambda net, obs: net(obs).clamp(min=-0.5), (0.5,)),
        (
            lambda net, obs: net(torch.where(obs > 2 * LIMITS, obs, 0.0)),
            (200.0, 400.0, 600.0, 800.0, 1000.0, 1200.0),
        ),
        (lambda net, obs: net(torch.remainder(obs, 2.5)), (2.5,)),
        (lambda net, obs: net(torch.minimum(obs, torch.tensor(77.0))), (77.0,)),
        (lambda net, obs: net(nn.functional.relu6(obs)), (6.0,)),
        (lambda net, obs: net(torch.bucketize(obs, LIMITS[:2]).float()), (100.0, 200.0)),
        (lambda net, obs: net(obs.masked_fill(obs == 33, torch.finfo(obs.dtype).min)), (33.0,)),
        (lambda net, obs: net(torch.threshold(obs, 20.0, 1.0)), (1.0, 20.0)),
    ],
)  # fmt: skip
def test_thresholds_are_the_constants_that_values_are_compared_with(
    function: Callable[..., Tensor], expected: tuple[float, ...]
) -> None:
    assert sampling(function).thresholds == expected


def test_a_table_of_bins_is_thinned_out() -> None:
    bins = torch.linspace(1, 1000, 300)
    found = sampling(lambda net, obs: net(torch.bucketize(obs, bins).float())).thresholds
    assert len(found) == 32
    assert (found[0], found[-1]) == (1.0, 1000.0)


@pytest.mark.parametrize(
    ("make", "steps"),
    [
        (lambda: corners.source(lambda net, obs: net(obs)), 0),
        (lambda: corners.Delay.source(100), 100),
        (lambda: corners.Rolled.source(90), 90),
        (lambda: corners.chain_source(0), 12),
        (lambda: corners.Counter.source(200.0, 1.0), 200),
        (lambda: corners.Counter.source(3.0, 0.02), 150),
        (lambda: corners.Stall.source(120.0, 1.0), 120),
    ],
)
def test_the_horizon_is_the_length_of_delays_and_counters(
    make: Callable[[], rw.Source], steps: int
) -> None:
    assert capture(make()).sampling.horizon == steps


class FlatHistory(nn.Module):
    """Ten observations of six numbers in one row: it moves by six at a time."""

    def forward(self, obs: Tensor, history: Tensor) -> tuple[Tensor, Tensor]:
        history = torch.cat([history[:, 6:], obs], dim=-1)
        return history.sum(dim=-1, keepdim=True), history


def test_a_flat_history_is_as_long_as_it_has_observations() -> None:
    source = rw.Source(
        FlatHistory(), example={"obs": torch.zeros(1, 6)}, memory={"history": torch.zeros(1, 60)}
    )
    assert capture(source).sampling.horizon == 10


def test_a_recurrent_network_has_no_horizon() -> None:
    from tests.policies import CASES

    for name in ("lstm_pair", "gru", "own_cell", "action_filter"):
        assert capture(CASES[name].make()).sampling.horizon <= 2, name


@pytest.mark.parametrize("name", ["normalized_sb3", "normalized_rsl_rl", "joint_targets"])
def test_the_statistics_of_a_normaliser_say_where_values_are(name: str) -> None:
    from tests.policies import CASES, MEAN, VAR

    typical = capture(CASES[name].make()).sampling.typical["obs"]
    assert typical.mean == pytest.approx(MEAN.tolist())
    assert typical.spread == pytest.approx((VAR**0.5).tolist(), abs=0.011)


@pytest.mark.parametrize("name", ["normalized_by_module", "normalized_lstm"])
def test_a_normaliser_inside_the_module_is_seen(name: str) -> None:
    from tests.policies import CASES

    typical = capture(CASES[name].make()).sampling.typical["obs"]
    assert typical.mean == pytest.approx(torch.linspace(-1.0, 2.0, 6).tolist(), abs=1e-6)


def test_batch_norm_is_a_normaliser() -> None:
    norm = nn.BatchNorm1d(6)
    norm.running_mean = torch.full((6,), 40.0)
    source = rw.Source(nn.Sequential(norm, nn.Linear(6, 2)).eval(), example=torch.zeros(1, 6))
    assert capture(source).sampling.typical["input"].mean == (40.0,) * 6
