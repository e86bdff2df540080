"""A run: what a policy was put through and what it gave, steps × rows in columns.

Golden steps, fresh steps, free runs, plays and flights are runs; a script is one that nobody has
gone through yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, Protocol, TypeVar

import numpy as np

from roadworthy.spec.port import Array
from roadworthy.spec.signature import Signature

Arrays = dict[str, Array]


class Inner(NamedTuple):
    """Names what a step gives besides its outputs: the next memory, or the logits of a choice."""

    kind: Literal["memory", "logits"]
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


# Outputs go by the names of their ports.
Key = str | Inner
Values = dict[Key, Array]
K = TypeVar("K", bound=Key)
V = TypeVar("V")
# Rows begin a new episode after so many steps, on the average.
EPISODE_STEPS = 40


class Steppable(Protocol):
    """A policy in any form: an original, a mutant of it, an artifact."""

    def reset(self, mask: Array | None = None) -> None:
        """Memory back to its initial value, in every row or in those where `mask` is true."""

    def step(self, inputs: Mapping[str, Array]) -> Arrays:
        """The outputs of one step; memory moves on."""

    @property
    def memory(self) -> Arrays:
        """A copy of what persists, by name."""


class Choosing(Steppable, Protocol):
    """An original that is watched while it chooses."""

    @property
    def logits(self) -> Sequence[tuple[Array, ...]]:
        """The numbers behind each choice of each step so far, (rows, …, options) each."""


class Settable(Steppable, Protocol):
    """A policy whose memory can be set."""

    signature: Signature

    def set_memory(self, values: Mapping[str, Array]) -> None:
        """Changes what is remembered, in every row."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """Steps of a policy in columns: every array has the steps on its first axis.

    inputs       port → (steps, *shape)
    resets       (steps, rows): which rows were reset before which step
    outputs      port → (steps, *shape); empty where nobody has gone through it yet
    memory       memory → (steps, *shape): what entered each step, where it was looked at
    next_memory  memory → (steps, *shape): what each step left, where it was looked at
    logits       the numbers behind each choice, (steps, rows, …, options)
    """

    inputs: Mapping[str, Array] = field(repr=False)
    resets: Array = field(repr=False)
    outputs: Mapping[str, Array] = field(default_factory=dict, repr=False)
    memory: Mapping[str, Array] = field(default_factory=dict, repr=False)
    next_memory: Mapping[str, Array] = field(default_factory=dict, repr=False)
    logits: tuple[Array, ...] = field(default=(), repr=False)

    @property
    def results(self) -> Values:
        """All that came out of its steps."""
        return results(self.outputs, self.next_memory)

    @property
    def steps(self) -> int:
        return int(self.resets.shape[0])

    @property
    def rows(self) -> int:
        return int(self.resets.shape[1])

    def clock(self, decimation: int) -> Array:
        """(steps,): ticks since the last decision, which a reset of all rows makes 0."""
        found = np.zeros(self.steps, dtype=np.int32)
        for step in range(1, self.steps):
            if not self.resets[step].all():
                found[step] = (found[step - 1] + 1) % decimation
        return found


def remembered(name: str) -> Inner:
    """The key of a memory among the results of a step."""
    return Inner("memory", name)


def numbered(logits: Sequence[V]) -> dict[Key, V]:
    """The logits behind each choice, by their keys."""
    return {Inner("logits", str(number)): each for number, each in enumerate(logits)}


def results(outputs: Mapping[str, Array], next_memory: Mapping[str, Array]) -> Values:
    """All that came out of a step: outputs by port, the next memory behind them."""
    kept = {remembered(name): value for name, value in next_memory.items()}
    return Values(outputs.items()) | Values(kept.items())


def at(columns: Mapping[K, Array], step: int) -> dict[K, Array]:
    """The values of one step."""
    return {name: array[step] for name, array in columns.items()}


def stacked(steps: Sequence[Mapping[K, Array]]) -> dict[K, Array]:
    """The values of many steps in columns: name → (steps, *shape)."""
    return {name: np.stack([each[name] for each in steps]) for name in steps[0]}


def follow(steppable: Steppable, script: Run) -> Iterator[Arrays]:
    """The outputs of each step of the script, in order."""
    for step in range(script.steps):
        reset_rows(steppable, script.resets[step])
        yield steppable.step(at(script.inputs, step))


def outputs_of(steppable: Steppable, script: Run) -> Arrays:
    """All outputs of the script: port → (steps, *shape)."""
    return stacked(list(follow(steppable, script)))


def record(steppable: Steppable, script: Run) -> Run:
    """The script as a policy goes through it, its memory looked at before and after each step."""
    memory: list[Arrays] = []
    outputs: list[Arrays] = []
    after: list[Arrays] = []
    remembers = True
    for step in range(script.steps):
        reset_rows(steppable, script.resets[step])
        if remembers:
            memory.append(steppable.memory)
            remembers = bool(memory[0])
        outputs.append(steppable.step(at(script.inputs, step)))
        if remembers:
            after.append(steppable.memory)
    return replace(
        script,
        outputs=stacked(outputs),
        memory=stacked(memory) if remembers else {},
        next_memory=stacked(after) if remembers else {},
    )


def record_choosing(original: Choosing, script: Run) -> Run:
    """As `record`, with logits; these are left out where steps choose in different ways."""
    run = record(original, script)
    shapes = {tuple(each.shape for each in choices) for choices in original.logits}
    alike = len(shapes) == 1
    columns = map(np.stack, zip(*original.logits, strict=True)) if alike else ()
    return replace(run, logits=tuple(columns))


def record_free(policy: Settable, script: Run) -> Run:
    """The script as an artifact goes through it, from a reset on, with a memory of its own."""
    policy.reset()
    if policy.signature.memory:  # in as many rows as will come
        policy.set_memory({m.name: m.fresh(script.rows) for m in policy.signature.memory})
    return record(policy, script)


def retrace(policy: Settable, run: Run) -> Run:
    """Each step of a run once more, from the memory that entered it."""
    outputs: list[Arrays] = []
    after: list[Arrays] = []
    policy.reset()
    for step in range(run.steps):
        reset_rows(policy, run.resets[step])  # the clock starts anew with all rows
        if run.memory:
            policy.set_memory(at(run.memory, step))
        outputs.append(policy.step(at(run.inputs, step)))
        if run.memory:
            after.append(policy.memory)
    return replace(run, outputs=stacked(outputs), next_memory=stacked(after) if after else {})


def reset_rows(steppable: Steppable, begins: Array) -> None:
    """Resets the rows that begin an episode, if there are any."""
    if begins.all():
        steppable.reset()
    elif begins.any():
        steppable.reset(begins)


def draw_resets(
    signature: Signature, rng: np.random.Generator, *, steps: int, rows: int, life: int = 0
) -> Array:
    """Which rows begin an episode at which step: all at the first, then each at its own time.

    The first two rows live for `life` steps before they begin anew; a single row does so twice.
    """
    resets: Array = rng.random((steps, rows)) < 1 / EPISODE_STEPS
    resets[steps // 2] = True
    if life:
        lives = 1 if rows > 1 else 2
        resets[: lives * life, :2] = False
        resets[life : life + 1, :2] = True
    elif signature.memory and not signature.fixed_rows:
        # One row lives on for a while, whatever it may keep.
        resets[: steps // 2, 0] = False
    resets[0] = True
    if signature.clock and not signature.fixed_rows:
        # The clock is the same for all rows: single rows are reset only when all decide.
        decides = np.arange(steps) % signature.decimation == 0
        resets &= decides[:, None]
    if not signature.fixed_rows:
        return resets
    # Where the number of rows is fixed they are reset together.
    together = resets[:, :2] if life else resets
    return together.any(axis=1, keepdims=True).repeat(rows, axis=1)
