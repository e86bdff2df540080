"""Hidden inputs: what the environment reads, that moves, and that nobody registered.

Each tensor that was read and is no port would become a constant. Living with the environment for
a while tells whether it is one: what the captured step itself changes is memory, what changes
otherwise is an input, what never changes is a constant indeed. What moves and reaches an output in
the graph is hidden until trials with other values, in other circumstances too, have acquitted it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import CodeType
from typing import Literal

import numpy as np
import torch

from roadworthy.capture.substitution import Read
from roadworthy.environment.assigned import is_held_by_port
from roadworthy.environment.components import Input, Memory, Output
from roadworthy.environment.movement import Movement
from roadworthy.environment.nudging import Suspect, Trials, tensor_matters
from roadworthy.environment.numbers import Number
from roadworthy.environment.paths import Place
from roadworthy.environment.reaching import Reach
from roadworthy.environment.running import halves
from roadworthy.environment.source import EnvironmentSource
from roadworthy.errors import Finding
from roadworthy.inspection.snapshot import Snapshot, preserved
from roadworthy.inspection.standins import Ledger, stand_in
from roadworthy.inspection.watch import use_of
from roadworthy.spec.port import Array

Kind = Literal["Input", "Memory", "Output"]


@dataclass(frozen=True, slots=True)
class Hidden:
    """Something that moves, is read, matters, and is no port."""

    place: Place | None
    kind: Kind
    where: str
    number: bool = False
    handed_over: bool = False
    # The line that would write it, where no step that was watched came to it.
    unreached: str = ""
    # What it is to be called, where its attribute's own name is taken.
    label: str = ""

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
        if self.unreached:
            what = (
                f"is read, and {self.unreached} would write it, though no step that was watched "
                "came there: it would be frozen"
            )
        elif self.number:
            what = (
                "is a Python number that changes, and the outputs depend on it: it would be frozen"
            )
        else:
            what = f"is read, {cause}, and is not registered: it would be frozen"
        return Finding(
            code="RW121",
            where=f"{shown} at {self.where}" if self.where else shown,
            what=what,
            hint=self._queue(source) or self.line(source),
        )

    def _queue(self, source: EnvironmentSource) -> str:
        """What to do where the place is one of a deque: the others move with it."""
        assert self.place is not None
        holder = Place(self.place.path, self.place.keys[:-1])
        if not isinstance(holder.get(source.roots), deque):
            return ""
        shown = holder.public(source.roots)
        name = shown.rpartition(".")[2]
        return (
            f"keep all of {shown} in one tensor, (envs, length, …), shift it with torch.cat, and "
            f"register that: env.context_manager().add_component({self.kind}(name={name!r}, "
            f"get_from_env_cb=lambda: {shown}))"
        )

    @property
    def name(self) -> str:
        assert self.place is not None
        return self.label or self.place.path.rpartition(".")[2].strip("_")

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
    source: EnvironmentSource,
    reads: Mapping[str, list[Read]],
    moved: Movement,
    constants: Sequence[float] = (),
    codes_of_step: Collection[CodeType] = (),
    reached: Mapping[str, Reach] | None = None,
) -> tuple[list[Hidden], list[Place]]:
    """Every hidden input, and the places that process_actions hands over to apply_actions.

    `reads` are those of the two halves of a policy step, by name. What the first half writes and
    only the second reads needs no registration: it can be nothing but memory. `constants` are the
    numbers in the graphs: other values that are worth trying. `reached` says what of each half's
    graph reaches its outputs.
    """
    reads = {
        half: [each for each in seen if reached is None or reached[half].of(each.tensor)]
        for half, seen in reads.items()
    }
    found: dict[str, Hidden] = {}
    handed_over: dict[str, Place] = {}
    with preserved(*source.roots.values()), torch.inference_mode():
        others = [read.tensor for seen in reads.values() for read in seen]
        # Now, and at moments of the life that was watched: it need not be lived again.
        for moment in (Snapshot(*source.roots.values(), others), *moved.later):
            moment.restore()
            done = {*found, *handed_over}
            trials = Trials(source, moment, constants)
            for each in (
                *_tensors(source, reads, moved, done, trials),
                *_numbers(source, moved, done),
            ):
                if each.handed_over and each.place is not None:
                    handed_over[each.place.path] = each.place
                else:
                    found.setdefault(each.place.path if each.place else each.where, each)
    for each in _unreached(source, reads, moved, codes_of_step):
        if each.place is not None:
            found.setdefault(each.place.path, each)
    return list(found.values()), list(handed_over.values())


def _tensors(
    source: EnvironmentSource,
    reads: Mapping[str, list[Read]],
    moved: Movement,
    done: set[str],
    trials: Trials,
) -> Iterator[Hidden]:
    for half, seen in reads.items():
        suspects = [each for read in seen if (each := _suspect(source, read, moved, done))]
        for guilty in trials.culprits(half, [each for each, _ in suspects]):
            place = next(place for each, place in suspects if each is guilty)
            if place is None:
                yield Hidden(None, "Input", guilty.where)
                continue
            kind: Kind = "Memory" if place.path in moved.by_step else "Input"
            passed_on = half == "substep" and kind == "Memory"
            yield Hidden(place, kind, guilty.where, handed_over=passed_on)


def _suspect(
    source: EnvironmentSource, read: Read, moved: Movement, done: set[str]
) -> tuple[Suspect, Place | None] | None:
    """What was read, if it moved and is no port; its place, where an attribute leads to it."""
    place = moved.places[1].get(id(read.tensor))
    if place is None:
        if read.where in done or id(read.tensor) not in moved.loose:
            return None
        return Suspect(read.tensor, read.where, read.rest), None
    if place.path in done or not moved.moves(place.path, read.rest):
        return None
    tensor = place.get(source.roots)
    if any(tensor is port() for port in source.ports.values()):
        return None
    if is_held_by_port(place, source.roots, source.ports):
        return None
    return Suspect(tensor, read.where, _in_question(source, read, moved, place, tensor)), place


def _in_question(
    source: EnvironmentSource, read: Read, moved: Movement, place: Place, tensor: torch.Tensor
) -> Array | None:
    """The elements that may be hidden; None for all of them.

    Of a tensor that is an output itself those that never move are shown as they lie: a robot's
    targets hold all joints, and an action term writes some of them.
    """
    mask = moved.differing.get(place.path)
    if mask is None or mask.shape != tensor.shape or not _is_shown(source, tensor):
        return read.rest
    whole = read.rest is None or read.rest.shape != tuple(tensor.shape)
    return mask.numpy() if whole else read.rest & mask.numpy()


def _numbers(source: EnvironmentSource, moved: Movement, done: set[str]) -> Iterator[Hidden]:
    """Numbers that move and that the captured step looks at, whatever comes of it just now."""
    known, _ = moved.places
    registered = {r.place.path for r in source.ports.values() if isinstance(r, Number)}
    places = [
        known[path]
        for path in sorted(moved.all - registered - done)
        if path in known and isinstance(moved.before.get(path), (bool, int, float, np.generic))
    ]
    places = [each for each in places if not is_held_by_port(each, source.roots, source.ports)]
    # Most numbers are nobody's business: all at once first, one by one only if some are.
    if places and _number_used(source, places) is not None:
        for place in places:
            line = _number_used(source, [place])
            if line is not None:
                kind: Kind = "Memory" if place.path in moved.by_step else "Input"
                yield Hidden(place, kind, "", number=True)


def _number_used(source: EnvironmentSource, places: Sequence[Place]) -> str | None:
    """The line at which a half of the step uses one of the numbers; None where none does."""
    ledger, call = Ledger(), halves(source)
    with preserved(*source.roots.values()):
        for place in places:
            with suppress(TypeError, AttributeError, LookupError):  # in a tuple, read-only, gone
                place.put(source.roots, stand_in(place.get(source.roots), ledger))
        return use_of(call, ledger, [], None)


def _unreached(
    source: EnvironmentSource,
    reads: Mapping[str, list[Read]],
    moved: Movement,
    codes_of_step: Collection[CodeType],
) -> Iterator[Hidden]:
    """What never moved, is read, and would be written by a line that no step came to."""
    by_path, by_id = moved.places
    ports = {id(read()) for read in source.ports.values()}
    taken = {r.place.path for r in source.ports.values() if isinstance(r, Number)} | moved.all
    for line in moved.unreached:
        kind: Kind = "Memory" if line.code in codes_of_step else "Input"
        for path, place in by_path.items():
            if path.rpartition(".")[2] != line.attribute or path in taken:
                continue
            value = moved.before.get(path)
            if isinstance(value, (bool, int, float, np.generic)):
                if _number_used(source, [place]) is not None:
                    yield Hidden(place, kind, "", number=True, unreached=line.line)
            elif isinstance(value, torch.Tensor):
                held = place.get(source.roots)
                if id(held) in ports or by_id[id(held)].path != path:
                    continue
                for half, seen in reads.items():
                    for read in seen:
                        if read.tensor is held and tensor_matters(source, half, held, read.rest):
                            yield Hidden(place, kind, read.where, unreached=line.line)


def _is_shown(source: EnvironmentSource, tensor: torch.Tensor) -> bool:
    """Whether an output lies in the memory of a tensor."""
    first, last = tensor.data_ptr(), tensor.data_ptr() + tensor.numel() * tensor.element_size()
    return any(first <= read().data_ptr() < last for read in source.outputs.values())
