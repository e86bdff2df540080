"""What is known about a failure: both sides, step by step, and ways to try again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import numpy as np

from roadworthy.errors import Finding, RoadworthyError
from roadworthy.runtime.policy import Policy
from roadworthy.spec.bundle import Bundle
from roadworthy.spec.port import Array
from roadworthy.spec.run import Arrays, Run, Steppable, follow, outputs_of, record, record_free
from roadworthy.spec.tolerance import HYPOTHESIS_REST, HYPOTHESIS_SLACK, gaps
from roadworthy.verification.originals.original import Original

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

    `new` opens the artifact, in the target that failed. `theirs` is the run of the original, `ours`
    that of the artifact beside it. `original` is None where there is a trace of it only.
    """

    bundle: Bundle
    new: NewPolicy
    theirs: Run
    ours: Run
    original: Original | None

    @property
    def rows(self) -> int:
        return self.theirs.rows

    @property
    def expected(self) -> Mapping[str, Array]:
        return self.theirs.outputs

    @property
    def got(self) -> Mapping[str, Array]:
        return self.ours.outputs

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

    def original_gives(self, inputs: Mapping[str, Array], *, resets: Array | None = None) -> bool:
        """Whether the original, on other inputs or resets, gives what the artifact gave."""
        if self.original is None:
            return False
        script = Run(inputs=inputs, resets=self.theirs.resets if resets is None else resets)
        return self.gives_what_artifact_gave(self.open_original, script)

    def open_original(self, rows: int) -> AbstractContextManager[Steppable]:
        """The live original, for hypotheses that have one."""
        assert self.original is not None
        return self.original.open(self.bundle.signature, rows=rows)

    def artifact(self, inputs: Arrays) -> Arrays:
        """What the artifact gives on other inputs."""
        return outputs_of(self.new(), replace(self.theirs, inputs=inputs))

    def artifact_gives(self, inputs: Arrays) -> bool:
        """Whether the artifact, on other inputs, gives what the original gave."""
        script = replace(self.theirs, inputs=inputs)
        return self._same(self.new(), script, self.expected)

    def gives_what_artifact_gave(self, open_other: Open, script: Run) -> bool:
        """Whether the original, or a mutant of it, gives on `script` what the artifact gave."""
        try:
            with open_other(self.rows) as live:
                return self._same(live, script, self.got)
        except RoadworthyError:  # a hypothesis that does not even run is no explanation
            return False

    def _same(self, other: Steppable, script: Run, wanted: Mapping[str, Array]) -> bool:
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
    script = Run(inputs=inputs, resets=resets)
    with original.open(signature, rows=rows) as live:
        theirs = record(live, script)
    ours = record_free(new(), script)
    return Evidence(bundle=bundle, new=new, theirs=theirs, ours=ours, original=original)


def from_trace(bundle: Bundle, new: NewPolicy) -> Evidence:
    """The artifact and the recorded steps of its original, which is not at hand."""
    ours = record_free(new(), bundle.trace)
    return Evidence(bundle=bundle, new=new, theirs=bundle.trace, ours=ours, original=None)
