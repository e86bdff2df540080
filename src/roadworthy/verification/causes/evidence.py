"""What is known about a failure: both sides, step by step, and ways to try again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from roadworthy.errors import Finding, RoadworthyError
from roadworthy.runtime.load import from_bundle
from roadworthy.runtime.policy import Policy
from roadworthy.spec.bundle import TRACE, Bundle
from roadworthy.spec.port import Array
from roadworthy.spec.trace import Trace
from roadworthy.verification.compare import gaps

CODE = "RW320"
STEPS = 32
ROWS = 2
# A hypothesis may be this much less exact than a certificate: it has been computed otherwise.
SLACK = 3.0
# … and must leave no more than this part of the failure unexplained.
LEFT = 0.05

Arrays = dict[str, Array]
Hypothesis = Callable[["Evidence"], Iterator[Finding]]


class Steps(Protocol):
    """Something that is stepped: a live original, or the artifact."""

    def reset(self, mask: Array | None = None) -> None: ...

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]: ...

    @property
    def memory(self) -> dict[str, Array]: ...


# Opens a live original for a number of rows.
Open = Callable[[int], AbstractContextManager[Steps]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """Inputs (port → (steps, *shape)) and the steps before which all rows are reset."""

    inputs: Arrays
    resets: Array

    @property
    def steps(self) -> int:
        return len(self.resets)

    def now(self, step: int) -> Arrays:
        return {name: array[step] for name, array in self.inputs.items()}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evidence:
    """A failure, and the means to try what would explain it.

    `original` is None where the artifact was compared with its own trace only.
    """

    bundle: Bundle
    run: Run
    rows: int
    expected: Arrays
    got: Arrays
    expected_memory: Arrays
    got_memory: Arrays
    original: Open | None
    subject: Any

    @property
    def differing(self) -> list[str]:
        """The outputs that do not agree, the action first."""
        first = self.bundle.signature.action_output
        ports = sorted(self.expected, key=lambda name: name != first)
        return [port for port in ports if not _within(self.expected[port], self.got[port])]

    def agrees(self, port: str, values: Array) -> bool:
        """Whether `values` are what the original gave on `port`."""
        return self.explained(port, self.expected[port], values)

    def explained(self, port: str, one: Array, other: Array) -> bool:
        if one.shape != other.shape:
            return False
        gap, allowed = gaps(one, other)
        failed, _ = gaps(self.expected[port], self.got[port])
        whole, rest = (np.minimum(each, 1e30) ** 2 for each in (failed, gap))
        return bool((gap <= SLACK * allowed).all() and rest.sum() <= LEFT * whole.sum())

    def original_gives(self, inputs: Arrays, *, resets: Array | None = None) -> bool:
        """Whether the original, on other inputs or resets, gives what the artifact gave."""
        if self.original is None:
            return False
        return self.as_got(self.original, Run(inputs=inputs, resets=self._resets(resets)))

    def artifact(self, inputs: Arrays) -> Arrays:
        """What the artifact gives on other inputs."""
        run = Run(inputs=inputs, resets=self.run.resets)
        return _stepped(from_bundle(self.bundle), run)[0]

    def artifact_gives(self, inputs: Arrays) -> bool:
        """Whether the artifact, on other inputs, gives what the original gave."""
        run = Run(inputs=inputs, resets=self.run.resets)
        return self._same(from_bundle(self.bundle), run, self.expected)

    def as_got(self, original: Open, run: Run) -> bool:
        """Whether this original gives, on `run`, what the artifact gave."""
        try:
            with original(self.rows) as live:
                return self._same(live, run, self.got)
        except RoadworthyError:  # a hypothesis that does not even run is no explanation
            return False

    def _same(self, steps: Steps, run: Run, wanted: Arrays) -> bool:
        """Stops at the first step that differs: most hypotheses are wrong at once."""
        collected: dict[str, list[Array]] = {port: [] for port in wanted}
        for step in range(run.steps):
            if run.resets[step].any():
                steps.reset(run.resets[step])
            result = steps.step(run.now(step))
            for port, values in collected.items():
                if port not in result or result[port].shape != wanted[port][step].shape:
                    return False
                gap, allowed = gaps(wanted[port][step], result[port])
                if (gap > SLACK * allowed).any():
                    return False
                values.append(result[port])
        stacked = {port: np.stack(values) for port, values in collected.items()}
        return all(self.explained(port, wanted[port], stacked[port]) for port in self.differing)

    def _resets(self, resets: Array | None) -> Array:
        return self.run.resets if resets is None else resets


def _within(one: Array, other: Array) -> bool:
    if one.shape != other.shape:
        return False
    gap, allowed = gaps(one, other)
    return bool((gap <= allowed).all())


def cause(what: str, *, where: str = "", hint: str = "") -> Finding:
    """The finding that names a likely cause: it explains a failure, and is none itself."""
    return Finding(code=CODE, what=what, where=where, hint=hint, severity="note")


def side_by_side(bundle: Bundle, subject: Any, seed: int) -> Evidence:
    """Artifact and live original over the same steps; two episodes."""
    signature = bundle.signature
    rows = subject.rows or signature.fixed_rows or ROWS
    inputs = subject.draw(signature, np.random.default_rng(seed + 7), steps=STEPS, rows=rows)
    resets = np.zeros((STEPS, rows), dtype=bool)
    # A number of ticks after which a policy of two rates decides anew.
    second = -(-STEPS // 2 // signature.decimation) * signature.decimation
    resets[[0, min(second, STEPS - 1)]] = True

    @contextmanager
    def original(rows: int) -> Iterator[Steps]:
        with subject.original(signature, rows=rows) as live:
            yield live

    run = Run(inputs=inputs, resets=resets)
    with original(rows) as live:
        expected, expected_memory = _stepped(live, run)
    got, got_memory = _stepped(from_bundle(bundle), run)
    return Evidence(
        bundle=bundle, run=run, rows=rows, expected=expected, got=got,
        expected_memory=expected_memory, got_memory=got_memory, original=original, subject=subject,
    )  # fmt: skip


def from_trace(bundle: Bundle) -> Evidence:
    """The artifact and the recorded steps of its original, which is not at hand."""
    trace = Trace.from_bytes(bundle.files[TRACE])
    run = Run(inputs=dict(trace.inputs), resets=trace.resets)
    policy: Policy = from_bundle(bundle)
    got, _ = _stepped(policy, run)
    return Evidence(
        bundle=bundle, run=run, rows=trace.rows, expected=dict(trace.outputs), got=got,
        expected_memory={}, got_memory={}, original=None, subject=None,
    )  # fmt: skip


def _stepped(steps: Steps, run: Run) -> tuple[Arrays, Arrays]:
    outputs: list[Arrays] = []
    memory: list[Arrays] = []
    for step in range(run.steps):
        if run.resets[step].any():
            steps.reset(run.resets[step])
        outputs.append(steps.step(run.now(step)))
        memory.append(steps.memory)
    return _stacked(outputs), _stacked(memory)


def _stacked(steps: list[Arrays]) -> Arrays:
    return {name: np.stack([each[name] for each in steps]) for name in steps[0]}
