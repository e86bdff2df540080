"""Tolerances are measured: good policies of any scale pass, and a tiny wrong weight is seen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw
from roadworthy.capture.capture import capture
from roadworthy.spec.tolerance import ROUNDINGS
from roadworthy.spec.trace import Trace, exponents, powers
from roadworthy.verification.budget import Budget, measure
from roadworthy.verification.checks import replay
from roadworthy.verification.judging import _judged
from roadworthy.verification.originals.module import original_of
from roadworthy.verification.states import StateLayout, States
from roadworthy.verification.twins import moved
from tests.conftest import Exported

SEEDS = (0, 1, 2)
GOOD: dict[str, Callable[[], rw.Source]] = {}
# Right artifacts were never further from the exact policy than so many times PyTorch's rounding.
RIGHT = 8.0


def good(make: Callable[[], rw.Source]) -> Callable[[], rw.Source]:
    GOOD[make.__name__] = make
    return make


def net(inputs: int = 6, outputs: int = 1, width: int = 64) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, width), nn.ELU(), nn.Linear(width, width), nn.ELU(),
        nn.Linear(width, outputs),
    )  # fmt: skip


class Around(nn.Module):
    """A network with something done to what enters and leaves it."""

    def __init__(
        self,
        before: Callable[[Tensor], Tensor],
        after: Callable[[Tensor], Tensor],
        outputs: int = 1,
    ) -> None:
        super().__init__()
        self.net, self.before, self.after = net(outputs=outputs), before, after

    def forward(self, obs: Tensor) -> Tensor:
        return self.after(self.net(self.before(obs)))


def same(values: Tensor) -> Tensor:
    return values


def obs(size: int = 6) -> dict[str, Tensor]:
    return {"obs": torch.zeros(1, size)}


@good
def scale_offset() -> rw.Source:
    return rw.Source(net(), example=obs(), action=rw.ScaleOffset(scale=100.0, offset=3.0))


@good
def wide_bounds() -> rw.Source:
    steps = (rw.Tanh(), rw.ScaleToBounds(low=[-100.0], high=[100.0]))
    return rw.Source(net(), example=obs(), action=steps)


class Valued(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.actor, self.critic = net(outputs=3), net()

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        return self.actor(obs), self.critic(obs) * 300


@good
def value_head() -> rw.Source:
    return rw.Source(Valued(), example=obs(), outputs=("actions", "value"))


@good
def large_observations() -> rw.Source:
    return rw.Source(Around(lambda x: x * 20, same), example=obs())


@good
def mixed_scales() -> rw.Source:
    scales = torch.tensor([1e-3, 1e-1, 1.0, 1e2, 1e4])
    return rw.Source(Around(same, lambda y: y * scales, outputs=5), example=obs())


@good
def motor_ticks() -> rw.Source:
    return rw.Source(Around(same, lambda y: torch.round(y * 2048) / 2048, outputs=8), example=obs())


@good
def half_inside() -> rw.Source:
    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(6, 64), nn.Linear(64, 2)

        def forward(self, obs: Tensor) -> Tensor:
            return self.last(torch.tanh(self.first(obs)).half().float())

    return rw.Source(Half(), example=obs())


@good
def close_logits() -> rw.Source:
    class Close(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net()

        def forward(self, obs: Tensor) -> Tensor:
            shared = self.net(obs)
            return shared * (1 + 1e-7 * torch.arange(4.0)) + 1e-8 * obs[:, :4]

    return rw.Source(Close(), example=obs(), action=rw.Argmax())


@good
def best_of_equals() -> rw.Source:
    class TopK(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net(outputs=4)

        def forward(self, obs: Tensor) -> Tensor:
            values = self.net(obs)
            return torch.cat([values, values + 1e-9], -1).topk(3, dim=-1).indices

    return rw.Source(TopK(), example=obs())


class Rnn(nn.Module):
    """h ← tanh(W h + U obs), whose weights are large enough for chaos."""

    def __init__(self, gain: float) -> None:
        super().__init__()
        self.w = nn.Parameter(gain * torch.randn(32, 32) / 32**0.5)
        self.u, self.head = nn.Linear(6, 32), nn.Linear(32, 2)

    def forward(self, obs: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(h @ self.w.T + self.u(obs))
        return self.head(h), h


def rnn(gain: float) -> rw.Source:
    return rw.Source(Rnn(gain), example=obs(), memory={"h": torch.zeros(1, 32)})


for gain in (1.2, 2.0, 3.0):
    GOOD[f"rnn_{gain}"] = lambda gain=gain: rnn(gain)  # type: ignore[misc]


@good
def loud_gru() -> rw.Source:
    class Gru(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.head = nn.GRUCell(6, 16), nn.Linear(16, 2)
            with torch.no_grad():
                for each in self.cell.parameters():
                    each.mul_(8)

        def forward(self, obs: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
            h = self.cell(obs, h)
            return self.head(h), h

    return rw.Source(Gru(), example=obs(), memory={"h": torch.zeros(1, 16)})


@good
def integrator() -> rw.Source:
    class Integrates(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net(outputs=2)

        def forward(self, obs: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
            total = total + 0.01 * self.net(obs)
            return total - 1e4, total

    return rw.Source(Integrates(), example=obs(), memory={"total": torch.full((1, 2), 1e4)})


def made(name: str, seed: int) -> rw.Source:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(100 + seed)
        return GOOD[name]()


def worst(certificate: rw.Certificate) -> float:
    found = [each.roundings for check in certificate.checks for each in check.differences]
    return max(each for each in found if each is not None) if any(found) else 0.0


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", GOOD)
def test_a_good_policy_of_any_scale_is_certified(name: str, seed: int, tmp_path: Path) -> None:
    bundle = rw.export(made(name, seed), tmp_path / "b")
    certificate = rw.Certificate.from_bytes(bundle.files["certificate.json"])
    # Of large values a tick is eight units in the last place: that much is one that turned.
    assert worst(certificate) < (ROUNDINGS if name == "motor_ticks" else RIGHT)
    rw.verify(tmp_path / "b", seed=seed + 1).raise_if_failed()


# One of each kind; all 48 of the registry were tried once, with three weights each.
WATCHED = (
    "mlp", "normalized_sb3", "lstm", "gru_two_layers", "keeps_pair", "nonzero_memory", "cnn",
    "transformer", "masked_discrete", "multi_discrete", "window_transformer", "fixed_batch_lstm",
)  # fmt: skip


def moved_weight(source: rw.Source, seed: int) -> rw.Source:
    """The source, one weight of which is moved by 0.1 % of a typical weight of its matrix."""
    rng = np.random.default_rng(seed)
    matrices = [each for each in source.module.parameters() if each.ndim > 1]
    matrix = matrices[rng.integers(len(matrices))]
    with torch.no_grad():
        matrix.view(-1)[int(rng.integers(matrix.numel()))] += 1e-3 * matrix.abs().mean()
    return source


@pytest.mark.parametrize("name", WATCHED)
def test_one_weight_moved_by_a_thousandth_is_seen(
    export_once: Callable[[str], Exported], name: str
) -> None:
    exported = export_once(name)
    certificate = rw.verify(exported.folder, against=moved_weight(exported.case.make(), 1), seed=3)
    failed = {check.name for check in certificate.checks if not check.passed}
    assert failed & {"fresh steps", "logits"}
    assert worst(certificate) > 3 * 20


def test_what_rounding_hides_is_hidden_and_nobody_can_see_it(
    export_once: Callable[[str], Exported],
) -> None:
    """In float16 a weight of which a thousandth is missing is within a unit or two."""
    exported = export_once("half_precision")
    moved_module = moved_weight(exported.case.make(), 1)
    assert rw.verify(exported.folder, against=moved_module, seed=3).passed


def test_the_certificate_says_how_far_it_is_and_may_be(
    export_once: Callable[[str], Exported],
) -> None:
    exported = export_once("lstm")
    certificate = rw.verify(exported.folder, against=exported.source).raise_if_failed()
    live, free = (
        next(c for c in certificate.checks if c.name == n) for n in ("fresh steps", "free run")
    )
    assert live.facts["allowed_roundings"] == 20.0
    assert live.facts["float64"] is True
    assert set(live.facts["roundings"]) == {"actions", "memory h", "memory c"}
    assert live.claim.startswith("one step from each of 640 visited states agrees")
    assert free.claim.endswith("departs no further than the original's own twins")
    assert "no further from the exact policy than" in str(certificate)
    assert rw.Certificate.from_json(certificate.to_json()) == certificate


def test_a_trace_without_measured_tolerances_is_replayed_with_fixed_ones(
    export_once: Callable[[str], Exported],
) -> None:
    exported = export_once("lstm")
    trace = Trace.from_bytes(exported.bundle.files["trace.npz"])
    assert trace.allowed["actions"].shape == trace.outputs["actions"].shape
    old = Trace(inputs=trace.inputs, outputs=trace.outputs, resets=trace.resets)
    for each, measured in ((trace, True), (old, False)):
        check = replay(rw.load(exported.folder), Trace.from_bytes(each.to_bytes()))
        assert check.passed
        assert check.facts["measured"] is measured
    shifted = {"actions": trace.outputs["actions"] + np.float32(5e-6)}
    wrong = Trace(inputs=trace.inputs, outputs=shifted, resets=trace.resets, allowed=trace.allowed)
    assert not replay(rw.load(exported.folder), wrong).passed


def test_tolerances_are_stored_as_the_next_power_of_two() -> None:
    values = np.array([0.0, 1e-30, 0.3, 0.5, 1.0, 1.1, 1e30, np.inf])
    stored = exponents(values)
    assert stored.dtype == np.int8
    back = powers(stored)
    assert (back >= values).all()
    finite = np.isfinite(values) & (values > 0)
    assert (back[finite] < 2 * values[finite] * (1 + 1e-12)).all()
    assert back[0] == 0.0
    assert np.isinf(back[-1])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_twin_is_one_unit_away_and_zeros_stay(dtype: str) -> None:
    values = np.array([0.0, 1.0, -1.0, 1e-3, -250.0, np.inf, np.nan], dtype)
    twin = moved(values, np.random.default_rng(0))
    with np.errstate(invalid="ignore"):
        units = np.abs(twin - values)[1:5] / np.spacing(np.abs(values[1:5]))
    assert ((units == 1) | (units == 0.5)).all()  # below a power of two units are half as large
    assert twin[0] == 0
    assert np.isinf(twin[5])
    assert np.isnan(twin[6])
    whole = np.arange(5)
    assert moved(whole, np.random.default_rng(0)) is whole


class Bits(nn.Module):
    """Reads the bits of a float32, which a float64 does not have."""

    def forward(self, obs: Tensor) -> Tensor:
        positive = torch.full((6,), 0x7FFFFFFF, dtype=torch.int32)
        return (obs.view(torch.int32) & positive).view(torch.float32) * 3.1


def test_where_float64_cannot_run_the_twins_stand_for_it() -> None:
    source = rw.Source(Bits(), example=obs())
    program = capture(source)
    yardstick = original_of(source, program).yardstick(program.signature)
    assert yardstick is not None
    rng = np.random.default_rng(0)
    values = rng.standard_normal((40, 6)).astype(np.float32)
    budget = measure(yardstick, StateLayout(program.signature), States({"obs": values}, {}), rng)
    assert not budget.exact
    assert yardstick.inexact
    assert (budget.rounding["actions"] > 0).all()
    assert (budget.rounding["actions"] < 1e-5).all()


@pytest.mark.parametrize(
    ("own", "got", "passes"),
    [
        (0.0, 10.0, True),
        (0.0, 30.0, False),
        # A GPU's kernels round more than the processor's: the artifact is beside the exact value.
        (24.0, 0.0, True),
        (24.0, -30.0, False),
        # A graph that is far from the original is another one, and must not speak for it.
        (100.0, 0.0, False),
        (100.0, 110.0, True),
    ],
)
def test_an_original_on_other_kernels_is_judged_by_the_exact_value(
    own: float, got: float, passes: bool
) -> None:
    """All in roundings of the processor's, at an exact value of 0; 20 are allowed."""
    zeros = {"actions": np.zeros((1, 1))}
    budget = Budget(truth=zeros, rounding={"actions": np.ones((1, 1))}, seen=(zeros,), exact=True)
    judged = _judged("actions", budget, np.full((1, 1), own), np.full((1, 1), got))
    assert judged.failing.tolist() == [not passes]


def test_logits_are_known_where_they_were_measured_and_nowhere_else() -> None:
    """What an original gives shows no logits; the graph behind it does, at the states it is run."""
    logits, actions = np.arange(20.0).reshape(4, 5), np.full(4, 4)
    few = Budget(
        truth={"logits 0": logits, "actions": actions},
        rounding={"logits 0": np.full((4, 5), 1e-7), "actions": np.zeros(4)},
        seen=({"actions": actions},),
        exact=True,
    )
    places, others = np.array([0, 3, 6, 9]), np.array([1, 2, 4, 5])
    spread = few.spread(places, {"actions": np.full(10, 4)})
    assert np.isnan(spread.truth["logits 0"][others]).all()
    whole = spread.measured(others, few)
    assert np.array_equal(whole.truth["logits 0"][places], logits)
    assert np.array_equal(whole.truth["logits 0"][others], logits)
    assert np.array_equal(whole.rounding["logits 0"][others], np.full((4, 5), 1e-7))
