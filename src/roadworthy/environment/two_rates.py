"""The yardstick of an environment: one graph decides, another one applies; a clock says which."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from roadworthy.capture.program import Program
from roadworthy.spec.port import BATCH, Array, Dim
from roadworthy.spec.run import Arrays, Inner, Key, Values, remembered
from roadworthy.spec.signature import Signature
from roadworthy.verification.originals.exact import GraphYardstick
from roadworthy.verification.originals.original import NoYardstick, TurningErrors

_Step = Callable[[GraphYardstick, Arrays, Arrays], Values]


class TwoRates:
    """Runs the graph that each row's clock asks for; the clock is one more memory, and goes on."""

    def __init__(self, program: Program) -> None:
        assert program.signature.clock is not None
        assert program.substep is not None
        signature = program.signature
        self._clock, self._decimation = signature.clock or "", signature.decimation
        self._step = GraphYardstick(signature, program.graph)
        self._substep = GraphYardstick(signature, program.substep)
        halves = (self._step, self._substep)
        self.turning = any(each.turning for each in halves)
        self.smooth = all(each.smooth for each in halves)
        self.quantities = frozenset().union(*(each.quantities for each in halves))
        self._axes = _axes(signature)

    @property
    def inexact(self) -> str:
        return self._step.inexact or self._substep.inexact

    def work(self, inputs: Mapping[str, Array], memory: Mapping[str, Array]) -> int:
        return self._step.work(inputs, memory)

    def rounded(self, inputs: Mapping[str, Array], memory: Mapping[str, Array]) -> Values:
        return self._each(inputs, memory, GraphYardstick.rounded)

    def shaken(
        self, inputs: Mapping[str, Array], memory: Mapping[str, Array], *, ulps: int, seed: int
    ) -> Values:
        return self._each(inputs, memory, lambda g, i, m: g.shaken(i, m, ulps=ulps, seed=seed))

    def turned(
        self,
        inputs: Mapping[str, Array],
        memory: Mapping[str, Array],
        *,
        ulps: int,
        seed: int,
        errors: TurningErrors | None = None,
    ) -> Values:
        return self._each(inputs, memory, lambda g, i, m: g.turned(i, m, ulps=ulps, seed=seed))

    def turning_errors(self, inputs: Mapping[str, Array], memory: Mapping[str, Array]) -> None:
        """None: which graph a row goes through, and beside which others, its clock says."""

    def exact(self, inputs: Mapping[str, Array], memory: Mapping[str, Array]) -> Values | None:
        try:
            return self._each(inputs, memory, _exact)
        except NoYardstick:
            if self.inexact:
                return None
            raise

    def _each(self, inputs: Mapping[str, Array], memory: Mapping[str, Array], run: _Step) -> Values:
        """Both graphs, each for the rows whose clock asks for it."""
        ticks = memory[self._clock]
        if not self._axes:  # one clock, and no rows to take apart
            found = run(self._substep if ticks else self._step, dict(inputs), dict(memory))
            named = {n: each for n, each in found.items() if not _is_logits(n)}
            return named | {remembered(self._clock): self._after(ticks)}
        decides = np.flatnonzero(ticks == 0)
        groups = [(self._step, decides), (self._substep, np.flatnonzero(ticks))]
        parts = [
            run(graph, self._rows(inputs, rows), self._rows(memory, rows))
            for graph, rows in groups
            if len(rows)
        ]
        order = np.argsort(np.concatenate([rows for _, rows in groups]))
        # An environment's actions are no choice: what a half takes a maximum of, as a quaternion
        # out of a matrix does, the other half need not have.
        names = [name for name in parts[0] if not _is_logits(name)]
        joined = {name: self._joined(name, parts, order) for name in names}
        return joined | {remembered(self._clock): self._after(ticks)}

    def _after(self, ticks: Array) -> Array:
        return np.asarray((ticks + 1) % self._decimation).astype(ticks.dtype)

    def _rows(self, values: Mapping[str, Array], rows: Array) -> Arrays:
        return {
            name: value if (axis := self._axes.get(name)) is None else np.take(value, rows, axis)
            for name, value in values.items()
        }

    def _joined(self, name: Key, parts: list[Values], order: Array) -> Array:
        axis = self._axes.get(name)
        if axis is None:  # one for all rows, which then have one clock
            return parts[0][name]
        whole = np.concatenate([part[name] for part in parts], axis)
        return np.take(whole, order, axis)


def _is_logits(key: Key) -> bool:
    return isinstance(key, Inner) and key.kind == "logits"


def _exact(graph: GraphYardstick, inputs: Arrays, memory: Arrays) -> Values:
    found = graph.exact(inputs, memory)
    if found is None:
        raise NoYardstick(graph.inexact)
    return found


def _axes(signature: Signature) -> dict[Key, int]:
    """Where the rows of each value are; of memories before a step and after it."""
    ports = (*signature.inputs, *signature.outputs)
    shapes: dict[Key, tuple[Dim, ...]] = {each.name: each.shape for each in ports}
    for each in signature.memory:
        shapes |= {each.name: each.shape, remembered(each.name): each.shape}
    return {name: shape.index(BATCH) for name, shape in shapes.items() if BATCH in shape}
