"""Silently wrong exports 1 to 8, 10, 12, 16, 18, 19 and 23: mistakes in what is exported.

Each is refused with its cause, or exported right, as the live module shows.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw
from roadworthy import export_environment
from tests.environment import mistakes
from tests.environment.robot import feedforward
from tests.verdicts import artifacts, walkers
from tests.verdicts.conftest import Refused

OBS = {"obs": torch.randn(1, 6, generator=torch.Generator().manual_seed(0))}


def source(module: nn.Module, **description: object) -> rw.Source:
    return rw.Source(module, **({"example": OBS} | description))


def environment(kind: type[mistakes.Sound], folder: Path) -> tuple[rw.Finding, ...]:
    env = kind()
    with pytest.raises(rw.RoadworthyError) as caught:
        export_environment(env, feedforward(env), folder / "bundle")
    return caught.value.findings


def remarks(bundle: rw.Bundle) -> list[rw.Finding]:
    """What the certificate says, besides where its operators (an ELU) depart from PyTorch."""
    found = rw.Certificate.from_bytes(bundle.files["certificate.json"]).findings
    return [each for each in found if each.code != "RW340"]


def test_the_sound_walker_is_exported_without_a_remark(tmp_path: Path) -> None:
    bundle = rw.export(source(walkers.Walker()), tmp_path / "bundle")
    certificate = rw.Certificate.from_bytes(bundle.files["certificate.json"])
    assert certificate.passed
    assert remarks(bundle) == []


@pytest.mark.parametrize(
    ("kind", "code", "what"),
    [
        (
            walkers.RecoversWhenTilted,
            "if obs[:, 2].abs().max() > 0.9:",
            "the code branches on the value of a tensor; a graph would freeze one side",
        ),
        (
            walkers.StretchesWithSpeed,
            "speed = float(obs[:, 3:5].norm())",
            "the value of a tensor is read as a Python number; a graph would freeze it",
        ),
        (
            walkers.FiltersWithItem,
            "gain = 0.5 if obs[0, 0].item() > 0 else 1.0",
            "the value of a tensor is read as a Python number; a graph would freeze it",
        ),
        (
            walkers.RotatesWithNumpy,
            "turned = np.roll(obs.numpy(), 1, axis=-1)",
            "the code leaves PyTorch for NumPy; a graph would freeze what comes back",
        ),
        (
            walkers.RebuildsFromList,
            "again = torch.tensor([[float(x) for x in row] for row in obs])",
            "the value of a tensor is read as a Python number; a graph would freeze it",
        ),
    ],
    ids=["1 branch", "2 float", "2 item", "3 numpy", "3 list"],
)
def test_1_2_3_a_value_that_leaves_the_graph(
    refused: Refused, kind: type[nn.Module], code: str, what: str
) -> None:
    (finding,) = refused(source(kind()))
    assert (finding.code, finding.where) == ("RW103", walkers.line(kind, code))
    assert finding.what == what


def test_1_a_branch_in_an_environment(tmp_path: Path) -> None:
    (finding,) = environment(mistakes.Branch, tmp_path)
    assert finding.code == "RW103"
    assert "branches on the value of a tensor" in finding.what


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (walkers.CountsSteps, "steps"),
        (walkers.KeepsPhase, "phase"),
        (walkers.KeepsHidden, "hidden"),
        (walkers.SmoothsInBuffer, "last"),
    ],
    ids=["4 counter", "4 phase", "5 attribute", "6 buffer"],
)
def test_4_5_6_state_that_is_not_declared(
    refused: Refused, kind: type[nn.Module], path: str
) -> None:
    (finding,) = refused(source(kind()))
    assert (finding.code, finding.where) == ("RW112", f"{kind.__name__}.{path}")
    assert finding.what.startswith("a call writes it, and a later call reads it")
    assert (
        f"memory={{{path!r}: {path!r}}}; if it does not matter: ignore=[{path!r}]" in finding.hint
    )


@pytest.mark.parametrize(
    ("kind", "path"), [(mistakes.StepCounter, "env.counter"), (mistakes.Phase, "env.phase_s")]
)
def test_4_a_number_that_an_environment_counts(
    kind: type[mistakes.Sound], path: str, tmp_path: Path
) -> None:
    (finding,) = environment(kind, tmp_path)
    assert (finding.code, finding.where) == ("RW121", path)
    assert (
        finding.what
        == "is a Python number that changes, and the outputs depend on it: it would be frozen"
    )


def test_5_the_previous_action_of_an_environment(tmp_path: Path) -> None:
    (finding,) = environment(mistakes.ForgottenMemory, tmp_path)
    assert finding.code == "RW121"
    assert finding.where.startswith("env.env.last at ")
    assert "it would be frozen" in finding.what


@pytest.mark.parametrize("kind", [walkers.Dropout, walkers.BatchNorm], ids=["7", "8"])
@torch.no_grad()
def test_7_8_training_mode_is_left_before_the_export(kind: type[nn.Module], tmp_path: Path) -> None:
    module = kind().train()
    bundle = rw.export(source(module), tmp_path / "bundle")
    values = torch.randn(64, 6)
    got = rw.load(tmp_path / "bundle").act(values.numpy())
    assert np.abs(got - module.eval()(values).numpy()).max() <= 1e-5
    assert np.abs(got - module.train()(values).numpy()).max() > 1e-2
    (note,) = remarks(bundle)
    assert (note.code, note.severity) == ("RW160", "note")
    assert note.what.endswith("in training mode; the export used evaluation mode")


def test_7_dropout_that_ignores_the_mode(refused: Refused) -> None:
    (finding,) = refused(source(walkers.FunctionalDropout()))
    assert finding.code == "RW111"
    assert finding.what == "the outputs are random: the same inputs gave different values"


def test_8_statistics_of_the_batch(refused: Refused) -> None:
    finding, cause = refused(source(walkers.BatchStatistics()))
    assert (cause.code, cause.where) == ("RW161", "BatchStatistics.norm")
    code = "return self.net(self.norm(obs))"
    assert finding.where == walkers.line(walkers.BatchStatistics, code)
    assert "Expected more than 1 value per channel when training" in finding.what


def test_8_statistics_of_the_batch_by_hand(refused: Refused) -> None:
    findings = refused(source(walkers.OwnBatchStatistics()))
    failure, cause = findings[0], next(each for each in findings if each.code == "RW320")
    assert (failure.code, failure.where) == ("RW300", "batch")
    assert failure.hint == "RW320 names the likely cause"
    assert (cause.code, cause.what) == ("RW320", "rows of a batch influence each other")
    assert cause.hint.startswith(
        "look in forward for a mean, a norm or a reshape over the batch axis"
    )


def test_10_a_normaliser_that_goes_on_learning(refused: Refused) -> None:
    finding, _ = refused(source(walkers.Walker(), normalizer=walkers.AlwaysLearning()))
    assert (finding.code, finding.where) == ("RW112", "normalizer.mean")
    assert finding.what == "the normaliser goes on learning: its statistics change at every call"


def test_10_a_normaliser_that_goes_on_learning_inside(refused: Refused) -> None:
    (finding,) = refused(source(walkers.Normalized(walkers.AlwaysLearning())))
    assert (finding.code, finding.where) == ("RW164", "Normalized.normalizer")


@pytest.mark.parametrize(
    ("normalizer", "what"),
    [
        (
            walkers.RunningMean(trained=False),
            "it changes nothing: its statistics were never updated",
        ),
        (
            rw.EpsInsideRoot(mean=[0.0] * 6, var=[1.0] * 6, eps=1e-8),
            "never updated: mean 0, spread 1",
        ),
        (
            rw.EpsInsideRoot(mean=[0.0] * 6, var=[0.0] * 6, eps=1e-8),
            "never updated: mean 0, spread 0",
        ),
    ],
    ids=["module", "untrained", "zeroed"],
)
def test_10_a_normaliser_that_was_not_loaded(normalizer: object, what: str, tmp_path: Path) -> None:
    bundle = rw.export(source(walkers.Walker(), normalizer=normalizer), tmp_path / "bundle")
    (warning,) = remarks(bundle)
    assert (warning.code, warning.severity) == ("RW163", "warning")
    assert warning.where == "normalizer of obs"
    assert what in warning.what
    assert "warning: [RW163] normalizer of obs: " in str(
        rw.Certificate.from_bytes(bundle.files["certificate.json"])
    )


@pytest.mark.parametrize("kind", [walkers.Samples, walkers.SamplesDiscrete])
def test_12_a_sample_instead_of_the_mean(refused: Refused, kind: type[nn.Module]) -> None:
    (finding,) = refused(source(kind()))
    assert finding.code == "RW111"
    assert finding.where.startswith("walkers.py:")
    assert finding.where.endswith(".sample())")
    assert finding.hint == "return the mean or the mode of the distribution instead of a sample"


def test_12_noise_in_an_environment(tmp_path: Path) -> None:
    (finding,) = environment(mistakes.Noise, tmp_path)
    assert finding.code == "RW123"


def test_16_a_state_of_the_last_episode(refused: Refused) -> None:
    module = walkers.KeepsHidden()
    module(torch.randn(1, 6))
    (finding,) = refused(source(module, memory={"hidden": "hidden"}))
    assert (finding.code, finding.where) == ("RW114", "hidden")
    assert finding.what.startswith("the attribute holds values that are not zero: every episode ")


def test_18_a_state_whose_layers_and_rows_are_mixed_up(refused: Refused) -> None:
    wrong = artifacts.Lstm(swaps_layout=True)
    failure, *others = refused(artifacts.recurrent(wrong, artifacts.two_states()))
    cause = next(each for each in others if each.code == "RW320")
    assert (failure.code, failure.where) == ("RW300", "batch")
    assert cause.where == "batch"
    assert cause.what == "rows of a batch influence each other, through the memory"
    assert cause.hint.startswith("keep the memory as (layers, batch, features)")


@pytest.mark.parametrize(
    ("kind", "code", "what"),
    [
        (walkers.OneRobot, "RW113", "shape (1, 3) stays the same for every batch"),
        (walkers.FlattensAll, "RW101", "forward runs on the example, but with 3 rows it raised"),
    ],
)
def test_19_a_batch_of_one(refused: Refused, kind: type[nn.Module], code: str, what: str) -> None:
    (finding,) = refused(source(kind()))
    assert finding.code == code
    assert finding.what.startswith(what)


class TickClock(walkers.Walker):
    def forward(self, obs: Tensor, tick: Tensor) -> Tensor:
        return self.net(obs) + 0.02 * torch.remainder(tick, 50).unsqueeze(-1)


def test_23_an_integer_that_was_tried_with_zero_and_one_only(tmp_path: Path) -> None:
    example = {**OBS, "tick": torch.zeros(1, dtype=torch.int64)}
    bundle = rw.export(source(TickClock(), example=example), tmp_path / "bundle")
    (warning,) = remarks(bundle)
    assert (warning.code, warning.where, warning.severity) == ("RW324", "tick", "warning")
    assert warning.what == "an input of int64 without limits: only 0 and 1 were tried"
