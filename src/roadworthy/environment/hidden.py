"""Hidden inputs: what the environment reads, that moves, and that nobody registered.

Each tensor that was read and is no port would become a constant. Living with the environment for
a while tells whether it is one: what the captured step itself changes is memory, what changes
otherwise is an input, what never changes, or changes nothing, is a constant indeed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch

from roadworthy.capture.snapshot import preserved
from roadworthy.capture.substitution import Read
from roadworthy.environment.components import Input, Memory, Output
from roadworthy.environment.movement import Movement, advanced, unreachable_moves
from roadworthy.environment.numbers import Number
from roadworthy.environment.paths import Place
from roadworthy.environment.source import EnvironmentSource, results
from roadworthy.errors import Finding
from roadworthy.spec.port import Array
from roadworthy.spec.tolerance import INFLUENCE

# What matters at one moment may be multiplied by zero at another: after so many live steps.
MOMENTS = (0, 5, 17)
# No fraction of a period: a sine of the nudged value must not come out the same.
NUDGE = 0.6180339887

Kind = Literal["Input", "Memory", "Output"]


@dataclass(frozen=True, slots=True)
class Hidden:
    """Something that moves, is read, matters, and is no port."""

    place: Place | None
    kind: Kind
    where: str
    number: bool = False
    handed_over: bool = False

    def finding(self, source: EnvironmentSource) -> Finding:
        cause = "changes between steps" if self.kind == "Input" else "is written by the step"
        if self.place is None:
            return Finding(
                code="RW121",
                where=self.where,
                what=f"reads a tensor that {cause}, and no attribute of the environment holds it",
                hint=f"keep it in an attribute of the environment and register that as {self.kind}",
            )
        shown = self.place.public(source.roots)
        if self.number:
            what = (
                "is a Python number that changes, and the outputs depend on it: it would be frozen"
            )
        else:
            what = f"is read, {cause}, and is not registered: it would be frozen"
        return Finding(
            code="RW121",
            where=f"{shown} at {self.where}" if self.where else shown,
            what=what,
            hint=self.line(source),
        )

    @property
    def name(self) -> str:
        assert self.place is not None
        return self.place.path.rpartition(".")[2].strip("_")

    def line(self, source: EnvironmentSource) -> str:
        """The registration to add."""
        assert self.place is not None
        shown = self.place.public(source.roots)
        return (
            f"env.context_manager().add_component({self.kind}(name={self.name!r}, "
            f"get_from_env_cb=lambda: {shown}))"
        )

    def component(self, source: EnvironmentSource) -> Input | Output:
        """What the line would register."""
        assert self.place is not None
        kinds: dict[Kind, type[Input] | type[Output]]
        kinds = {"Input": Input, "Memory": Memory, "Output": Output}
        return kinds[self.kind](self.name, partial(self.place.get, source.roots))


def hidden(
    source: EnvironmentSource, reads: Mapping[str, list[Read]], moved: Movement
) -> tuple[list[Hidden], list[Place]]:
    """Every hidden input, and the places that process_actions hands over to apply_actions.

    `reads` are those of the two halves of a policy step, by name. What the first half writes and
    only the second reads needs no registration: it can be nothing but memory.
    """
    found: dict[str, Hidden] = {}
    handed_over: dict[str, Place] = {}
    for steps in MOMENTS:
        with advanced(source, steps):
            for each in (
                *_tensors(source, reads, moved, {*found, *handed_over}),
                *_numbers(source, moved),
            ):
                if each.handed_over and each.place is not None:
                    handed_over[each.place.path] = each.place
                else:
                    found.setdefault(each.place.path if each.place else each.where, each)
    return list(found.values()), list(handed_over.values())


def _tensors(
    source: EnvironmentSource, reads: Mapping[str, list[Read]], moved: Movement, done: set[str]
) -> Iterator[Hidden]:
    _, known = moved.places
    ports = {id(read()) for read in source.ports.values()}
    for half, seen in reads.items():
        for read in seen:
            place = known.get(id(read.tensor))
            if place is None:
                if read.where not in done and _unreachable_matters(source, half, read):
                    yield Hidden(None, "Input", read.where)
                continue
            if place.path in done or not moved.moves(place.path, read.rest):
                continue
            tensor = place.get(source.roots)
            if id(tensor) in ports or not _tensor_matters(source, half, tensor, read.rest):
                continue
            kind: Kind = "Memory" if place.path in moved.by_step else "Input"
            passed_on = half == "substep" and kind == "Memory"
            yield Hidden(place, kind, read.where, handed_over=passed_on)


def _unreachable_matters(source: EnvironmentSource, half: str, read: Read) -> bool:
    if isinstance(read.tensor, torch.nn.Parameter):
        return False
    return unreachable_moves(source, read.tensor) and _tensor_matters(
        source, half, read.tensor, read.rest
    )


def _numbers(source: EnvironmentSource, moved: Movement) -> Iterator[Hidden]:
    known, _ = moved.places
    registered = {r.place.path for r in source.ports.values() if isinstance(r, Number)}
    for path in sorted(moved.all - registered):
        value = moved.before.get(path)
        if not isinstance(value, (bool, int, float, np.generic)) or path not in known:
            continue
        others = [*moved.seen.get(path, ()), *_others(value)]
        halves = ("step", "substep")
        if any(_number_matters(source, h, known[path], each) for h in halves for each in others):
            kind: Kind = "Memory" if path in moved.by_step else "Input"
            yield Hidden(known[path], kind, "", number=True)


def _number_matters(source: EnvironmentSource, half: str, place: Place, value: Any) -> bool:
    """Whether the results of one half of the step depend on the number at a place."""
    plain = outcome(source, half)
    with preserved(*source.roots.values()):
        try:
            place.put(source.roots, value)
        except TypeError:  # inside a tuple: what changes is the tuple, and it is not read
            return False
        try:
            return not same(plain, outcome(source, half))
        except Exception:  # another value breaks the environment: it certainly matters
            return True


def _tensor_matters(
    source: EnvironmentSource, half: str, tensor: torch.Tensor, rest: Array | None
) -> bool:
    """Whether the results depend on the tensor, or on those of its elements that are no port."""
    plain = outcome(source, half)
    with preserved(*source.roots.values(), [tensor]), torch.inference_mode():
        nudged = _nudged(tensor)
        if rest is not None and rest.shape == tuple(tensor.shape):
            nudged = torch.where(torch.from_numpy(rest), nudged, tensor)
        # In place, so that every view of it sees the other values too.
        tensor.copy_(nudged)
        try:
            return not same(plain, outcome(source, half))
        except Exception:  # another value breaks the environment: it certainly matters
            return True


def outcome(source: EnvironmentSource, half: str) -> list[torch.Tensor]:
    """The results of one half of the step from the present state, which is put back."""
    with preserved(*source.roots.values()), torch.inference_mode():
        torch.manual_seed(0)
        outputs, memory = results(source, getattr(source, half), torch.Tensor.clone)
        return [*outputs.values(), *memory.values()]


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(INFLUENCE.close(a, b) for a, b in zip(one, other, strict=True))


def _nudged(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype == torch.bool:
        return ~tensor
    if not tensor.is_floating_point():
        return torch.where(tensor > 0, tensor - 1, tensor + 1).to(tensor.dtype)
    return tensor + NUDGE


def _others(value: Any) -> list[Any]:
    if isinstance(value, (bool, np.bool_)):
        return [type(value)(not value)]
    if isinstance(value, (int, np.integer)):
        return [type(value)(value + 1), type(value)(value + 2), type(value)(value + 3)]
    return [type(value)(value + NUDGE)]
