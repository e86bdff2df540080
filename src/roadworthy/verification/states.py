"""Visited states side by side: what enters a step, and what comes out, with states first.

Where every port has a row for each row of the batch, a row is a state, and all rows of all steps go
through a graph at once. Where not, a step is a state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from roadworthy.spec.port import BATCH, Array, Memory
from roadworthy.spec.run import Arrays, K, Key, Run, Values, remembered
from roadworthy.spec.signature import Signature

Index = tuple[int, ...]
# From a port, the place of a state and that of an element in it: the step, and the index.
Locate = Callable[[Key, int, Index], tuple[int, Index]]
OneStep = Callable[[Mapping[str, Array], Mapping[str, Array]], Values]
# States that are measured at most: by number, by bytes where they are images,
# and by work where the network is large.
MOST_STATES = 4096
MOST_BYTES = 1 << 21
# Operations of all of them in one run, of which there are some ten: a tenth of a second. So few
# states of a large network show what rounding does in it all the same.
MOST_WORK = 2_000_000_000
LEAST_STATES = 24
# Rows that go through a graph at once: activations of a large network must not fill a machine.
MOST_ROWS = 1024


def with_clock(run: Run, signature: Signature) -> Run:
    """The run, its clock among the memory that entered each step: all rows have it in common."""
    if signature.clock is None:
        return run
    rows = () if signature.fixed_rows else (run.rows,)
    ticks = run.clock(signature.decimation)
    clock = np.broadcast_to(ticks.reshape(-1, *(1 for _ in rows)), (run.steps, *rows))
    return replace(run, memory={**run.memory, signature.clock: clock})


def _behind(parts: Sequence[Mapping[K, Array]]) -> dict[K, Array]:
    """The states of all parts, one part behind the other."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@dataclass(frozen=True, slots=True, eq=False)
class States:
    """What enters some steps: every array has the states on its first axis."""

    inputs: Arrays
    memory: Arrays

    def __len__(self) -> int:
        return len(next(iter(self.inputs.values())))

    def picked(self, places: Array) -> States:
        """Some of the states, in that order."""
        return States(
            {name: value[places] for name, value in self.inputs.items()},
            {name: value[places] for name, value in self.memory.items()},
        )

    def between(self, first: int, end: int) -> States:
        """The states from one place to before another, as views."""
        return States(
            {name: value[first:end] for name, value in self.inputs.items()},
            {name: value[first:end] for name, value in self.memory.items()},
        )

    def few(self, work: int) -> Array:
        """The places of as many states as can be measured, evenly spread.

        `work` are the operations of one of them. They are counted, not timed, so that the same
        states are taken on every machine.
        """
        values = (*self.inputs.values(), *self.memory.values())
        row_bytes = max(1, sum(value.nbytes for value in values) // max(1, len(self)))
        most = min(MOST_STATES, max(LEAST_STATES, MOST_BYTES // row_bytes))
        most = min(most, max(LEAST_STATES, MOST_WORK // max(1, work)))
        count = min(len(self), most)
        return np.unique(np.linspace(0, len(self) - 1, count).astype(np.int64))


def timed(signature: Signature) -> Signature:
    """The signature with its clock as one more memory: what is right depends on it too."""
    if signature.clock is None:
        return signature
    shape = () if signature.fixed_rows else (BATCH,)
    clock = Memory(name=signature.clock, dtype="int32", shape=shape)
    return replace(signature, memory=(*signature.memory, clock), clock=None)


class StateLayout:
    """Where the states are in each array of a signature."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        shapes: dict[Key, tuple[int | str, ...]] = {
            port.name: port.shape for port in (*signature.inputs, *signature.outputs)
        }
        shapes |= {remembered(each.name): each.shape for each in signature.memory}
        self._axes = {
            key: shape.index(BATCH) if BATCH in shape else None for key, shape in shapes.items()
        }
        self.rows_are_states = None not in self._axes.values()

    def axis(self, key: Key) -> int:
        """The axis on which the states of a value are; logits have them first."""
        return self._axes.get(key) or 0

    def rows_axis(self, key: Key) -> int | None:
        """The axis of the batch, whether or not its rows are states."""
        return self._axes.get(key)

    def joined(
        self, steps: Sequence[Mapping[K, Array]], *, of_memory: bool = False
    ) -> dict[K, Array]:
        """The values of some steps as states: name → (states, …)."""
        if not self.rows_are_states:
            return {name: np.stack([each[name] for each in steps]) for name in steps[0]}
        return {
            name: np.concatenate([self._first(name, each[name], of_memory) for each in steps])
            for name in steps[0]
        }

    def flat(self, columns: Mapping[K, Array], *, of_memory: bool = False) -> dict[K, Array]:
        """Columns of steps as states, one step behind the other: name → (states, …)."""
        if not self.rows_are_states:
            return dict(columns)
        found = {}
        for name, column in columns.items():
            axis = self.axis(remembered(str(name)) if of_memory else name)
            rows_first = np.moveaxis(column, 1 + axis, 1)
            found[name] = rows_first.reshape(-1, *rows_first.shape[2:])
        return found

    def states(self, *runs: Run) -> States:
        """What entered each step of some runs, one run behind the other."""
        return States(
            _behind([self.flat(run.inputs) for run in runs]),
            _behind([self.flat(run.memory, of_memory=True) for run in runs]),
        )

    def results(self, *runs: Run) -> Values:
        """What came out of each step of some runs, one run behind the other."""
        return _behind([self.flat(run.results) for run in runs])

    def natural(self, name: str, values: Array, *, of_memory: bool = False) -> Array:
        """The values of many states as a port has them: the batch where it belongs."""
        axis = self.axis(remembered(name) if of_memory else name)
        return np.ascontiguousarray(np.moveaxis(values, 0, axis))

    def alone(self, states: States, place: int) -> States:
        """One state as a step has it: a batch of one row, or the whole step."""
        if not self.rows_are_states:
            return states.picked(np.asarray(place))
        one = states.picked(np.array([place]))
        inputs = {name: self.natural(name, value) for name, value in one.inputs.items()}
        memory = {
            name: self.natural(name, value, of_memory=True) for name, value in one.memory.items()
        }
        return States(inputs, memory)

    def run(self, function: OneStep, states: States) -> Values:
        """What a pure step gives in each state: name → (states, …)."""
        return self.joined([function(part.inputs, part.memory) for part in self.parts(states)])

    def parts(self, states: States) -> Iterator[States]:
        """The states as calls of a step have them: so many rows at once, or single steps."""
        if not self.rows_are_states:
            yield from (states.picked(np.asarray(place)) for place in range(len(states)))
            return
        for first in range(0, len(states), MOST_ROWS):
            part = states.between(first, first + MOST_ROWS)
            inputs = {name: self.natural(name, value) for name, value in part.inputs.items()}
            memory = {
                name: self.natural(name, value, of_memory=True)
                for name, value in part.memory.items()
            }
            yield States(inputs, memory)

    def rows_picked(
        self,
        values: Mapping[K, Array],
        rows: list[int],
        *,
        of_memory: bool = False,
        columns: bool = False,
    ) -> dict[K, Array]:
        """The values of some rows of a batch, in that order; what has no rows stays."""
        found = dict(values)
        for name, value in values.items():
            axis = self.rows_axis(remembered(str(name)) if of_memory else name)
            if axis is not None:
                found[name] = np.take(value, rows, axis=axis + columns)
        return found

    def rows_joined(
        self, parts: Sequence[Mapping[K, Array]], *, of_memory: bool = False
    ) -> dict[K, Array]:
        """The rows of several batches as one batch; what has no rows is left out."""
        axes = {
            name: self.rows_axis(remembered(str(name)) if of_memory else name) for name in parts[0]
        }
        return {
            name: np.concatenate([part[name] for part in parts], axis=axis)
            for name, axis in axes.items()
            if axis is not None
        }

    def side_by_side(self, scripts: Sequence[Run]) -> Run:
        """Scripts of as many steps as one: the rows of each, beside those of the others."""
        inputs = {
            name: np.concatenate([each.inputs[name] for each in scripts], axis=1 + self.axis(name))
            for name in scripts[0].inputs
        }
        return Run(inputs=inputs, resets=np.concatenate([s.resets for s in scripts], axis=1))

    def locator(self, scripts: Sequence[Run]) -> Locate:
        """Says where a state of some scripts, one behind the other, was visited."""

        def locate(key: Key, state: int, inside: Index) -> tuple[int, Index]:
            for script in scripts:
                count = script.steps * (script.rows if self.rows_are_states else 1)
                if state < count:
                    step, row = divmod(state, script.rows) if self.rows_are_states else (state, 0)
                    return step, self._index(key, row, inside)
                state -= count
            raise IndexError(state)

        return locate

    def _index(self, key: Key, row: int, inside: Index) -> Index:
        """Where an element of a state is in the array of its port."""
        if not self.rows_are_states:
            return inside
        axis = self.axis(key)
        return (*inside[:axis], row, *inside[axis:])

    def _first(self, name: Key, values: Array, of_memory: bool) -> Array:
        return np.moveaxis(values, self.axis(remembered(str(name)) if of_memory else name), 0)
