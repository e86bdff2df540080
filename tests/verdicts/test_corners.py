"""What few samples meet is met: thresholds, limits, corners, long lives. All passed once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import roadworthy as rw
from tests.verdicts import corners
from tests.verdicts.conftest import Judged, Refused
from tests.verdicts.mutations import damaged

# What is told and not judged.
NOTES = ("RW330", "RW331", "RW332")
Pair = Callable[[], tuple[rw.Source, rw.Source]]


@pytest.mark.parametrize(
    "make",
    [
        lambda: corners.source(corners.mixing_beyond(150.0)),
        lambda: corners.with_limits(200.0, 400.0, corners.mixing_beyond(300.0)),
        lambda: corners.with_limits(1000.0, None, corners.mixing_beyond(1000.5)),
        lambda: corners.with_limits([0] * 5 + [5e4], [1] * 5 + [6e4], corners.mixing_beyond(5.9e4)),
    ],
    ids=["beyond 150", "limits 200 to 400", "above 1000", "one element of its own scale"],
)
def test_rows_that_are_mixed_far_out_are_refused(
    make: Callable[[], rw.Source], refused: Refused
) -> None:
    failed = [each.where for each in refused(make()) if each.code == "RW300"]
    assert "batch" in failed


MOVED: dict[str, tuple[Callable[[], rw.Source], float, float]] = {
    "150": (lambda: corners.source(corners.switching_at(150.0)), 150.0, 150.1),
    "150 lost": (lambda: corners.source(corners.switching_at(150.0)), 150.0, 1e9),
    "200": (lambda: corners.source(corners.switching_at(200.0)), 200.0, 199.9),
    "300 by length": (lambda: corners.source(corners.switching_at_length(300.0)), 300.0, 301.0),
    "30000": (lambda: corners.source(corners.switching_at(3e4)), 3e4, 3.001e4),
    "after normalising": (
        lambda: corners.source(corners.switching_after_normalizing(7.5)), 7.5, 7.52,
    ),
    "inside limits": (
        lambda: corners.with_limits(200, 400, corners.switching_at(333.0)), 333.0, 333.1,
    ),
    "of a command": (lambda: corners.command_source(150), 150.0, 151.0),
    "counter of 200": (lambda: corners.Counter.source(200.0, 1.0), 200.0, 1e6),
    "clock of 3 s": (lambda: corners.Counter.source(3.0, 0.02), 3.0, 1e6),
    "counter of 700": (lambda: corners.Counter.source(700.0, 1.0), 700.0, 1e6),
    "stalled for 120": (lambda: corners.Stall.source(120.0, 1.0), 120.0, 1e6),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVED)
def test_a_threshold_that_moved_is_seen(name: str, tmp_path: Path) -> None:
    make, before, after = MOVED[name]
    right = make()
    bundle = rw.export(right, tmp_path / "right")
    wrong = damaged(bundle, tmp_path / "wrong", corners.constant_moved(before, after))
    # The trace alone shows it, with no original at hand; and so do fresh steps.
    alone = {each.name for each in rw.verify(wrong).checks if not each.passed}
    beside = {
        each.name for each in rw.verify(wrong, against=right, seed=3).checks if not each.passed
    }
    assert "replay" in alone
    assert {"replay", "fresh steps"} <= beside


PAIRS: dict[str, Pair] = {
    "delay of 100": lambda: (corners.Delay.source(100, 1), corners.Delay.source(100)),
    "rolled delay of 90": lambda: (corners.Rolled.source(90, 1), corners.Rolled.source(90)),
    "empty attention": lambda: (
        corners.Attention.source("zeros"), corners.Attention.source("mean"),
    ),
    "half a turn": lambda: tuple(
        corners.source(corners.yaw(sign * np.pi), inputs=4) for sign in (-1, 1)
    ),
    "sign of zero": lambda: tuple(
        corners.source(corners.sign_of_zero(by_bits)) for by_bits in (False, True)
    ),
    "index -1": lambda: (corners.index_source(True), corners.index_source(False)),
    "wrapped at π": lambda: tuple(
        corners.source(corners.wrapped(period)) for period in (3.1415, 3.1416)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_a_corner_at_which_two_policies_differ_is_met(name: str, judged: Judged) -> None:
    wrong, right = PAIRS[name]()
    failed = {each.where for each in judged(wrong, right) if each.code == "RW300"}
    assert "fresh steps" in failed


def _module(function: Callable[..., Any]) -> nn.Module:
    return corners.Policy(function)


class Embedded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(4, 3)

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        return self.embedding(index)


GOOD: dict[str, tuple[Callable[[], rw.Source], list[str]]] = {
    "an index without limits": (
        lambda: rw.Source(Embedded(), example={"index": torch.zeros(1, dtype=torch.int64)}),
        ["RW324", "RW330"],
    ),
    "attention that has no answer to an empty mask": (
        lambda: corners.Attention.source("nothing"), ["RW330"],
    ),
    "a direction, which zeros have not": (
        lambda: corners.source(lambda net, obs: net(obs / obs.norm(dim=-1, keepdim=True))),
        ["RW330"],
    ),
    "an exponential": (lambda: corners.source(lambda net, obs: net(obs).exp()), ["RW330"]),
    "limits of their own for each element": (
        lambda: corners.with_limits(
            [-1, 0, 200, -np.inf, -3.4e38, 5], [1, 1e-3, 400, 0, 3.4e38, np.inf],
            lambda net, obs: net(obs),
        ),
        [],
    ),
    "half precision up to its largest number": (
        lambda: rw.Source(
            nn.Sequential(nn.Linear(6, 3)).half(),
            example={"input": torch.zeros(1, 6).half()},
            about={"input": rw.About(low=-600, high=600)},
        ),
        [],
    ),
    "whole numbers up to the ends of 64 bits": (
        lambda: rw.Source(
            corners.Chosen(3),
            example={"obs": torch.zeros(1, 6), "command": torch.zeros(1, dtype=torch.int64)},
            about={"command": rw.About(low=-(2**63), high=2**63 - 1)},
        ),
        [],
    ),
    "a delay of 100": (lambda: corners.Delay.source(100), []),
    "a deque of 12": (lambda: corners.chain_source(0), []),
    "a counter to 200": (lambda: corners.Counter.source(200.0, 1.0), []),
    "a counter to 100000": (lambda: corners.Counter.source(1e5, 1.0), ["RW331"]),
    "a choice under a mask that may be empty": (
        lambda: corners.source(lambda net, obs: net(obs), action=rw.Argmax(mask="mask")), [],
    ),
    "a normaliser of tiny spread far from zero": (
        lambda: corners.source(
            lambda net, obs: net(obs).tanh(),
            normalizer=rw.EpsOutsideRoot(mean=[500.0] * 6, std=[1e-3] * 6, eps=1e-8, clip=5.0),
        ),
        [],
    ),
    "flags": (
        lambda: rw.Source(
            _module(lambda net, obs: net(obs.float())),
            example={"obs": torch.zeros(1, 6, dtype=torch.bool)},
        ),
        [],
    ),
    "an image of floats": (
        lambda: rw.Source(
            nn.Sequential(nn.Flatten(), nn.Linear(3 * 20 * 20, 3)),
            example={"input": torch.zeros(1, 3, 20, 20)},
            about={"input": rw.About(low=0, high=1)},
        ),
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_a_good_policy_with_corners_is_not_refused(name: str, tmp_path: Path) -> None:
    make, notes = GOOD[name]
    torch.manual_seed(1)
    source = make()
    rw.export(source, tmp_path / "b")
    for seed in (0, 5):
        found = rw.verify(tmp_path / "b", against=source, seed=seed).raise_if_failed().findings
        assert [each.code for each in found if each.code != "RW332"] == notes
        assert all(each.severity == "note" for each in found if each.code in NOTES)


def test_what_was_not_compared_is_said(tmp_path: Path) -> None:
    source = GOOD["an index without limits"][0]()
    rw.export(source, tmp_path / "b")
    (note,) = rw.verify(tmp_path / "b").findings
    assert (note.code, note.where) == ("RW330", "index")
    assert note.what == "not compared: the original raises on -1"
    assert "about={'index': rw.About(low=…, high=…)}" in note.hint


def test_a_horizon_beyond_reach_is_said(tmp_path: Path) -> None:
    rw.export(corners.Counter.source(5000.0, 1.0), tmp_path / "b")
    (note,) = rw.verify(tmp_path / "b").findings
    assert (note.code, note.where) == ("RW331", "memory")
    assert "shows after 5000 steps; rows were compared for 1024" in note.what


def test_a_broken_sensor_that_the_artifact_hides_is_told_and_no_failure(tmp_path: Path) -> None:
    gru = nn.GRUCell(6, 4)

    class Actor(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = gru

        def forward(self, obs: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            h = self.cell(obs, h)
            return h, h

    def blind(model: Any, bundle: rw.Bundle) -> None:
        """NaN becomes zero before the policy sees it."""
        import onnx
        from onnx import helper, numpy_helper

        for node in model.graph.node:
            for index, each in enumerate(node.input):
                if each == "obs":
                    node.input[index] = "seen"
        zero = numpy_helper.from_array(np.zeros((), dtype=np.float32), "nothing")
        model.graph.initializer.append(zero)
        model.graph.node.insert(
            0, helper.make_node("Where", ["broken", "nothing", "obs"], ["seen"])
        )
        model.graph.node.insert(0, helper.make_node("IsNaN", ["obs"], ["broken"]))
        assert isinstance(model, onnx.ModelProto)

    source = rw.Source(Actor(), example={"obs": torch.zeros(1, 6)}, memory={"h": torch.zeros(1, 4)})
    bundle = rw.export(source, tmp_path / "b")
    wrong = damaged(bundle, tmp_path / "wrong", blind)
    certificate = rw.verify(wrong, against=source).raise_if_failed()
    (note,) = certificate.findings
    assert (note.code, note.where, note.severity) == ("RW332", "obs", "note")
    assert "NaN gives NaN in actions, and numbers in the artifact" in note.what
