"""Movement: what changes while an environment lives, and by what cause."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from roadworthy.capture.devices import whole_float32
from roadworthy.capture.substitution import Read
from roadworthy.environment.horizon import Horizon, horizon
from roadworthy.environment.life import LEAST_STEPS, Life
from roadworthy.environment.paths import Place, find
from roadworthy.environment.source import EnvironmentSource, Tensors
from roadworthy.environment.ticks import LiveRun, eager, watch_ticks
from roadworthy.environment.unreached import Lines, Unreached, lines_noted, unreached
from roadworthy.inspection.snapshot import Snapshot, Value, preserved, same, values
from roadworthy.inspection.walking import held
from roadworthy.spec.port import Array

# Walking through a whole simulator takes long: then only at some of the steps.
MOST_WALKED = 3_000
OBSERVED_STEPS = 32
# What matters at one moment may be multiplied by zero at another: after so many live steps.
LATER = (5, 17)


@dataclass(frozen=True, slots=True)
class Movement:
    """The paths that moved, by cause: the captured step, or the world around it.

    by_step       what one of the two halves wrote, at any moment, with another value or the same
    latches       flags that the world writes at every step, though they stayed as they were
    differing     which elements of a tensor had another value at any moment; None for all
    inputs_written  Inputs that the captured step changes, and which of their elements, where
                  nothing but a reset writes them otherwise
    outputs_written  Outputs that a half wrote at any moment, with another value or the same
    resets        whether a reset was seen that changed something registered
    untold_reset  the first step that changed memory after its last tick and told of no reset, and
                  the names of what it changed
    observed      what the inputs were at the first decisions, one after the other
    loose         ids of tensors that moved and that no attribute leads to
    unreached     lines that never ran and would write an attribute
    later         the environment at two later moments: what matters at one may not at another
    life          all that was lived through, where an artifact can be compared with it
    """

    by_step: frozenset[str]
    by_world: frozenset[str]
    latches: frozenset[str]
    before: dict[str, Value]
    differing: dict[str, torch.Tensor | None]
    # By path, and by the identity of what lay there before anything moved.
    places: tuple[dict[str, Place], dict[int, Place]]
    horizon: Horizon
    inputs_moved: frozenset[str]
    inputs_written: dict[str, torch.Tensor]
    outputs_written: frozenset[str]
    resets: bool
    untold_reset: tuple[int, list[str]] | None
    observed: dict[str, Array]
    loose: frozenset[int]
    unreached: tuple[Unreached, ...]
    later: tuple[Snapshot, ...]
    life: Life | None

    @property
    def all(self) -> frozenset[str]:
        return self.by_step | self.by_world | self.latches

    def moves(self, path: str, part: Array | None) -> bool:
        """Whether the value at a path moved, or that part of its elements."""
        if path not in self.all or part is None:
            return path in self.all
        mask = self.differing.get(path, _NOWHERE)
        return mask is None or (
            mask.shape == part.shape and bool(mask[torch.from_numpy(part)].any())
        )


_NOWHERE = torch.zeros(0, dtype=torch.bool)


def movement(
    source: EnvironmentSource, codes: frozenset[types.CodeType], reads: Mapping[str, list[Read]]
) -> Movement:
    """What changes when the captured step runs, and what changes when the environment lives.

    `codes` are those that run when it does: they say how long it must be watched. Of what the
    halves read, what no attribute leads to is watched as well.
    """
    read = [each.tensor for half in reads.values() for each in half]
    return _Search(source, horizon(source, codes), read).movement()


class _Search:
    """One long life of the environment, and what each moment of it showed."""

    def __init__(
        self, source: EnvironmentSource, watched: Horizon, read: Sequence[torch.Tensor]
    ) -> None:
        self.source, self.horizon = source, watched
        self.places = find(source.roots)
        self.loose = [
            each
            for each in read
            if id(each) not in self.places[1] and not isinstance(each, torch.nn.Parameter)
        ]
        self.loose_before = [each.detach().clone() for each in self.loose]
        self.loose_moved: set[int] = set()
        self.before = values(source.roots)
        self.differing: dict[str, torch.Tensor | None] = {}
        self.by_step: set[str] = set()
        self.by_world: set[str] = set()
        self.latches: set[str] = set()
        self.inputs_moved: set[str] = set()
        self.inputs_written: dict[str, torch.Tensor] = {}
        self.written_by_world: set[str] = set()
        self.outputs_written: set[str] = set()
        self.resets = False
        self.disturbed: dict[int, list[str]] = {}
        self.decided: list[Tensors] = []
        self.later: list[Snapshot] = []
        self.life = Life()
        self.lines: Lines = {}
        self._last: dict[str, tuple[Any, int | None]] = {}

    def movement(self) -> Movement:
        """One life serves the search, the trials at later moments, and the check of artifacts.

        It begins with a reset, as a life beside an artifact must, and is as long as the longest of
        the three asks for. With several rows that is not possible: beside an artifact all of them
        are reset together, and one row would keep the others from living long. Then the search has
        a life of its own, and the check another.
        """
        source = self.source
        shared = source.rows == 1
        steps = max(LEAST_STEPS, self.horizon.steps) if shared else self.horizon.steps
        moments = {*self.horizon.moments(), steps}
        always = len(self.places[0]) <= MOST_WALKED
        roots = (*source.roots.values(), self.loose)
        with preserved(*roots), whole_float32(), eager(source), watch_ticks(source) as live:
            self._halves(list(held(source.roots)))
            brackets = live.between_calls()
            began = {name: read().clone() for name, read in source.inputs.items()}
            if shared:
                self._restart(live)
            for step in range(1, steps + 1):
                stamps = _stamps(held(source.roots)) if step in moments else {}
                brackets.clear()
                with lines_noted(self.lines):
                    decision, ticks, was_reset = self.life.step(live)
                if len(self.decided) < OBSERVED_STEPS:
                    self.decided.append(decision.inputs)
                if live.followed and not was_reset:
                    self._note_disturbed(step, ticks[-1].memory, live.memory())
                self.written_by_world |= set() if was_reset else brackets
                self._note_inputs(began)
                now = list(held(source.roots)) if always or step in moments else []
                self._look(now, self.by_world)
                if step in moments:
                    self.latches |= set() if was_reset else _flags_written(now, stamps)
                    self._halves(now)
                self.resets = self.resets or was_reset
                if step in LATER:
                    self.later.append(live.snapshot(self.loose))
                if shared and was_reset:
                    self._restart(live)
            # Not on the way: what no attribute leads to, a reset on the side would set back.
            self.resets = self.resets or self._resets() or any(map(self._resets, self.later))
            with lines_noted(self.lines):
                live.restart()
            self._look(held(source.roots), self.by_world)
        return Movement(
            by_step=frozenset(self.by_step),
            by_world=frozenset(self.by_world - self.by_step),
            latches=frozenset(self.latches - self.by_step - self.by_world),
            before=self.before,
            differing=self.differing,
            places=self.places,
            horizon=self.horizon,
            inputs_moved=frozenset(self.inputs_moved),
            inputs_written={
                name: mask
                for name, mask in self.inputs_written.items()
                if name not in self.written_by_world
            },
            outputs_written=frozenset(self.outputs_written),
            resets=self.resets,
            untold_reset=_untold(self.disturbed, steps),
            observed={
                name: np.stack([each[name].cpu().numpy() for each in self.decided])
                for name in self.decided[0]
            },
            loose=frozenset(self.loose_moved),
            unreached=tuple(unreached(source.env, self.lines)),
            later=tuple(self.later),
            life=self.life if shared else None,
        )

    def _restart(self, live: LiveRun) -> None:
        with lines_noted(self.lines):
            self.life.restart(live)

    def _halves(self, found: Iterable[tuple[str, Any]]) -> None:
        """Both halves of a step from the present state, which is put back; notes what they wrote.

        A tensor that is written with the value that it had is written all the same: a latch, a
        time in the air, a queue of zeros. `found` is what there is now.
        """
        source, stamps = self.source, _stamps(found)
        with preserved(*source.roots.values(), self.loose):
            given = {name: read().clone() for name, read in source.inputs.items()}
            outputs = {name: read() for name, read in source.outputs.items()}
            kept = {name: (_version(each), each.clone()) for name, each in outputs.items()}
            source.step()
            source.substep()
            self._note_written(given)
            self._note_outputs(outputs, kept)
            for path, value in held(source.roots):
                was, version = stamps.get(path, (None, None))
                if isinstance(value, torch.Tensor):
                    if value is was and version is not None and version == _version(value):
                        continue
                    if self._differs(path, value, set()) or version is not None:
                        self.by_step.add(path)
                elif not same(value, was):
                    self.by_step.add(path)
        self._last.clear()

    def _look(self, found: Iterable[tuple[str, Any]], moved: set[str]) -> None:
        """Notes in `moved` whatever of `found` has another value than at the beginning."""
        for tensor, was in zip(self.loose, self.loose_before, strict=True):
            if id(tensor) not in self.loose_moved and not same(tensor, was):
                self.loose_moved.add(id(tensor))
        for path, value in found:
            if isinstance(value, torch.Tensor):
                was, version = self._last.get(path, (None, None))
                if value is not was or version is None or version != _version(value):
                    self._last[path] = (value, _version(value))
                    self._differs(path, value, moved)
            elif path not in moved and not same(value, self.before.get(path)):
                moved.add(path)

    def _differs(self, path: str, value: torch.Tensor, moved: set[str]) -> bool:
        before = self.before.get(path)
        if same(value, before):
            return False
        moved.add(path)
        if not isinstance(before, torch.Tensor) or before.shape != value.shape:
            self.differing[path] = None
        else:
            known = self.differing.get(path, _NOWHERE)
            mask = value.cpu() != before.cpu()
            if known is not None:
                self.differing[path] = mask | known if known.shape == mask.shape else mask
        return True

    def _note_written(self, given: Tensors) -> None:
        for name, read in self.source.inputs.items():
            now, was = read(), given[name]
            if now.shape == was.shape and not same(now, was):
                mask = (now != was).cpu()
                known = self.inputs_written.get(name, mask)
                self.inputs_written[name] = mask | known

    def _note_outputs(
        self, before: Tensors, kept: Mapping[str, tuple[int | None, torch.Tensor]]
    ) -> None:
        """A target of zero for a robot at rest is written, though it stays what it was."""
        for name, read in self.source.outputs.items():
            version, value = kept[name]
            now = read()
            if now is not before[name] or version != _version(now) or not same(now, value):
                self.outputs_written.add(name)

    def _note_disturbed(self, step: int, left: Tensors, now: Tensors) -> None:
        """Notes the memories that are not as the last tick of a step left them."""
        changed = [name for name in now if not same(now[name], left[name])]
        if changed:
            self.disturbed[step] = changed

    def _note_inputs(self, began: Tensors) -> None:
        for name, read in self.source.inputs.items():
            if name not in self.inputs_moved and not torch.equal(read(), began[name]):
                self.inputs_moved.add(name)

    def _resets(self, moment: Snapshot | None = None) -> bool:
        """Whether a reset changes any registered value, beyond what observing does: a reset from
        here, or from another moment."""
        source = self.source
        ports = source.inputs | source.memory
        with preserved(*source.roots.values(), self.loose):
            if moment is not None:
                moment.restore()
            with preserved(*source.roots.values()):
                source.env.compute_observations()
                left = {name: read().clone() for name, read in ports.items()}
            source.restart()
            return any(not same(read(), left[name]) for name, read in ports.items())


def _untold(disturbed: Mapping[int, list[str]], watched: int) -> tuple[int, list[str]] | None:
    """The first step that changed memory outside of the captured methods, and what it changed.

    What happens at every step is no reset: a command term that is computed twice, for instance.
    """
    if not disturbed or 2 * len(disturbed) > watched:
        return None
    first = min(disturbed)
    return first, disturbed[first]


def _stamps(found: Iterable[tuple[str, Any]]) -> dict[str, tuple[Any, int | None]]:
    """Path → what lies there, and how often it was written in place."""
    return {
        path: (value.copy() if isinstance(value, np.ndarray) else value, _version(value))
        for path, value in found
    }


def _flags_written(
    found: Iterable[tuple[str, Any]], stamps: dict[str, tuple[Any, int | None]]
) -> set[str]:
    """The paths of flags that were written since."""
    written = set()
    for path, value in found:
        if isinstance(value, torch.Tensor) and value.dtype == torch.bool and path in stamps:
            was, version = stamps[path]
            if version is not None and (value is not was or version != _version(value)):
                written.add(path)
    return written


def _version(value: object) -> int | None:
    """How often a tensor was written in place; None where that is not counted."""
    if not isinstance(value, torch.Tensor) or value.is_inference():
        return None
    return value._version
