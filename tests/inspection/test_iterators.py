"""After an export, certified or refused, the iterators of the user go on where they were."""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw
from roadworthy.capture.capture import capture
from roadworthy.inspection.snapshot import preserved
from tests.capture.state.wrong import Base
from tests.environment.robot import feedforward
from tests.environment.writing import InPlace

OBS = {"obs": torch.zeros(1, 4)}
GAINS = [1.0, 2.0, 3.0]


def numbers() -> Iterator[float]:
    yield from GAINS * 100


def as_pairs(gains: Any) -> Iterator[float]:
    return map(sum, gains)


COPIED: dict[str, Callable[[], Iterator[Any]]] = {
    "cycle": lambda: itertools.cycle(GAINS),
    "list": lambda: iter(GAINS * 100),
    "tuple": lambda: iter((*GAINS,) * 100),
    "range": lambda: iter(range(300)),
    "text": lambda: map(float, iter("123" * 100)),
    "bytes": lambda: iter(b"123" * 100),
    "table": lambda: iter(dict.fromkeys(range(300), 1.0)),
    "values": lambda: iter(dict.fromkeys(range(300), 1.0).values()),
    "set": lambda: iter(set(range(300))),
    "reversed": lambda: reversed(GAINS * 100),
    "zip": lambda: as_pairs(zip(GAINS * 100, itertools.cycle(GAINS), strict=False)),
    "map": lambda: map(abs, GAINS * 100),
    "filter": lambda: filter(None, GAINS * 100),
    "enumerate": lambda: as_pairs(enumerate(GAINS * 100)),
    "count": lambda: itertools.count(1.0, 0.5),
    "chain": lambda: itertools.chain(GAINS, GAINS * 100),
    "islice": lambda: itertools.islice(itertools.cycle(GAINS), 300),
    "accumulate": lambda: itertools.accumulate(GAINS * 100),
    "tee": lambda: itertools.tee(GAINS * 100)[0],
    "product": lambda: as_pairs(itertools.product(GAINS, GAINS, GAINS, GAINS, GAINS)),
    "repeat": lambda: itertools.repeat(2.0, 300),
}


class Planned(Base):
    """Its gain comes from an iterator."""

    def __init__(self, plan: Iterator[Any]) -> None:
        super().__init__()
        self.plan = plan

    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * next(self.plan)


def moved(plan: Iterator[Any]) -> Iterator[Any]:
    next(plan)
    next(plan)
    return plan


@pytest.mark.parametrize("name", COPIED)
def test_after_a_refusal_it_goes_on_where_it_was(name: str) -> None:
    module = Planned(moved(COPIED[name]()))
    with pytest.raises(rw.ExportError, match="RW112"):
        capture(rw.Source(module, example=OBS))
    twin = moved(COPIED[name]())
    assert [next(module.plan) for _ in range(20)] == [next(twin) for _ in range(20)]


def test_after_an_export_that_ignores_it_it_goes_on_where_it_was(tmp_path: Path) -> None:
    class Logs(Planned):
        def act(self, y: Tensor, obs: Tensor) -> Tensor:
            self.name = next(self.plan)
            return y

    module = Logs(moved(itertools.cycle(GAINS)))
    rw.export(module, tmp_path / "b", example=OBS)
    assert [next(module.plan) for _ in range(3)] == [3.0, 1.0, 2.0]


def test_whoever_shares_one_shares_it_still() -> None:
    module = Planned(iter(GAINS))
    holder = {"plan": module.plan, "plans": [module.plan]}
    with preserved(module, holder):
        next(module.plan)
    assert module.plan is holder["plan"] is holder["plans"][0]
    assert [*module.plan] == GAINS


def test_one_that_nobody_moved_is_the_same_object() -> None:
    module = Planned(itertools.cycle(GAINS))
    plan = module.plan
    with preserved(module):
        module.net.weight.data.zero_()
    assert module.plan is plan


@pytest.mark.parametrize(
    "make", [numbers, lambda: zip(numbers(), GAINS, strict=False), lambda: (g for g in GAINS)]
)
def test_a_generator_is_refused_before_it_is_consumed(make: Callable[[], Any]) -> None:
    module = Planned(make())
    plan = module.plan
    with pytest.raises(rw.ExportError) as caught:
        capture(rw.Source(module, example=OBS))
    finding = caught.value.findings[0]
    assert (finding.code, finding.where) == ("RW112", "Planned.plan")
    assert "so nothing was taken from it" in finding.what
    assert "declared: memory={…}" in finding.hint
    assert module.plan is plan
    assert next(plan) == next(make())


SILENT: dict[str, Callable[[], Iterator[Any]]] = {
    "re.finditer": lambda: re.finditer("[3-9]", "3456789"),
    "struct.iter_unpack": lambda: struct.iter_unpack("b", bytes(range(3, 10))),
    "memoryview": lambda: iter(memoryview(bytes(range(3, 10)))),
    "a call until it says so": lambda: iter(iter(range(3, 10)).__next__, 99),
}


@pytest.mark.parametrize("name", SILENT)
def test_one_that_does_not_say_where_it_is_is_refused_before_it_is_consumed(name: str) -> None:
    class Asks(Base):
        plan: Iterator[Any]

        def forward(self, obs: Tensor) -> Tensor:
            next(self.plan)
            return super().forward(obs)

    policy = Asks()
    policy.plan = plan = SILENT[name]()
    with pytest.raises(rw.RoadworthyError, match="nothing was taken from it"):
        capture(rw.Source(policy, example=OBS))
    assert policy.plan is plan
    assert len([*plan]) == 7


def test_a_generator_that_does_not_matter_may_be_used_up(tmp_path: Path) -> None:
    """As the hint says."""

    class Logs(Planned):
        def act(self, y: Tensor, obs: Tensor) -> Tensor:
            self.level = next(self.plan)
            return y

    module = Logs(float(each) for each in itertools.count())
    plan = module.plan
    with pytest.raises(rw.ExportError, match=r"ignore=\['plan'\]"):
        rw.export(module, tmp_path / "b", example=OBS)
    rw.export(module, tmp_path / "b", example=OBS, ignore=["plan"])
    assert module.plan is plan


PLAN = itertools.cycle(GAINS)
ONCE = numbers()


class PlannedOutside(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * next(PLAN)


class GeneratedOutside(Base):
    def act(self, y: Tensor, obs: Tensor) -> Tensor:
        return y * next(ONCE)


def test_one_of_the_module_file_goes_on_where_it_was() -> None:
    with pytest.raises(rw.ExportError, match="RW112"):
        capture(rw.Source(PlannedOutside(), example=OBS))
    assert [next(PLAN) for _ in range(4)] == [1.0, 2.0, 3.0, 1.0]


def test_a_generator_of_the_module_file_is_not_consumed() -> None:
    once = ONCE
    with pytest.raises(rw.ExportError, match="nothing was taken from it") as caught:
        capture(rw.Source(GeneratedOutside(), example=OBS))
    assert caught.value.findings[0].where == "test_iterators.ONCE"
    assert ONCE is once
    assert next(ONCE) == 1.0


@pytest.mark.parametrize("kind", ["training", "held"])
def test_a_generator_that_no_call_asks_is_no_obstacle(kind: str, tmp_path: Path) -> None:
    class Trains(Planned):
        def act(self, y: Tensor, obs: Tensor) -> Tensor:
            return y * next(self.plan) if self.training and kind == "training" else y

    module = Trains(numbers()).eval()
    plan = module.plan
    rw.export(module, tmp_path / "b", example=OBS)
    assert module.plan is plan
    assert next(plan) == 1.0


class Commanded(InPlace):
    """The world draws its commands from an iterator."""

    def build(self) -> None:
        super().build()
        self.commands = itertools.cycle([0.0, 0.1])
        self.names = numbers()

    def world(self) -> None:
        super().world()
        self.q += next(self.commands)


def test_the_iterators_of_an_environment_go_on_where_they_were(tmp_path: Path) -> None:
    env = Commanded()
    next(env.commands)
    rw.export_environment(env, feedforward(env), tmp_path / "b")
    assert [next(env.commands) for _ in range(3)] == [0.1, 0.0, 0.1]
    assert next(env.names) == 1.0


def test_modules_of_a_policy_may_hold_a_generator_in_a_tuple() -> None:
    """Where nothing can stand in its place, it is told afterwards."""
    module = nn.Linear(1, 1)
    held: Any = module
    held.plans = (numbers(),)

    def act() -> None:
        with preserved(module):
            next(held.plans[0])

    with pytest.raises(rw.ExportError, match="does not let itself be put back") as caught:
        act()
    assert caught.value.findings[0].where == "Linear.plans[0]"


class InATuple(Base):
    """No copy can take the place of what a tuple holds."""

    def __init__(self, make: Callable[[], Iterator[Any]]) -> None:
        super().__init__()
        self.plans = (make(),)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        next(self.plans[0])
        return super().forward(obs)


@pytest.mark.parametrize("name", sorted(set(COPIED) - {"repeat"}))
def test_one_in_a_tuple_is_refused_with_a_name_to_ignore(name: str, tmp_path: Path) -> None:
    module = InATuple(COPIED[name])
    next(module.plans[0])
    with pytest.raises(rw.ExportError, match="does not let itself be put back") as caught:
        rw.export(module, tmp_path / "b", example=OBS)
    said = [re.search(r"ignore=\['(\w+)'\]", each.hint) for each in caught.value.findings]
    assert [each and each[1] for each in said] == ["plans"] * len(said)


@pytest.mark.parametrize("begun", [1, 2, 3, 4, 0])
def test_what_an_iterator_keeps_for_itself_is_never_written(begun: int, tmp_path: Path) -> None:
    """`cycle` counts on the length of its list, and reads beyond the end of a shorter one."""
    module = InATuple(lambda: itertools.cycle(GAINS))
    for _ in range(begun):
        next(module.plans[0])
    with pytest.raises(rw.ExportError, match="does not let itself be put back"):
        rw.export(module, tmp_path / "b", example=OBS)
    given = [next(module.plans[0]) for _ in range(6)]
    assert sorted(given[:3]) == GAINS
    assert given[3:] == given[:3]


def test_what_the_hint_says_to_ignore_in_a_tuple_is_ignored(tmp_path: Path) -> None:
    module = InATuple(COPIED["cycle"])
    rw.export(module, tmp_path / "b", example=OBS, ignore=["plans"])
    assert next(module.plans[0]) in GAINS
