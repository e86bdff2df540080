"""A manager-based environment as one that can be exported: nothing is registered by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from math import prod

import numpy as np
import torch

from roadworthy.environment.actor import ExportableActor, add_actor_memory
from roadworthy.environment.assigned import Assigned
from roadworthy.environment.components import Input, Memory, Output
from roadworthy.environment.exportable import ExportableEnvironment
from roadworthy.errors import ExportError, Finding
from roadworthy.frameworks.managers.actor import GroupActor
from roadworthy.frameworks.managers.dialect import Dialect
from roadworthy.frameworks.managers.problems import said
from roadworthy.frameworks.managers.provenance import addresses, used_by
from roadworthy.frameworks.managers.terms import Candidate
from roadworthy.inspection.snapshot import preserved
from roadworthy.spec.port import About, Array
from roadworthy.spec.robot import Robot

# So many episodes begin before a table that stayed the same is believed to be one: a choice among
# three does so once in six thousand times.
_EPISODES = 8


class ManagedEnvironment(ExportableEnvironment):
    """An environment of a dialect, seen through the groups that its actor declares."""

    recorded_in = "roadworthy.adapters.managers.environment"

    def __init__(self, dialect: Dialect, groups: Sequence[str]) -> None:
        super().__init__()
        self.dialect = dialect
        self.groups = tuple(groups)
        self._about: dict[str, About] = {}
        self._randomised: list[str] = []
        self._tables: list[str] = []
        self._left_out = dialect.left_out(groups)
        # The ports that the actions write, with the names of their elements.
        self._written: dict[str, tuple[str, ...]] = {}
        self._asked: Callable[[], object] | None = None
        self._answer: object = None

    # What an environment must be able to do.

    def compute_observations(self) -> torch.Tensor:
        asked, self._asked = self._asked, None
        if asked is not None:  # the framework observes in its own step: once, and as it likes
            self._answer = asked()
            return self._row(self._answer)
        return self._row(self.dialect.observe(self.groups))

    def process_actions(self, actions: torch.Tensor) -> None:
        self.dialect.process(actions)

    def apply_actions(self) -> None:
        self.dialect.apply()

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        with self._routed():
            was_reset = self.dialect.step(actions)
        return self._row(self._answer), was_reset

    def observations_reset(self) -> torch.Tensor:
        with self._routed():
            self.dialect.reset()
        return self._row(self._answer)

    def empty_actions(self) -> torch.Tensor:
        return torch.zeros(self.dialect.rows, self.dialect.action_width)

    def empty_actor_observations(self) -> torch.Tensor:
        width = sum(prod(shape) for shape in self.shapes().values())
        return torch.zeros(self.dialect.rows, width)

    @property
    def decimation(self) -> int:
        return self.dialect.decimation

    def prepare_export(self) -> None:
        # A buffer that was never pushed to has no shape yet.
        self.observations_reset()
        self.dialect.settle()

    def metadata(self) -> dict[str, str]:
        robot = self.robot()
        said = {} if robot is None else {"robot": json.dumps(robot.to_json())}
        return self.dialect.metadata(self.groups) | said

    def robot(self) -> Robot | None:
        return self.dialect.robot(self.groups, self._written)

    @property
    def tick_s(self) -> float | None:
        return self.dialect.tick_s

    def advisories(self) -> Sequence[Finding]:
        found = [_table(name) for name in self._tables]
        if self._randomised:
            found.append(_randomised(self._randomised))
        return [*found, said(self._left_out)] if self._left_out else found

    def about(self) -> Mapping[str, About]:
        return self._about

    def get_observation_names(self) -> list[str]:
        known = self.dialect.groups()
        return [
            f"{term.name}[{index}]" if width > 1 else term.name
            for group in self.groups
            for term in known[group].terms
            for width in (prod(term.shape),)
            for index in range(width)
        ]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each group's observations, without the environments."""
        known = self.dialect.groups()
        return {name: known[name].shape for name in self.groups}

    # The framework's own step, which observes and applies through this object.

    def _routed(self) -> AbstractContextManager[None]:
        def observe(call: Callable[[], object]) -> object:
            self.dialect.settle()
            self._asked = call
            self.compute_observations()
            return self._answer

        return self.dialect.routed(observe, lambda: self.apply_actions())

    def _row(self, observed: object) -> torch.Tensor:
        assert isinstance(observed, Mapping)
        rows = self.dialect.rows
        return torch.cat([observed[name].reshape(rows, -1) for name in self.groups], dim=-1)

    # Registration.

    def register(self, actor: GroupActor) -> None:
        """Adds the ports that both halves of a step use; findings say why some group cannot be."""
        problems = self.dialect.problems(self.groups)
        if problems:
            raise ExportError(findings=problems)
        with preserved(self, actor), torch.inference_mode():
            actor.eval()
            self.prepare_export()
            outputs = self.dialect.outputs()
            # What a tick between two decisions reads is asked first: a decision writes it anew.
            between = used_by(lambda: self._one_tick(outputs))
            waiting = {each.name for each in _used(self.dialect.memory(), between)}
            used = np.union1d(between, used_by(lambda: self._one_step(actor, outputs)))
            inputs = _used(self.dialect.inputs(), used)
            waiting |= {each.name for each in _used(self.dialect.memory(), used)}
            memory = [each for each in self.dialect.memory() if each.name in waiting]
            randomised = [each.name for each in _used(self.dialect.randomised(), used)]
            rings = self.dialect.rings(self.groups)
            hidden = actor.get_state()
            tables = self._unmoved([each for each in inputs if each.table])
        self._randomised, self._tables = randomised, tables
        inputs = [each for each in inputs if each.name not in tables]
        context = self.context_manager()
        context.add_components([Input(each.name, each.read) for each in inputs])
        context.add_components([Memory(each.name, each.read) for each in memory])
        for ring in rings:
            frames = Assigned(ring.frames, ring.set_frames, (ring.owner,))
            pushes = Assigned(ring.pushes, ring.set_pushes, (ring.owner,))
            context.add_components(
                [Memory(ring.name, frames), Memory(f"{ring.name}.pushes", pushes)]
            )
        context.add_components([Output(each.name, each.read) for each in outputs])
        self._written = {each.name: tuple(each.about.elements) for each in outputs}
        self._about |= {each.name: each.about for each in (*inputs, *memory, *outputs)}
        names = self.dialect.action_names()
        if names:
            self._about["actions"] = About(description="raw actions", elements=names)
        if hidden is not None:
            actor.hidden = tuple(tuple(each.shape) for each in hidden)
            with preserved(actor):
                add_actor_memory(context, actor.get_state)

    def _unmoved(self, tables: Sequence[Candidate]) -> list[str]:
        """The tables that stayed as they were through steps and resets of the framework's own."""
        before = {each.name: each.read().clone() for each in tables}
        for _ in range(_EPISODES):
            if not before:
                break
            self.dialect.reset()
            self.dialect.step(self.empty_actions())
            same = {t.name for t in tables if t.name in before and t.read().equal(before[t.name])}
            before = {name: value for name, value in before.items() if name in same}
        return list(before)

    def _one_tick(self, outputs: Sequence[Candidate]) -> list[torch.Tensor]:
        self.apply_actions()
        return [each.read() for each in outputs]

    def _one_step(self, actor: ExportableActor, outputs: Sequence[Candidate]) -> list[torch.Tensor]:
        actions = actor(self.compute_observations())
        self.process_actions(actions)
        self.apply_actions()
        self.apply_actions()
        found = [actions, *(each.read() for each in outputs)]
        rings = self.dialect.rings(self.groups)
        return [*found, *(ring.frames() for ring in rings)]


def _table(name: str) -> Finding:
    return Finding(
        code="RW352",
        severity="note",
        where=name,
        what=f"stayed the same through {_EPISODES} resets: it is a table, and a constant of the "
        "file",
        hint="nothing to do, unless the robot should say it: then let the environment change it",
    )


def _randomised(names: Sequence[str]) -> Finding:
    return Finding(
        code="RW188",
        severity="warning",
        where=", ".join(names),
        what="was drawn at random when the environment was made, and is a constant of the file",
        hint="take the events that write it out of the configuration, make the environment once "
        "more, and export that",
    )


def _used(candidates: Sequence[Candidate], used: Array) -> list[Candidate]:
    """The candidates that hold used elements which none before them holds."""
    places = [addresses(each.read()).ravel() for each in candidates]
    # Of all that was used, most are weights: looked at once, and not for each candidate.
    left = set(np.intersect1d(used, np.concatenate(places)).tolist() if places else ())
    found = []
    for each, own in zip(candidates, places, strict=True):
        held = left.intersection(own.tolist())
        if held:
            found.append(each)
            left -= held
    return found
