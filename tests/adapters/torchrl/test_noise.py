"""Random policies: noise is an input, drawn by the runtime, with TorchRL's distribution."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictModuleBase, TensorDictSequential
from torch import nn
from torchrl.envs.utils import set_exploration_type

import roadworthy as rw
from roadworthy.errors import ExportError, UsageError
from tests.adapters.torchrl.policies import EXAMPLE, POLICIES, example_for, inputs_for, seeded

DRAWS = 100_000
# Tests of equal distributions refuse a true claim once in a thousand seeds; these are fixed.
P = 1e-3
CONTINUOUS = ["Normal", "TanhNormal", "TanhNormal, bounds", "AdditiveGaussian"]
DISCRETE = [
    "Categorical", "OneHotCategorical", "MaskedCategorical", "EGreedy, index", "EGreedy, one-hot",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The bundle of a random policy, exported once."""
    root = tmp_path_factory.mktemp("random")

    def get(name: str) -> Path:
        target = root / name.replace(", ", "-")
        if not target.exists():
            rw.export(POLICIES[name](), target, exploration="random", example=example_for(name))
        return target

    return get


def both(name: str, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Many draws for one observation: TorchRL's, and the artifact's."""
    row = inputs_for(name, 1)
    inputs = {key: np.repeat(value, DRAWS, axis=0) for key, value in row.items()}
    values = TensorDict({k: torch.from_numpy(v) for k, v in inputs.items()}, batch_size=[DRAWS])
    with torch.random.fork_rng(devices=[]), torch.no_grad(), set_exploration_type("random"):
        torch.manual_seed(11)
        theirs = POLICIES[name]()(values)["action"].numpy()
    # One stream per row is for policies, not for statistics: here one generator draws it all.
    policy = rw.load(folder)
    rng = np.random.default_rng(5)
    for port in policy.signature.inputs:
        shape = (DRAWS, *port.shape[1:])
        if port.about.noise == "normal":
            inputs[port.name] = rng.standard_normal(shape, dtype=np.float32)
        elif port.about.noise == "uniform":
            inputs[port.name] = rng.random(shape, dtype=np.float32)
    return theirs, policy.step(inputs)["action"]


def kolmogorov_smirnov(one: np.ndarray, other: np.ndarray) -> float:
    """The probability of samples at least this far apart, if they are of one distribution."""
    together = np.concatenate([one, other])
    below = [np.searchsorted(np.sort(each), together, side="right") for each in (one, other)]
    distance = np.abs(below[0] / len(one) - below[1] / len(other)).max()
    scaled = distance * math.sqrt(len(one) * len(other) / (len(one) + len(other)))
    if scaled < 0.3:
        return 1.0  # to four digits; the series below does not converge there
    terms = [(-1) ** (k - 1) * math.exp(-2 * (k * scaled) ** 2) for k in range(1, 101)]
    return min(1.0, 2 * sum(terms))


def chi_square(one: np.ndarray, other: np.ndarray, choices: int) -> float:
    """The same for counts, by Wilson and Hilferty's cube root."""
    counts = np.stack([np.bincount(each, minlength=choices) for each in (one, other)])
    counts = counts[:, counts.sum(axis=0) > 0].astype(np.float64)
    expected = counts.sum(axis=0) / 2
    statistic = float(((counts - expected) ** 2 / expected).sum())
    freedom = counts.shape[1] - 1
    z = ((statistic / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / math.sqrt(2 / (9 * freedom))
    return 0.5 * math.erfc(z / math.sqrt(2))


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_actions_have_the_distribution_of_torchrl(
    name: str, folder: Callable[[str], Path]
) -> None:
    theirs, ours = both(name, folder(name))
    for element in range(theirs.shape[1]):
        assert kolmogorov_smirnov(theirs[:, element], ours[:, element]) > P


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_actions_have_the_distribution_of_torchrl(
    name: str, folder: Callable[[str], Path]
) -> None:
    theirs, ours = both(name, folder(name))
    if theirs.ndim == 2:
        assert (ours.sum(axis=1) == 1).all()
        theirs, ours = theirs.argmax(axis=1), ours.argmax(axis=1)
    assert len(set(ours.tolist())) > 1
    assert set(ours.tolist()) == set(theirs.tolist())
    assert chi_square(theirs, ours, 6) > P


def test_tests_of_distributions_can_fail() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.standard_normal(DRAWS), rng.standard_normal(DRAWS) * 1.03
    assert kolmogorov_smirnov(one, other) < P < kolmogorov_smirnov(one, rng.standard_normal(DRAWS))
    fair, biased = rng.integers(0, 6, DRAWS), rng.binomial(1, 0.02, DRAWS)
    skewed = np.where(biased == 1, 0, rng.integers(0, 6, DRAWS))
    assert chi_square(fair, skewed, 6) < P < chi_square(fair, rng.integers(0, 6, DRAWS), 6)


def test_masked_actions_are_never_drawn(folder: Callable[[str], Path]) -> None:
    policy = rw.load(folder("MaskedCategorical"), seed=3)
    mask = np.array([[False, True, False, False, True, False]])
    observation = np.zeros((1, 4), np.float32)
    for noise in (0.0, 1e-8, 0.5, 1 - 2**-24):
        given = {"observation": observation, "mask": mask, "noise": np.array([[noise]], np.float32)}
        assert int(policy.step(given)["action"][0]) in (1, 4)


def test_coin_of_epsilon_greedy_is_tossed_for_each_row(folder: Callable[[str], Path]) -> None:
    policy = rw.load(folder("EGreedy, index"))
    observation = np.repeat(inputs_for("", 1)["observation"], 2, axis=0)
    # ε is 0.5: the first row explores, the second does not.
    coin = np.array([[0.1], [0.9]], np.float32)
    actions = {
        tuple(policy.step({"observation": observation, "noise_0": coin, "noise_1": draw})["action"])
        for draw in (np.full((2, 1), share, np.float32) for share in (0.1, 0.3, 0.5, 0.7, 0.95))
    }
    assert len({first for first, _ in actions}) == 5
    assert len({second for _, second in actions}) == 1


def test_coloured_noise_follows_torchrl_and_resets(folder: Callable[[str], Path]) -> None:
    made = POLICIES["OrnsteinUhlenbeck"]()
    policy = rw.load(folder("OrnsteinUhlenbeck"))
    rng = np.random.default_rng(0)
    values = TensorDict(batch_size=[2])
    for step in range(50):
        reset = np.array([step == 0, step in (0, 20)])
        observation = rng.standard_normal((2, 4), dtype=np.float32)
        values["observation"] = torch.from_numpy(observation)
        values["is_init"] = torch.from_numpy(reset)[:, None]
        with torch.random.fork_rng(devices=[]), torch.no_grad(), set_exploration_type("random"):
            torch.manual_seed(step)
            noise = torch.randn(2, 3).numpy()
            torch.manual_seed(step)
            values = made(values)
        policy.reset(reset)
        got = policy.step({"observation": observation, "noise": noise})["action"]
        np.testing.assert_allclose(got, values["action"].numpy(), atol=1e-5)


def test_signature_shows_the_noise(folder: Callable[[str], Path]) -> None:
    signature = rw.load(folder("Normal")).signature
    assert str(signature) == (
        "input   observation  float32 (batch, 4)\n"
        "input   noise        float32 (batch, 3)  normal noise, drawn by the runtime\n"
        "output  action       float32 (batch, 3)"
    )
    assert rw.Signature.from_json(signature.to_json()) == signature


def test_same_seed_repeats_and_another_differs(folder: Callable[[str], Path]) -> None:
    def actions(seed: int | None) -> np.ndarray:
        policy = rw.load(folder("Normal"), seed=seed)
        return np.stack([policy.act(np.zeros(4, np.float32)) for _ in range(4)])

    np.testing.assert_array_equal(actions(1), actions(1))
    assert not np.allclose(actions(1), actions(2))
    assert not np.allclose(actions(None), actions(None))
    assert len({tuple(row) for row in actions(1)}) == 4


def test_seed_that_was_chosen_can_be_repeated(folder: Callable[[str], Path]) -> None:
    policy = rw.load(folder("Normal"))
    first = policy.act(np.zeros(4, np.float32))
    np.testing.assert_array_equal(
        rw.load(folder("Normal"), seed=policy.seed).act(np.zeros(4, np.float32)), first
    )


def test_row_draws_the_same_alone_and_among_others(folder: Callable[[str], Path]) -> None:
    alone, among = (rw.load(folder("Normal"), seed=9) for _ in range(2))
    for step in range(3):
        row = np.full((1, 4), step, np.float32)
        one = alone.step({"observation": row})["action"]
        seven = among.step({"observation": np.repeat(row, 7, axis=0)})["action"]
        np.testing.assert_allclose(seven[:1], one, atol=1e-6)
        assert len({tuple(each) for each in seven.tolist()}) == 7


def test_reset_goes_on_drawing_unless_it_is_seeded(folder: Callable[[str], Path]) -> None:
    policy = rw.load(folder("Normal"), seed=4)
    zeros = np.zeros(4, np.float32)
    first = policy.act(zeros)
    policy.reset()
    assert not np.allclose(policy.act(zeros), first)
    policy.reset(seed=4)
    np.testing.assert_array_equal(policy.act(zeros), first)
    with pytest.raises(UsageError, match="seed must be a whole number of 0 or more, got -1"):
        policy.reset(seed=-1)


class SharedCoin(TensorDictModuleBase):
    in_keys = ("action",)
    out_keys = ("action",)

    def forward(self, values: Any) -> Any:
        return values.set("action", values["action"] * torch.rand(()))


def test_draw_that_rows_share_is_refused(tmp_path: Path) -> None:
    linear = TensorDictModule(nn.Linear(4, 2), ["observation"], ["action"])
    made = seeded(lambda: TensorDictSequential(linear, SharedCoin()))
    with pytest.raises(ExportError) as caught:
        rw.export(made, tmp_path / "p", example=EXAMPLE, exploration="random")
    assert str(caught.value) == (
        "[RW143] a draw of shape () for 3 rows is shared between the rows\n"
        "  → draw one value for each row: torch.rand(tensordict.shape)"
    )
