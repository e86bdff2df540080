"""Twins of a large network are asked in turn, and what they have in common is computed once."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw
from roadworthy.capture.capture import capture
from roadworthy.operators.captured import name_of
from roadworthy.spec.run import Arrays, Run, remembered
from roadworthy.verification import fresh_steps, twin_runs
from roadworthy.verification.allowance import Allowance, allowance, allowances
from roadworthy.verification.originals import interpreting
from roadworthy.verification.originals.exact import GraphYardstick
from roadworthy.verification.originals.module import original_of
from roadworthy.verification.originals.original import NoYardstick
from roadworthy.verification.states import StateLayout
from roadworthy.verification.twin_runs import FEW_TWINS, twins_in_turn
from roadworthy.verification.twins import TWINS, moved


@pytest.mark.parametrize("shape", [(), (3,), (2, 0)])
@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_every_float_moves_by_a_few_units_one_alone_too(shape: tuple[int, ...], kind: str) -> None:
    values = np.full(shape, 1.5, dtype=kind)
    for ulps in (1, 8):
        twin = moved(values, np.random.default_rng(0), ulps=ulps)
        assert (twin.shape, twin.dtype) == (values.shape, values.dtype)
        units = np.abs(twin - values) / np.spacing(values)
        assert np.all((units >= 1) & (units <= ulps))
    assert np.all(values == 1.5)


class Recurrent(nn.Module):
    def __init__(self, discrete: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cell, self.head = nn.GRUCell(6, 16), nn.Linear(16, 4)
        self.discrete = discrete

    def forward(self, obs: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = self.cell(obs, h)
        actions = self.head(h)
        return actions.argmax(-1) if self.discrete else actions, h


def recurrent(*, discrete: bool = False) -> rw.Source:
    example, memory = {"obs": torch.zeros(1, 6)}, {"h": torch.zeros(1, 16)}
    return rw.Source(Recurrent(discrete), example=example, memory=memory)


def yardstick(source: rw.Source) -> tuple[GraphYardstick, StateLayout]:
    program = capture(source)
    found = original_of(source, program).yardstick(program.signature)
    assert isinstance(found, GraphYardstick)
    return found, StateLayout(program.signature)


def script(steps: int = 12, rows: int = 3) -> Run:
    values = np.random.default_rng(0).normal(size=(steps, rows, 6)).astype(np.float32)
    resets = np.zeros((steps, rows), dtype=bool)
    resets[0], resets[5, 1] = True, True
    return Run(inputs={"obs": values}, resets=resets)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every network counts as a large one."""
    monkeypatch.setattr(twin_runs, "MOST_WORK", 1)


def test_a_small_network_asks_all_twins_at_once() -> None:
    graph, layout = yardstick(recurrent())
    assert graph.smooth
    assert twins_in_turn(graph, layout, script()) == (TWINS,)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("discrete", [False, True])
def test_a_large_one_asks_few_and_then_the_others_who_only_widen(discrete: bool) -> None:
    graph, layout = yardstick(recurrent(discrete=discrete))
    assert twins_in_turn(graph, layout, script()) == (FEW_TWINS, TWINS - FEW_TWINS)
    few, every = allowances(graph, layout, script(), seed=0)
    assert all((value >= few.free[name]).all() for name, value in every.free.items())
    wider = every.free[remembered("h")] / few.free[remembered("h")]
    assert wider.max() > 1 or discrete
    assert np.median(wider) < 1.1, "twins more change the largest departure by little"
    last = allowance(graph, layout, script(), seed=0)
    assert all((last.free[name] == value).all() for name, value in every.free.items())


@pytest.mark.usefixtures("large")
def test_the_certificate_of_a_large_network_is_the_same_twice(tmp_path: Path) -> None:
    one, other = (rw.export(recurrent(), tmp_path / name).files for name in "ab")
    assert one["certificate.json"] == other["certificate.json"]
    assert one["trace.npz"] == other["trace.npz"]


@pytest.mark.parametrize(("widest", "passes"), [(True, True), (False, False)])
def test_a_free_run_fails_only_where_all_twins_allow_too_little(
    widest: bool, passes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def narrow_first(*arguments: object) -> Iterator[Allowance]:
        found = allowance(*arguments)  # type: ignore[arg-type]
        nothing = dataclasses.replace(found, free={n: 0.0 * v for n, v in found.free.items()})
        for each in (nothing, found if widest else nothing):
            asked.append(each)
            yield each

    rw.export(recurrent(), tmp_path / "b")
    monkeypatch.setattr(fresh_steps, "allowances", narrow_first)
    checks = rw.verify(tmp_path / "b", against=recurrent()).checks
    (free,) = (each for each in checks if each.name == "free run")
    assert free.passed is passes
    assert len(asked) == 2


@pytest.mark.parametrize("first", [True, False])
def test_a_round_that_cannot_be_run_loosens_nothing_that_was_measured(
    first: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def then_none(*arguments: object) -> Iterator[Allowance]:
        if not first:
            found = allowance(*arguments)  # type: ignore[arg-type]
            yield dataclasses.replace(found, free={n: 0.0 * v for n, v in found.free.items()})
        raise NoYardstick("not at so many rows")

    rw.export(recurrent(), tmp_path / "b")
    monkeypatch.setattr(fresh_steps, "allowances", then_none)
    checks = rw.verify(tmp_path / "b", against=recurrent()).checks
    (free,) = (each for each in checks if each.name == "free run")
    assert free.passed is first, "by fixed tolerances where nothing is known"


class Menu(nn.Module):
    """A choice among five, of whole numbers or of floats."""

    def __init__(self, *, overwrites: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 5))
        self.overwrites = overwrites

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        values = self.net(obs.float() / 255)
        best = values.argmax(-1)
        if self.overwrites:
            values[:, 0] = 0.0
        return best, values.round(decimals=2)


def menu(dtype: torch.dtype, **keywords: bool) -> tuple[GraphYardstick, Arrays]:
    example = {"obs": torch.zeros(1, 6, dtype=dtype)}
    source = rw.Source(Menu(**keywords), example=example, outputs=("actions", "values"))
    graph, _ = yardstick(source)
    values = np.random.default_rng(0).integers(0, 255, size=(7, 6))
    return graph, {"obs": values.astype(str(dtype).removeprefix("torch."))}


def test_what_lies_before_a_choice_is_not_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, inputs = menu(torch.uint8)
    errors = graph.turning_errors(inputs, {})
    whole = dataclasses.replace(errors, before={})
    ran: list[str] = []
    run_node = interpreting.Recording.run_node

    def counted(self: interpreting.Recording, n: torch.fx.Node) -> object:
        ran.append(name_of(n.target))
        return run_node(self, n)

    monkeypatch.setattr(interpreting.Recording, "run_node", counted)
    for seed in range(3):
        ran.clear()
        one = graph.turned(inputs, {}, ulps=20, seed=seed, errors=errors)
        assert "linear" not in ran
        other = graph.turned(inputs, {}, ulps=20, seed=seed, errors=whole)
        assert "linear" in ran
        assert one.keys() == other.keys()
        assert all(one[name].tobytes() == value.tobytes() for name, value in other.items())
    moved = {"obs": inputs["obs"] + np.uint8(1)}
    ran.clear()
    graph.turned(moved, {}, ulps=20, seed=0, errors=errors)
    assert "linear" in ran


def test_what_is_written_behind_a_choice_is_written_once() -> None:
    graph, inputs = menu(torch.uint8, overwrites=True)
    errors = graph.turning_errors(inputs, {})
    assert not errors.before
    first, again = (graph.turned(inputs, {}, ulps=20, seed=0, errors=errors) for _ in range(2))
    assert all(first[name].tobytes() == value.tobytes() for name, value in again.items())


def test_errors_of_some_rows_hold_for_twins_of_them() -> None:
    graph, inputs = menu(torch.float32)
    errors = graph.turning_errors(inputs, {})
    twins = {"obs": np.concatenate([inputs["obs"]] * 4)}
    turned = graph.turned(twins, {}, ulps=20, seed=0, errors=errors)
    assert turned["actions"].shape[0] == 28
    error = torch.arange(6.0).reshape(2, 3)
    for axis, shape in enumerate([(8, 3), (2, 12)]):
        repeated = interpreting._repeated(error, torch.zeros(shape))
        assert torch.equal(repeated, torch.cat([error] * 4, axis))
    assert interpreting._repeated(error, torch.zeros(5, 7)) == error.median()
