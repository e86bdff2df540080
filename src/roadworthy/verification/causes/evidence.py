"""What is known about a failure: both sides, step by step, and ways to try again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import numpy as np

from roadworthy.errors import Finding, RoadworthyError
from roadworthy.originals.original import Original
from roadworthy.runtime.policy import Policy
from roadworthy.spec.bundle import TRACE, Bundle
from roadworthy.spec.port import Array
from roadworthy.spec.stepping import Arrays, Script, Steppable, follow, outputs_of, stacked
from roadworthy.spec.tolerance import HYPOTHESIS_REST, HYPOTHESIS_SLACK, gaps
from roadworthy.spec.trace import Trace

CODE = "RW320"
STEPS = 32
ROWS = 2

NewPolicy = Callable[[], Policy]
Hypothesis = Callable[["Evidence"], Iterator[Finding]]
# Opens a live original for a number of rows.
Open = Callable[[int], AbstractContextManager[Steppable]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evidence:
    """A failure, and the means to try what would explain it.

    `new` opens the artifact, in the target that failed. `original` is None where it was compared
    with its own trace only.
    """

    bundle: Bundle
    new: NewPolicy
    script: Script
    rows: int
    expected: Arrays
    got: Arrays
    expected_memory: Arrays
    got_memory: Arrays
    original: Original | None

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
        return bool(
            (gap <= HYPOTHESIS_SLACK * allowed).all()
            and rest.sum() <= HYPOTHESIS_REST * whole.sum()
        )

    def original_gives(self, inputs: Arrays, *, resets: Array | None = None) -> bool:
        """Whether the original, on other inputs or resets, gives what the artifact gave."""
        if self.original is None:
            return False
        script = Script(inputs=inputs, resets=self.script.resets if resets is None else resets)
        return self.gives_what_artifact_gave(self.open_original, script)

    def open_original(self, rows: int) -> AbstractContextManager[Steppable]:
        """The live original, for hypotheses that have one."""
        assert self.original is not None
        return self.original.open(self.bundle.signature, rows=rows)

    def artifact(self, inputs: Arrays) -> Arrays:
        """What the artifact gives on other inputs."""
        return outputs_of(self.new(), replace(self.script, inputs=inputs))

    def artifact_gives(self, inputs: Arrays) -> bool:
        """Whether the artifact, on other inputs, gives what the original gave."""
        script = replace(self.script, inputs=inputs)
        return self._same(self.new(), script, self.expected)

    def gives_what_artifact_gave(self, open_other: Open, script: Script) -> bool:
        """Whether the original, or a mutant of it, gives on `script` what the artifact gave."""
        try:
            with open_other(self.rows) as live:
                return self._same(live, script, self.got)
        except RoadworthyError:  # a hypothesis that does not even run is no explanation
            return False

    def _same(self, other: Steppable, script: Script, wanted: Arrays) -> bool:
        """Stops at the first step that differs: most hypotheses are wrong at once."""
        collected: dict[str, list[Array]] = {port: [] for port in wanted}
        for step, result in enumerate(follow(other, script)):
            for port, values in collected.items():
                if port not in result or result[port].shape != wanted[port][step].shape:
                    return False
                gap, allowed = gaps(wanted[port][step], result[port])
                if (gap > HYPOTHESIS_SLACK * allowed).any():
                    return False
                values.append(result[port])
        given = {port: np.stack(values) for port, values in collected.items()}
        return all(self.explained(port, wanted[port], given[port]) for port in self.differing)


def _within(one: Array, other: Array) -> bool:
    if one.shape != other.shape:
        return False
    gap, allowed = gaps(one, other)
    return bool((gap <= allowed).all())


def cause(what: str, *, where: str = "", hint: str = "") -> Finding:
    """The finding that names a likely cause: it explains a failure, and is none itself."""
    return Finding(code=CODE, what=what, where=where, hint=hint, severity="note")


def side_by_side(bundle: Bundle, new: NewPolicy, original: Original, seed: int) -> Evidence:
    """Artifact and live original over the same steps; two episodes."""
    signature = bundle.signature
    rows = original.rows or signature.fixed_rows or ROWS
    rng = np.random.default_rng(seed + 7)
    inputs = original.draw(signature, rng, steps=STEPS, rows=rows, sampling=bundle.sampling)
    resets = np.zeros((STEPS, rows), dtype=bool)
    # A number of ticks after which a policy of two rates decides anew.
    second = -(-STEPS // 2 // signature.decimation) * signature.decimation
    resets[[0, min(second, STEPS - 1)]] = True
    script = Script(inputs=inputs, resets=resets)
    with original.open(signature, rows=rows) as live:
        expected, expected_memory = _with_memory(live, script)
    got, got_memory = _with_memory(new(), script)
    return Evidence(
        bundle=bundle, new=new, script=script, rows=rows, expected=expected, got=got,
        expected_memory=expected_memory, got_memory=got_memory, original=original,
    )  # fmt: skip


def from_trace(bundle: Bundle, new: NewPolicy) -> Evidence:
    """The artifact and the recorded steps of its original, which is not at hand."""
    trace = Trace.from_bytes(bundle.files[TRACE])
    return Evidence(
        bundle=bundle, new=new, script=trace.script, rows=trace.rows, expected=dict(trace.outputs),
        got=outputs_of(new(), trace.script),
        expected_memory={}, got_memory={}, original=None,
    )  # fmt: skip


def _with_memory(steppable: Steppable, script: Script) -> tuple[Arrays, Arrays]:
    outputs: list[Arrays] = []
    memory: list[Arrays] = []
    for result in follow(steppable, script):
        outputs.append(result)
        memory.append(steppable.memory)
    return stacked(outputs), stacked(memory)
