"""Whatever happens inside `preserved`, everything reachable comes back bit for bit."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from roadworthy.inspection.snapshot import Snapshot, changed, preserved, values
from roadworthy.inspection.walking import walk


class Plain:
    """An object that is no module, as environments and wrappers are."""

    def __init__(self) -> None:
        self.count = 3
        self.array = np.arange(4.0)
        self.names = ["a", "b"]
        self.inner: Any = None


@dataclass(slots=True)
class Slotted:
    """An object without a `__dict__`, as a dataclass with slots is."""

    state: torch.Tensor
    steps: int = 0


class Holder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(2, 2)
        self.register_buffer("steps", torch.zeros(3))
        self.hidden: torch.Tensor | None = None
        self.kept = torch.ones(2)
        self.past = [torch.zeros(1)]
        self.table = {"x": torch.zeros(2), "y": 1}
        self.recent: deque[int] = deque([1, 2], maxlen=2)
        self.seen = {1, 2}
        self.slotted = Slotted(torch.zeros(2))
        self.plain = Plain()
        self.plain.inner = Plain()
        self.rng = np.random.default_rng(0)
        self.legacy = np.random.RandomState(0)
        self.python = random.Random(0)
        self.generator = torch.Generator().manual_seed(0)


def changes(holder: Holder) -> list[Any]:
    """One function for every way in which a call may leave its marks."""
    return [
        lambda: holder.steps.add_(1),
        lambda: holder.net.weight.data.zero_(),
        lambda: holder.net.weight.data.fill_(float("nan")),
        lambda: setattr(holder.net, "weight", nn.Parameter(torch.ones(2, 2))),
        lambda: setattr(holder, "hidden", torch.ones(2)),
        lambda: setattr(holder, "kept", None),
        lambda: holder.kept.mul_(2),
        lambda: setattr(holder.kept, "data", torch.zeros(5)),
        lambda: delattr(holder, "past"),
        lambda: setattr(holder, "new", 1),
        lambda: holder.past.append(torch.ones(1)),
        lambda: holder.past[0].add_(1),
        lambda: setattr(holder, "past", []),
        lambda: holder.table.update(z=3),
        lambda: holder.table.pop("x"),
        lambda: holder.table["x"].add_(1),
        lambda: holder.recent.append(9),
        lambda: holder.train(False),
        lambda: holder.net.register_buffer("late", torch.zeros(1)),
        lambda: setattr(holder.plain, "count", 4),
        lambda: holder.plain.array.__setitem__(0, 7.0),
        lambda: holder.plain.inner.names.clear(),
        lambda: setattr(holder.plain, "inner", None),
        lambda: holder.seen.add(3),
        lambda: holder.slotted.state.add_(1),
        lambda: setattr(holder.slotted, "state", torch.ones(2)),
        lambda: setattr(holder.slotted, "steps", 1),
    ]


def facts(holder: Holder) -> list[tuple[str, int, str]]:
    """Path, identity and content of everything, in order."""
    found = []
    for path, value in walk(holder):
        content = value.tolist() if isinstance(value, (torch.Tensor, np.ndarray)) else None
        number = value if isinstance(value, (bool, int, float, str)) else None
        length = len(value) if isinstance(value, (list, dict, deque, set)) else None
        found.append((path, id(value), repr((content, number, length))))
    slotted = holder.slotted
    found.append(("slotted", id(slotted.state), repr((slotted.state.tolist(), slotted.steps))))
    return found


@pytest.mark.parametrize("index", range(len(changes(Holder()))))
def test_change_is_undone(index: int) -> None:
    holder = Holder()
    before = facts(holder)
    with preserved(holder):
        changes(holder)[index]()
        assert facts(holder) != before
    assert facts(holder) == before


def test_all_changes_at_once_are_undone() -> None:
    holder = Holder()
    before = facts(holder)
    with preserved(holder):
        holder.past.append(torch.ones(3))
        holder.past[0].add_(2)
        holder.past = []
        holder.table["x"].add_(1)
        holder.table = {}
        holder.recent.extend(range(5))
        holder.plain.inner.array += 1
        holder.plain = Plain()
        holder.half()
    assert facts(holder) == before
    assert holder.recent.maxlen == 2


def test_change_is_undone_when_the_block_raises() -> None:
    holder = Holder()
    before = facts(holder)

    def fail() -> None:
        with preserved(holder):
            holder.steps.add_(1)
            holder.hidden = torch.ones(1)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert facts(holder) == before


def drawn(holder: Holder) -> list[float]:
    """One number from every generator, the global ones included."""
    return [
        torch.rand(()).item(),
        float(np.random.rand()),
        random.random(),
        float(holder.rng.random()),
        float(holder.legacy.rand()),
        holder.python.random(),
        torch.rand((), generator=holder.generator).item(),
    ]


def test_every_random_generator_goes_on_where_it_was() -> None:
    holder = Holder()
    drawn(holder)
    with preserved(holder):
        inside = drawn(holder)
    assert drawn(holder) == inside


def test_gradients_and_their_flags_are_kept() -> None:
    holder = Holder()
    holder.net.weight.grad = torch.ones(2, 2)
    gradient = holder.net.weight.grad
    with preserved(holder):
        holder.net.weight.data.add_(1)
    assert holder.net.weight.grad is gradient
    assert holder.net.weight.requires_grad


def test_changed_names_the_paths_a_user_would_type() -> None:
    holder = Holder()
    before = values(holder)
    holder.net.weight.data.add_(1)
    holder.steps.add_(1)
    holder.hidden = torch.ones(1)
    holder.past.append(torch.ones(1))
    holder.plain.inner.count = 9
    assert sorted(changed(before, values(holder))) == [
        "hidden", "net.weight", "past[1]", "plain.inner.count", "steps",
    ]  # fmt: skip


def test_nan_that_stays_is_no_change() -> None:
    holder = Holder()
    holder.kept.fill_(float("nan"))
    assert changed(values(holder), values(holder)) == []


def test_walk_ends_in_cycles() -> None:
    one, other = Plain(), Plain()
    one.inner, other.inner = other, one
    assert [path for path, value in walk(one) if isinstance(value, Plain)] == ["", "inner"]


class Base:
    __slots__ = ("kept", "q")


class Shadowing(Base):
    """As sympy's Zero: what its base keeps in a slot, it has from its class."""

    __slots__ = ()
    q = 1


def test_a_slot_that_the_class_hides_is_left_alone() -> None:
    module = nn.Linear(2, 2)
    held = Shadowing()
    held.kept = 3
    module.held = held  # type: ignore[assignment]
    with preserved(module):
        held.kept = 4
    assert (held.kept, held.q) == (3, 1)


class ForeignArray:
    """Memory of another library, as warp's arrays are: no attribute of it tells the values."""

    def __init__(self) -> None:
        self._memory = np.arange(6, dtype=np.float32)

    @property
    def __array_interface__(self) -> dict[str, object]:
        return self._memory.__array_interface__


def test_the_memory_of_a_foreign_array_is_put_back_and_its_attributes_are_left_alone() -> None:
    array = ForeignArray()
    with preserved({"simulator": [array]}):
        np.asarray(array)[:] = -1.0
    assert array._memory.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert [path for path, _ in walk(array)] == [""]


def test_a_snapshot_is_put_back_as_often_as_one_likes() -> None:
    thing = {"tensor": torch.zeros(2), "list": [1, 2], "count": 0}
    snapshot = Snapshot(thing)
    for number in (1, 2):
        thing["tensor"] += number
        thing["list"].append(number)
        thing["count"] = number
        snapshot.restore()
        assert thing["tensor"].tolist() == [0.0, 0.0]
        assert (thing["list"], thing["count"]) == ([1, 2], 0)


def test_a_tensor_whose_storage_moved_is_put_back_where_it_is_now() -> None:
    thing = {"tensor": torch.arange(3.0)}
    snapshot = Snapshot(thing)
    thing["tensor"].untyped_storage().resize_(1 << 20)
    thing["tensor"].fill_(-1.0)
    snapshot.restore()
    assert thing["tensor"].tolist() == [0.0, 1.0, 2.0]


def test_a_zero_comes_back_with_its_sign() -> None:
    thing = torch.tensor([-0.0])
    with preserved(thing):
        thing.abs_()
    assert torch.signbit(thing).all()
