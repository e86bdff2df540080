"""Exploration is a choice: each way as TorchRL means it, or refused with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tensordict.nn import InteractionType, TensorDictSequential
from tensordict.nn import TensorDictModule as Module
from torch import distributions as D
from torch import nn
from torchrl.data import Bounded, MultiCategorical
from torchrl.envs.utils import set_exploration_type
from torchrl.modules import (
    EGreedyModule,
    NormalParamExtractor,
    ProbabilisticActor,
    SafeProbabilisticModule,
    TruncatedNormal,
)

import roadworthy as rw
from roadworthy.errors import ExportError, UsageError
from roadworthy.frameworks.torchrl.live import describe
from tests.adapters.torchrl.policies import (
    EXAMPLE,
    POLICIES,
    drawn_from,
    example_for,
    exported,
    gaussian,
    inputs_for,
    parameters,
    seeded,
    torchrl_action,
)

WAYS = [
    *((name, "deterministic") for name in POLICIES),
    ("Normal", "mode"), ("Normal", "mean"), ("Delta", "mean"), ("TanhDelta", "mode"),
    ("IndependentNormal", "mean"), ("TruncatedNormal", "mode"), ("TruncatedNormal", "mean"),
    ("Categorical", "mode"), ("OneHotCategorical", "mode"), ("MaskedCategorical", "mode"),
]  # fmt: skip
# An export takes a second: one of each kind is exported, the others are compared as rewritten.
REWRITTEN_ONLY = {
    "IndependentNormal", "TanhNormal", "Delta", "TanhDelta", "QValue, one-hot",
    "DistributionalQValue, index", "EGreedy, one-hot",
}  # fmt: skip
EXPORTED = [
    *((name, "deterministic") for name in POLICIES if name not in REWRITTEN_ONLY),
    ("Normal", "mean"), ("TruncatedNormal", "mode"),
]  # fmt: skip
NO_CLOSED_FORM = {
    ("TanhNormal", "mean"): "TanhNormal has no mean in closed form",
    ("TanhNormal", "mode"): "TanhNormal has no mode in closed form",
    ("TanhDelta", "mean"): "TanhDelta has no mean in closed form",
    ("Categorical", "mean"): "Categorical has no mean: TorchRL gives NaN",
    ("OneHotCategorical", "mean"): "OneHotCategorical has no mean: TorchRL gives NaN",
    ("MaskedCategorical", "mean"): "MaskedCategorical has no mean: TorchRL gives NaN",
}


@pytest.mark.parametrize(("name", "way"), WAYS)
def test_rewriting_acts_as_torchrl_does(name: str, way: str) -> None:
    made = POLICIES[name]()
    rewritten = describe(made, exploration=way, example=example_for(name)).module
    for rows in (1, 3, 8):
        inputs = inputs_for(name, rows, seed=rows)
        with torch.no_grad():
            got = rewritten(**{key: torch.from_numpy(value) for key, value in inputs.items()})
        expected = torchrl_action(made, way, inputs)
        np.testing.assert_allclose(got["action"].numpy(), expected, rtol=1e-6, atol=1e-6)


def test_safe_head_keeps_its_action_inside_the_spec() -> None:
    spec = Bounded(-0.1, 0.1, (3,))
    head = SafeProbabilisticModule(
        in_keys=["loc", "scale"], out_keys=["action"], spec=spec, safe=True,
        distribution_class=D.Normal,
    )  # fmt: skip
    made = seeded(lambda: TensorDictSequential(parameters(["loc", "scale"], 3), head))
    rewritten = describe(made, exploration="mean", example=EXAMPLE).module
    inputs = inputs_for("Normal", 8)
    with torch.no_grad():
        got = rewritten(observation=torch.from_numpy(inputs["observation"]))["action"].numpy()
    assert np.abs(got).max() == np.float32(0.1)
    np.testing.assert_array_equal(got, torchrl_action(made, "mean", inputs))


@pytest.mark.parametrize(("name", "way"), EXPORTED)
def test_action_is_the_one_that_torchrl_gives(name: str, way: str, tmp_path: Path) -> None:
    made = POLICIES[name]()
    policy = exported(made, tmp_path / "p", exploration=way, example=example_for(name))
    for rows in (1, 3, 8):
        inputs = inputs_for(name, rows, seed=rows)
        expected = torchrl_action(made, way, inputs)
        got = policy.step(inputs)["action"]
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("name", "way"), NO_CLOSED_FORM)
def test_value_without_a_closed_form_is_refused(name: str, way: str, tmp_path: Path) -> None:
    with pytest.raises(ExportError) as caught:
        rw.export(POLICIES[name](), tmp_path / "p", exploration=way, example=example_for(name))
    assert str(caught.value) == (
        f"[RW142] exploration={way!r}: {NO_CLOSED_FORM[name, way]}\n"
        "  → exploration='deterministic' gives the value that TorchRL acts with in evaluation"
    )
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize(
    ("make", "where"),
    [
        (POLICIES["EGreedy, index"], "EGreedyModule"),
        (POLICIES["AdditiveGaussian"], "AdditiveGaussianModule"),
        (POLICIES["OrnsteinUhlenbeck"], "OrnsteinUhlenbeckProcessModule"),
        (
            lambda: gaussian(D.Normal, default_interaction_type=InteractionType.RANDOM),
            "SafeProbabilisticModule(Normal)",
        ),
    ],
)
def test_policy_that_explores_is_asked_about(make: Any, where: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        rw.export(make(), tmp_path / "p", example=EXAMPLE)
    assert str(caught.value) == (
        f"[RW141] {where}: the policy explores: it would act at random, and the export must know\n"
        "  → say which actions you want: exploration='deterministic' (TorchRL's value for "
        "evaluation), 'mode', 'mean', or 'random' (the noise becomes an input that the runtime "
        "draws)"
    )


def test_policy_with_nothing_random_needs_no_choice() -> None:
    found = describe(POLICIES["QValue, index"](), example=EXAMPLE)
    assert list(found.example) == ["observation"]
    assert str(found.meaning) == "discrete, one of 6"


def test_unknown_way_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        rw.export(POLICIES["Normal"](), tmp_path / "p", example=EXAMPLE, exploration="modes")
    assert str(caught.value) == (
        "[RW141] exploration='modes' is not known\n  → did you mean 'mode'?"
    )


def test_every_question_is_asked_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        rw.export(POLICIES["EGreedy, index"](), tmp_path / "p")
    assert [finding.code for finding in caught.value.findings] == ["RW141", "RW144"]


def test_choice_of_the_caller_around_the_export_changes_nothing(tmp_path: Path) -> None:
    made = POLICIES["TanhNormal"]()
    with set_exploration_type("random"):
        policy = exported(made, tmp_path / "p", example=EXAMPLE)
    inputs = inputs_for("TanhNormal", 3)
    expected = torchrl_action(made, "deterministic", inputs)
    np.testing.assert_allclose(policy.step(inputs)["action"], expected, atol=1e-5)


def test_ill_conditioned_truncated_normal_is_as_far_off_as_pytorch(tmp_path: Path) -> None:
    """The difference of two nearly equal float32 numbers: PyTorch itself is nowhere near it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 6), NormalParamExtractor())
        nn.init.normal_(net[0].weight)
    far = ProbabilisticActor(
        Module(net, ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TruncatedNormal,
    )
    bundle = rw.export(far, tmp_path / "p", example=EXAMPLE, exploration="mean")
    certificate = rw.Certificate.from_bytes(bundle.files["certificate.json"])
    assert certificate.roundings["action"] < 20


def test_drawn_truncated_normal_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="a drawn TruncatedNormal cannot be exported") as caught:
        rw.export(
            POLICIES["TruncatedNormal"](), tmp_path / "p", example=EXAMPLE, exploration="random"
        )
    assert caught.value.findings[0].code == "RW143"
    assert "train with TanhNormal" in caught.value.findings[0].hint


def test_draws_that_are_not_noise_are_refused_by_name(tmp_path: Path) -> None:
    rates = drawn_from(D.Poisson, ["rate"], 3)
    with pytest.raises(ExportError, match=r"draws with torch\.poisson") as caught:
        rw.export(rates, tmp_path / "p", example=EXAMPLE, exploration="random")
    assert caught.value.findings[0].code == "RW143"


def test_greedy_over_an_unusual_space_is_refused(tmp_path: Path) -> None:
    spec = MultiCategorical([3, 4])
    made = TensorDictSequential(
        Module(nn.Linear(4, 2), ["observation"], ["action"]), EGreedyModule(spec)
    )
    with pytest.raises(ExportError, match=r"ε-greedy over a MultiCategorical of torch\.int64"):
        rw.export(made, tmp_path / "p", example=EXAMPLE, exploration="random")
