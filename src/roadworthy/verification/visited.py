"""States that the original came through, and one step of an artifact from each of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from roadworthy.errors import UsageError
from roadworthy.originals.original import NoYardstick, Yardstick
from roadworthy.runtime.policy import Policy
from roadworthy.spec.certificate import Check
from roadworthy.spec.port import Array
from roadworthy.spec.signature import Signature
from roadworthy.spec.stepping import Arrays, reset_rows
from roadworthy.verification.compare import Comparison
from roadworthy.verification.judging import Judge
from roadworthy.verification.states import Index, Layout, Visit, timed, with_memory


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """What entered one step: enough to run it again."""

    step: int
    inputs: Mapping[str, Array]
    memory: Mapping[str, Array]


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """One step of an artifact from every state, and the moment at which it first differs."""

    comparison: Comparison
    judge: Judge
    moment: Moment | None

    def check(self, name: str, claim: str, more: Mapping[str, Any]) -> Check:
        facts = self.judge.facts(self.comparison.worst, self.comparison.ties)
        return self.comparison.check(name, claim, {**facts, **more})


class Visited:
    """Some ways of the original, and what every target is compared with there."""

    def __init__(
        self,
        signature: Signature,
        yardstick: Yardstick | None,
        visits: Sequence[Visit],
        seed: int,
    ) -> None:
        self.signature = signature
        self.layout = Layout(timed(signature))
        self.visits = visits
        self._yardstick = yardstick
        self._seed = seed

    @cached_property
    def judge(self) -> Judge | None:
        """Knows what rounding does at all visited states; None where that cannot be measured."""
        if self._yardstick is None:
            return None
        states = self.layout.states(
            [inputs for each in self.visits for inputs in each.inputs],
            [m for each in self.visits for m in each.timed_memory(self.signature)],
        )
        results = self.layout.joined([result for each in self.visits for result in each.results])
        try:
            return Judge.at(self._yardstick, self.layout, states, results, self._seed)
        except NoYardstick:
            return None

    def compared(self, policy: Policy, judge: Judge) -> Compared:
        """One step from every state, memory taken over from the original."""
        got = [result for each in self.visits for result in _from_each(policy, each)]
        joined = self.layout.joined(got)
        comparison = Comparison(self.signature)
        comparison.refuse_other_shapes(judge.original, joined)
        steps = sum(each.script.steps for each in self.visits)
        judged = judge.judged(joined)
        first = comparison.add_judged(judged, joined, self._locate, count=steps)
        return Compared(comparison, judge, None if first is None else self._moment(judge, first))

    def _locate(self, port: str, state: int, inside: Index) -> tuple[int, Index]:
        return self.layout.locator([each.script for each in self.visits])(port, state, inside)

    def _moment(self, judge: Judge, state: int) -> Moment:
        step, _ = self._locate("", state, ())
        one = self.layout.alone(judge.states, state)
        memory = {each.name: one.memory[each.name] for each in self.signature.memory}
        return Moment(step, one.inputs, memory)


def _from_each(policy: Policy, visited: Visit) -> Iterator[Arrays]:
    """What the artifact gives from each state of the original."""
    policy.reset()
    for step, memory in enumerate(visited.memory):
        reset_rows(policy, visited.script.resets[step])  # the clock starts anew with all rows
        if memory:
            policy.set_memory(memory)
        got = with_memory(policy.step(visited.script.now(step)), policy.memory)
        refuse_other_ports(visited.results[step], got)
        yield got


def refuse_other_ports(expected: Arrays, got: Arrays) -> None:
    if expected.keys() != got.keys():
        raise UsageError(
            f"the live original gives {', '.join(map(repr, sorted(expected)))}, "
            f"the bundle {', '.join(map(repr, sorted(got)))}",
            where="against",
            hint="pass the policy that the bundle was exported from, or export again",
        )
