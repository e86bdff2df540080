"""The checks against the live original: fresh values that no trace has seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from roadworthy.errors import UsageError
from roadworthy.originals.original import NoYardstick, Original, Yardstick
from roadworthy.runtime.policy import Policy
from roadworthy.spec.certificate import Check
from roadworthy.spec.port import Array
from roadworthy.spec.sampling import Sampling
from roadworthy.spec.signature import Signature
from roadworthy.spec.stepping import Arrays, follow, reset_rows
from roadworthy.verification.allowance import allowance
from roadworthy.verification.checks import BATCH_SIZES
from roadworthy.verification.compare import Comparison
from roadworthy.verification.judging import Judge
from roadworthy.verification.states import Index, Layout, Visit, visit, with_memory

STEPS = 64
LONG_LIFE_ROWS = 2


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """The step at which two sides first differ: what both were given."""

    step: int
    inputs: Mapping[str, Array]
    memory: Mapping[str, Array]


class FreshSteps:
    """The original's own way through fresh steps, and what every target is compared with there."""

    def __init__(
        self, original: Original, signature: Signature, seed: int, sampling: Sampling
    ) -> None:
        self.original = original
        self.signature = signature
        self.seed = seed
        self.sampling = sampling
        self.sizes = (original.rows,) if original.rows else BATCH_SIZES
        self.layout = Layout(signature)

    @cached_property
    def yardstick(self) -> Yardstick | None:
        return self.original.yardstick(self.signature)

    @cached_property
    def visits(self) -> list[Visit]:
        return [self._visit(rows) for rows in self.sizes]

    @cached_property
    def judge(self) -> Judge | None:
        """Knows what rounding does at all visited states; None where that cannot be measured."""
        if self.yardstick is None:
            return None
        states = self.layout.states(
            [inputs for each in self.visits for inputs in each.inputs],
            [memory for each in self.visits for memory in each.memory],
        )
        results = self.layout.joined([result for each in self.visits for result in each.results])
        try:
            return Judge.at(self.yardstick, self.layout, states, results, self.seed)
        except NoYardstick:
            return None

    @cached_property
    def free_allowance(self) -> list[Arrays]:
        """How far a free run beside each visit may be, by step; empty where it is not known."""
        try:
            return self._measured_allowance()
        except NoYardstick:  # a graph that does not take any number of rows
            return [{} for _ in self.visits]

    def _measured_allowance(self) -> list[Arrays]:
        assert self.yardstick is not None
        scripts = [each.script for each in self.visits]
        lengths = {script.steps for script in scripts}
        if not self.layout.rows_are_states or len(lengths) > 1:
            return [allowance(self.yardstick, self.layout, s, self.seed).free for s in scripts]
        together = self.layout.side_by_side(scripts)
        free = allowance(self.yardstick, self.layout, together, self.seed).free
        ends = np.cumsum([script.rows for script in scripts])[:-1]
        parts = {
            name: np.split(v, ends, axis=1 + self.layout.axis(name)) for name, v in free.items()
        }
        return [{name: part[at] for name, part in parts.items()} for at in range(len(scripts))]

    def checks(self, policy: Policy) -> tuple[list[Check], Moment | None]:
        """The checks of one target, and the moment at which it first differs, if it does."""
        if self.judge is None:
            return self._fixed(policy)
        check, moment = self._one_step(policy, self.judge)
        if not self.signature.memory:
            return [check], moment
        return [check, self._free_run(policy)], moment

    def _one_step(self, policy: Policy, judge: Judge) -> tuple[Check, Moment | None]:
        """One step from every state that the original visited, memory taken over from it."""
        got = [result for each in self.visits for result in _from_each(policy, each)]
        joined = self.layout.joined(got)
        comparison = Comparison(self.signature)
        comparison.refuse_other_shapes(judge.original, joined)
        judged = judge.judged(joined)
        steps = sum(each.script.steps for each in self.visits)
        first = comparison.add_judged(judged, joined, self._locate, count=steps)
        visited = f"{len(judge.states)} visited states"
        claim = f"one step from each of {visited} agrees with the live original, {self._listed}"
        facts = judge.facts(comparison.worst, comparison.ties) | self._life
        moment = None if first is None else self._moment(judge, first)
        return comparison.check("fresh steps", claim, facts), moment

    def _free_run(self, policy: Policy) -> Check:
        """The artifact with a memory of its own, beside the original."""
        comparison = Comparison(self.signature)
        for each, allowed in zip(self.visits, self.free_allowance, strict=True):
            policy.reset()
            for step, outputs in enumerate(follow(policy, each.script)):
                now = {name: value[step] for name, value in allowed.items()}
                got = with_memory(outputs, policy.memory)
                comparison.add(step, each.results[step], got, now)
        claim = "a run with a memory of its own departs no further than the original's own twins"
        return comparison.check("free run", claim)

    def _fixed(self, policy: Policy) -> tuple[list[Check], Moment | None]:
        """Fixed tolerances, and the artifact's own memory, where rounding was not measured."""
        comparison = Comparison(self.signature)
        moment = None
        for each in self.visits:
            policy.reset()
            for step in range(each.script.steps):
                reset_rows(policy, each.script.resets[step])
                before, inputs = policy.memory, each.script.now(step)
                got = with_memory(policy.step(inputs), policy.memory)
                _refuse_other_ports(each.results[step], got)
                comparison.add(step, each.results[step], got)
                if moment is None and comparison.first_failure is not None:
                    moment = Moment(step, inputs, before)
        claim = f"fresh steps agree with the live original, memory included, {self._listed}"
        facts = {"measured": False} | self._life
        return [comparison.check("fresh steps", claim, facts)], moment

    def _visit(self, rows: int) -> Visit:
        rng = np.random.default_rng(self.seed + 100 * rows)
        # One batch lives as long as the horizon is: the others would only repeat it.
        long_life = rows == (self.original.rows or LONG_LIFE_ROWS)
        script = self.original.fresh_steps(
            self.signature,
            rng,
            steps=self.sampling.steps(STEPS, rows=rows) if long_life else STEPS,
            rows=rows,
            sampling=self.sampling,
        )
        with self.original.open(self.signature, rows=rows) as live:
            return visit(live, script)

    @property
    def _life(self) -> dict[str, int]:
        return {"life_steps": self.sampling.life} if self.sampling.life else {}

    @property
    def _listed(self) -> str:
        return f"batches of {', '.join(map(str, self.sizes))}"

    def _locate(self, port: str, state: int, inside: Index) -> tuple[int, Index]:
        return self.layout.locator([each.script for each in self.visits])(port, state, inside)

    def _moment(self, judge: Judge, state: int) -> Moment:
        step, _ = self._locate("", state, ())
        one = self.layout.alone(judge.states, state)
        return Moment(step, one.inputs, one.memory)


def _from_each(policy: Policy, visited: Visit) -> Iterator[Arrays]:
    """What the artifact gives from each state of the original."""
    policy.reset()
    for step, memory in enumerate(visited.memory):
        if memory:
            policy.set_memory(memory)
        got = with_memory(policy.step(visited.script.now(step)), policy.memory)
        _refuse_other_ports(visited.results[step], got)
        yield got


def _refuse_other_ports(expected: Arrays, got: Arrays) -> None:
    if set(expected) != set(got):
        raise UsageError(
            f"the live original gives {', '.join(map(repr, sorted(expected)))}, "
            f"the bundle {', '.join(map(repr, sorted(got)))}",
            where="against",
            hint="pass the policy that the bundle was exported from, or export again",
        )
