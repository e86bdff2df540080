"""Ticks: what a living environment had and gave at each call of apply_actions."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from roadworthy.environment.components import GetTensor
from roadworthy.environment.exportable import Observations
from roadworthy.environment.numbers import WRITTEN
from roadworthy.environment.source import EnvironmentSource, Tensors, copied
from roadworthy.errors import ExportError, Finding
from roadworthy.inspection.snapshot import Snapshot, preserved
from roadworthy.inspection.walking import walk

# The methods of an environment that are captured.
_CAPTURED = ("compute_observations", "process_actions", "apply_actions")


@dataclass(frozen=True, slots=True, eq=False)
class Tick:
    """What the environment had before one call of apply_actions, and gave after it."""

    inputs: Tensors
    outputs: Tensors
    memory: Tensors


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """What a policy step begins with: raw state, memory, and the observations made of them."""

    inputs: Tensors
    memory: Tensors
    observations: Observations


@dataclass(slots=True, eq=False)
class LiveRun:
    """An environment that is being watched: `step` advances it and tells of every tick.

    Most environments call apply_actions once in each tick, and that call is seen. Where they
    apply actions in a way of their own, nothing is seen (`followed` is False), and the ticks are
    those of a world that stands still.
    """

    source: EnvironmentSource
    seen: list[Tick] = field(default_factory=list)
    # Calls of apply_actions by owner: of one step, and of one tick.
    calls: Counter[int] = field(default_factory=Counter)
    per_tick: Counter[int] = field(default_factory=Counter)
    # Whether observing writes memory: then only the environment may do it, once in each step.
    remembers: bool = False
    decisions: list[Decision] = field(default_factory=list)
    followed: bool | None = None
    # The inputs that were written between two calls of the captured methods, by the world.
    _between: set[str] = field(default_factory=set)
    _left: Tensors = field(default_factory=dict)
    # Whether what runs now is the environment's own life: trials on the side are not noted.
    _living: bool = False
    # The methods that are replaced while it is watched: owner, name, and the owner's own, if any.
    _replaced: list[tuple[object, str, Any]] = field(default_factory=list)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        self._living = True
        try:
            yield
        finally:
            self._living = False

    def between_calls(self) -> set[str]:
        """The names of the inputs that the world writes: they are added while it runs."""
        return self._between

    def entering(self) -> None:
        """Notes, before a captured method runs, what was written since the last one ended."""
        if not self._living or not self._left:
            return
        inputs = self.source.inputs
        for name, value in self._left.items():
            if not torch.equal(inputs[name](), value):
                self._between.add(name)

    def leaving(self) -> None:
        """Remembers the inputs as a captured method leaves them."""
        if self._living:
            self._left = current_values(self.source.inputs)

    def restart(self) -> None:
        """Begin an episode."""
        self.decisions.clear()
        with self._noting():
            self.source.restart()
        self._left.clear()  # what a reset wrote, the world did not

    def snapshot(self, *others: object) -> Snapshot:
        """The environment and its actor as they are now, with nobody watching them."""
        with ExitStack() as back:
            for owner, name, own in self._replaced:
                back.callback(object.__setattr__, owner, name, vars(owner)[name])
                _put_back(owner, name, own)
            return Snapshot(*self.source.roots.values(), *others)

    def memory(self) -> Tensors:
        """Memory as the next step finds it, before anything is observed."""
        observed = self._observed()
        return current_values(self.source.memory) if observed is None else observed.memory

    def decide(self) -> tuple[Decision, torch.Tensor]:
        """What the next step begins with, and the actor's actions."""
        source = self.source
        source.env.context_manager().write_connections()
        decision = self._observed() or self._observe()
        actions: torch.Tensor = source.actor(decision.observations)
        return decision, actions

    def _observe(self) -> Decision:
        source = self.source
        inputs, memory = current_values(source.inputs), current_values(source.memory)
        with self._noting():
            for update in source.env.command_updates:
                update()
            return Decision(inputs, memory, copied(source.env.compute_observations()))

    def _observed(self) -> Decision | None:
        """What the environment itself observed last, where observing once more would change it."""
        return self.decisions[-1] if self.remembers and self.decisions else None

    def step(self, actions: torch.Tensor) -> tuple[list[Tick], Observations, bool]:
        """The ticks of one policy step, the observations after it, and whether it was reset."""
        ticks = [] if self.followed else self._standing_ticks(actions)
        self.seen.clear()
        self.calls.clear()
        self.decisions.clear()
        with self._noting():
            following, was_reset = self.source.env.step(actions.clone())
        decimation = self.source.env.decimation
        count = self._ticks_of_step()
        if count and count != decimation and not was_reset:
            raise ExportError(findings=[self._miscounted(count)])
        if len(self.decisions) > 1 and not was_reset:
            raise ExportError(findings=[self._observed_twice()])
        if self.followed is None:
            self.followed = len(self.seen) == decimation
        if self.followed:
            # What comes beyond the decimation belongs to a reset; what is missing, it cut off.
            ticks = self.seen[:decimation]
        return list(ticks), following, bool(was_reset)

    def _ticks_of_step(self) -> int:
        """How often the step applied actions, by any of the owners that one tick asks."""
        return max((self.calls[o] // count for o, count in self.per_tick.items()), default=0)

    def _miscounted(self, count: int) -> Finding:
        env = self.source.env
        name = type(env).__name__
        return Finding(
            code="RW127",
            where=f"{name}.decimation",
            what=f"step() applies the actions {count} times, and decimation says "
            f"{env.decimation}: expected {env.decimation} calls of apply_actions, got {count}",
            hint=f"say in {name} how many ticks a step has: decimation = {count}",
        )

    def _observed_twice(self) -> Finding:
        name = type(self.source.env).__name__
        count = len(self.decisions)
        return Finding(
            code="RW129",
            where=f"{name}.step",
            what=f"step() calls compute_observations {count} times, and each call writes memory: "
            f"expected one push in a step, got {count}",
            hint="observe once in step(), keep what came back, and return that",
        )

    def _standing_ticks(self, actions: torch.Tensor) -> list[Tick]:
        """The ticks of a world that stands still, on an environment that is put back."""
        with preserved(self.source.env):
            self.seen.clear()
            self.source.env.process_actions(actions.clone())
            for _ in range(self.source.env.decimation):
                self.source.env.apply_actions()
            return list(self.seen)


@contextmanager
def watch_ticks(source: EnvironmentSource) -> Iterator[LiveRun]:
    """The life of an environment, wherever in it apply_actions is called."""
    run = LiveRun(source)
    depth: Counter[str] = Counter()

    def applied(owner: object, plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def call(*args: Any, **kwargs: Any) -> Any:
            run.calls[id(owner)] += 1
            inputs = current_values(source.inputs)
            depth["apply"] += 1
            try:
                result = plain(*args, **kwargs)
            finally:
                depth["apply"] -= 1
            # An adapter's method calls that of the environment inside: one tick, not two.
            if depth["apply"] == 0:
                run.seen.append(
                    Tick(inputs, current_values(source.outputs), current_values(source.memory))
                )
            return result

        return call

    def observed(plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def call(*args: Any, **kwargs: Any) -> Any:
            inputs, memory = current_values(source.inputs), current_values(source.memory)
            result = plain(*args, **kwargs)
            if run._living:
                run.decisions.append(Decision(inputs, memory, copied(result)))
            return result

        return call

    def bracketed(plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def call(*args: Any, **kwargs: Any) -> Any:
            run.entering()
            try:
                return plain(*args, **kwargs)
            finally:
                run.leaving()

        return call

    owners = [
        each
        for _, each in walk(source.env)
        if callable(getattr(type(each), "apply_actions", None)) and hasattr(each, "__dict__")
    ]
    run.remembers = observing_writes(source)
    watched = [(owner, "apply_actions") for owner in owners if owner is not source.env]
    watched += [(source.env, name) for name in _CAPTURED]
    run._replaced += [(owner, name, vars(owner).get(name)) for owner, name in watched]
    with ExitStack() as patches:
        for owner in owners:
            patches.enter_context(
                _replaced(owner, "apply_actions", functools.partial(applied, owner))
            )
        if run.remembers:
            patches.enter_context(_replaced(source.env, "compute_observations", observed))
        for name in _CAPTURED:
            patches.enter_context(_replaced(source.env, name, bracketed))
        with preserved(*source.roots.values()), eager(source):
            source.step()
        run.per_tick.update(run.calls)
        run.seen.clear()
        yield run


@contextmanager
def _replaced(
    owner: object, name: str, watch: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Iterator[None]:
    own = vars(owner).get(name)
    object.__setattr__(owner, name, watch(getattr(owner, name)))
    try:
        yield
    finally:
        _put_back(owner, name, own)


def _put_back(owner: object, name: str, own: object) -> None:
    if own is None:
        object.__delattr__(owner, name)
    else:
        object.__setattr__(owner, name, own)


def eager(source: EnvironmentSource) -> AbstractContextManager[Any]:
    """Without gradients, and with versions that tell a write, unless the tensors have none."""
    held = (each for _, each in walk(source.roots) if isinstance(each, torch.Tensor))
    return torch.inference_mode() if any(t.is_inference() for t in held) else torch.no_grad()


def observing_writes(source: EnvironmentSource) -> bool:
    """Whether compute_observations writes a registered memory, as a history inside of it does."""
    reads = list(source.memory.values())
    with preserved(*source.roots.values()), eager(source):
        before = [(each, version(each), each.clone()) for each in (read() for read in reads)]
        source.env.compute_observations()
        return any(
            not torch.equal(now, value)
            or (not isinstance(read, WRITTEN) and (now is not was or version(now) != was_version))
            for read, now, (was, was_version, value) in zip(
                reads, [read() for read in reads], before, strict=True
            )
        )


def version(tensor: torch.Tensor) -> int | None:
    """How often a tensor was written in place; None where that is not counted."""
    return None if tensor.is_inference() else tensor._version


def current_values(ports: Mapping[str, GetTensor]) -> Tensors:
    """The values that the ports have now."""
    return {name: read().detach().clone() for name, read in ports.items()}
