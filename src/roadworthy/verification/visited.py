"""States that the original came through, and one step of an artifact from each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from roadworthy.errors import UsageError
from roadworthy.runtime.policy import Policy
from roadworthy.spec.certificate import Check
from roadworthy.spec.port import Array
from roadworthy.spec.run import Key, Run, remembered, retrace
from roadworthy.spec.signature import Signature
from roadworthy.verification.comparison import Comparison
from roadworthy.verification.judging import Judge
from roadworthy.verification.originals.original import NoYardstick, Yardstick
from roadworthy.verification.states import Index, StateLayout, timed, with_clock


@dataclass(frozen=True, slots=True, eq=False)
class FailingStep:
    """What entered one step: enough to run it again."""

    step: int
    inputs: Mapping[str, Array]
    memory: Mapping[str, Array]


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """One step of an artifact from every state, and the step at which it first differs."""

    comparison: Comparison
    judge: Judge
    failing: FailingStep | None

    def check(self, name: str, claim: str, more: Mapping[str, Any]) -> Check:
        facts = self.judge.facts(self.comparison.worst, self.comparison.ties)
        return self.comparison.check(name, claim, {**facts, **more})


class Visited:
    """Some runs of the original, and what every target is compared with there."""

    def __init__(
        self,
        signature: Signature,
        yardstick: Yardstick | None,
        runs: Sequence[Run],
        seed: int,
    ) -> None:
        self.signature = signature
        self.layout = StateLayout(timed(signature))
        self.runs = runs
        self._yardstick = yardstick
        self._seed = seed

    @cached_property
    def judge(self) -> Judge | None:
        """Knows what rounding does at all visited states; None where that cannot be measured."""
        if self._yardstick is None:
            return None
        states = self.layout.states(*(with_clock(run, self.signature) for run in self.runs))
        results = self.layout.results(*self.runs)
        try:
            return Judge.at(self._yardstick, self.layout, states, results, self._seed)
        except NoYardstick:
            return None

    def compared(self, policy: Policy, judge: Judge) -> Compared:
        """One step from every state, memory taken over from the original."""
        again = [retrace(policy, run) for run in self.runs]
        for run in self.runs:
            refuse_other_ports(run, policy)
        got = self.layout.results(*again)
        comparison = Comparison(self.signature)
        comparison.refuse_other_shapes(judge.original, got)
        steps = sum(run.steps for run in self.runs)
        judged = judge.judged(got)
        first = comparison.add_judged(judged, got, self._locate, count=steps)
        return Compared(comparison, judge, None if first is None else self._failing(judge, first))

    def _locate(self, port: Key, state: int, inside: Index) -> tuple[int, Index]:
        return self.layout.locator(self.runs)(port, state, inside)

    def _failing(self, judge: Judge, state: int) -> FailingStep:
        step, _ = self._locate("", state, ())
        one = self.layout.alone(judge.states, state)
        memory = {each.name: one.memory[each.name] for each in self.signature.memory}
        return FailingStep(step, one.inputs, memory)


def refuse_other_ports(run: Run, policy: Policy) -> None:
    """An error if the artifact does not give, and remember, what the original does."""
    signature = policy.signature
    expected = {*run.outputs, *map(remembered, run.memory)}
    got: set[Key] = {port.name for port in signature.outputs}
    got |= {remembered(each.name) for each in signature.memory}
    if expected != got:
        raise UsageError(
            f"the live original gives {', '.join(map(repr, sorted(map(str, expected))))}, "
            f"the bundle {', '.join(map(repr, sorted(map(str, got))))}",
            where="against",
            hint="pass the policy that the bundle was exported from, or export again",
        )
