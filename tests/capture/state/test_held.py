"""Statistics and scales that are held and not applied are a warning, kept in the certificate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import roadworthy as rw
from roadworthy.capture.capture import capture
from roadworthy.verification.originals.module import original_of
from tests.capture.state import held

OBS = {"obs": torch.zeros(1, 4)}


def warnings(module: nn.Module, **description: Any) -> list[tuple[str, str]]:
    source = rw.Source(module, example=OBS, **description)
    signature = capture(source).signature
    return [(each.code, each.where) for each in original_of(source).advisories(signature)]


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (held.InADict, [("RW162", "InADict.stats.mean")]),
        (held.InLists, [("RW162", "InLists.obs_mean")]),
        (held.LocAndScale, [("RW162", "LocAndScale.loc")]),
        (held.Stacked, [("RW162", "Stacked.obs_stats")]),
        (held.UnusedBatchNorm,
         [("RW160", "UnusedBatchNorm.norm"), ("RW162", "UnusedBatchNorm.norm")]),
        (held.ActionScale,
         [("RW109", "ActionScale.action_scale"), ("RW109", "ActionScale.action_bias")]),
        (held.AppliesDict, []),
        (held.AppliesBatchNorm, [("RW160", "AppliesBatchNorm.norm")]),
        (held.AppliesScale, []),
        (held.Normalises, []),
    ],
)  # fmt: skip
def test_what_is_held_and_not_applied_is_a_warning(
    kind: type[nn.Module], found: list[tuple[str, str]]
) -> None:
    assert warnings(kind()) == found


def test_a_normaliser_that_is_applied_twice_is_a_warning() -> None:
    twice = rw.EpsOutsideRoot(mean=held.MEAN, std=held.VAR, eps=0.0)
    assert warnings(held.Normalises(), normalizer=twice) == [
        ("RW109", "Normalises.loc"), ("RW109", "Normalises.scale"),
    ]  # fmt: skip
    once = rw.EpsOutsideRoot(mean=[1.0, 2.0, 3.0, 4.0], std=held.MEAN[::-1], eps=10.0)
    assert warnings(held.Normalises(), normalizer=once) == []


def test_the_hints_keep_the_warning_away() -> None:
    assert warnings(held.LocAndScale(), ignore=["loc"]) == []
    assert warnings(held.ActionScale(), action=(rw.Tanh(), rw.ScaleOffset(scale=2.0))) == []


@pytest.mark.parametrize("target", ["onnx", "torch_export"])
def test_the_certificate_keeps_the_warning(target: str, tmp_path: Path) -> None:
    bundle = rw.export(held.Stacked(), tmp_path / "b", example=OBS, targets=[target])
    certificate = rw.Certificate.from_bytes(bundle.files["certificate.json"])
    assert certificate.passed
    assert [(each.code, each.severity) for each in certificate.findings] == [("RW162", "warning")]


class Runner:
    """Holds the policy and its normaliser side by side, in attributes and not as modules."""

    def __init__(self) -> None:
        self.policy = nn.Sequential(nn.Linear(4, 2))
        self.obs_mean, self.obs_std = torch.ones(4), torch.full((4,), 3.0)


def test_a_normaliser_beside_the_policy_is_asked_after() -> None:
    runner = Runner()
    assert warnings(runner.policy) == [("RW162", "Runner")]
    given = rw.EpsOutsideRoot(mean=runner.obs_mean, std=runner.obs_std, eps=1e-8)
    assert warnings(runner.policy, normalizer=given) == []
    assert warnings(runner.policy, normalizer=nn.Identity()) == []


def test_a_normaliser_beside_a_policy_that_applies_it_is_none_that_is_missing() -> None:
    policy = held.Normalises()
    runner = Runner()
    runner.policy, runner.obs_mean, runner.obs_std = policy, policy.loc, policy.scale  # type: ignore[assignment]
    assert warnings(runner.policy) == []


def test_statistics_that_are_alike_for_all_elements_are_known_when_they_are_applied_twice() -> None:
    policy = held.Normalises()
    policy.loc.fill_(0.0)
    policy.scale.fill_(3.0)
    given = rw.EpsOutsideRoot(mean=policy.loc, std=policy.scale, eps=1e-8)
    assert warnings(policy, normalizer=given) == [("RW109", "Normalises.scale")]


class Sequences(nn.Module):
    """Trained on whole sequences, and called on one step without a state."""

    def __init__(self, window: int = 1) -> None:
        super().__init__()
        self.rnn, self.head = nn.LSTM(4 // window, 8, batch_first=True), nn.Linear(8, 2)
        self.window = window

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        out, _ = self.rnn(obs.unflatten(1, (self.window, -1)))
        return self.head(out[:, -1])  # type: ignore[no-any-return]


def test_a_cell_that_starts_from_zeros_at_every_call_is_asked_after() -> None:
    assert warnings(Sequences()) == [("RW107", "Sequences.rnn")]
    assert warnings(Sequences(), ignore=["rnn"]) == []
    assert warnings(Sequences(window=2)) == []
