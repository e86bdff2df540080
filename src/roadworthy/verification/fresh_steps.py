"""The checks against the live original: fresh values that no trace has seen."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from roadworthy.originals.original import NoYardstick, Original, Yardstick
from roadworthy.runtime.policy import Policy
from roadworthy.spec.certificate import Check
from roadworthy.spec.sampling import Sampling
from roadworthy.spec.signature import Signature
from roadworthy.spec.stepping import Arrays, follow, reset_rows
from roadworthy.verification.allowance import allowance, allowances
from roadworthy.verification.checks import BATCH_SIZES
from roadworthy.verification.compare import Comparison
from roadworthy.verification.judging import Judge
from roadworthy.verification.states import Layout, Visit, timed, visit, with_memory
from roadworthy.verification.visited import Moment, Visited, refuse_other_ports

STEPS = 64
LONG_LIFE_ROWS = 2


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
        self.layout = Layout(timed(signature))
        self._allowances: list[list[Arrays]] = []

    @cached_property
    def yardstick(self) -> Yardstick | None:
        return self.original.yardstick(self.signature)

    @cached_property
    def visited(self) -> Visited:
        """The states that the live original came through, in batches of several sizes."""
        visits = [self._visit(rows) for rows in self.sizes]
        return Visited(self.signature, self.yardstick, visits, self.seed)

    @property
    def judge(self) -> Judge | None:
        return self.visited.judge

    def free_allowances(self) -> Iterator[list[Arrays]]:
        """How far a free run beside each visit may be, by step, none narrower than the one before;
        empty where it is not known."""
        known = self._allowances
        for at in itertools.count():
            if at == len(known):
                try:
                    known.append(next(self._measuring))
                except StopIteration:
                    return
                except NoYardstick:  # a graph that does not take any number of rows
                    if known:
                        return
                    known.append([{} for _ in self.visited.visits])
            yield known[at]

    @cached_property
    def _measuring(self) -> Iterator[list[Arrays]]:
        return self._measured_allowances()

    def _measured_allowances(self) -> Iterator[list[Arrays]]:
        assert self.yardstick is not None
        scripts = [each.script for each in self.visited.visits]
        lengths = {script.steps for script in scripts}
        if not self.layout.rows_are_states or len(lengths) > 1:
            yield [allowance(self.yardstick, self.layout, s, self.seed).free for s in scripts]
            return
        together = self.layout.side_by_side(scripts)
        ends = np.cumsum([script.rows for script in scripts])[:-1]
        for each in allowances(self.yardstick, self.layout, together, self.seed):
            parts = {
                name: np.split(v, ends, axis=1 + self.layout.axis(name))
                for name, v in each.free.items()
            }
            yield [{name: part[at] for name, part in parts.items()} for at in range(len(scripts))]

    def checks(self, policy: Policy) -> tuple[list[Check], Moment | None]:
        """The checks of one target, and the moment at which it first differs, if it does."""
        if self.judge is None:
            return self._fixed(policy)
        check, moment = self._one_step(policy, self.judge)
        if not self.signature.memory or self.signature.clock:  # an environment runs by itself
            return [check], moment
        return [check, self._free_run(policy)], moment

    def _one_step(self, policy: Policy, judge: Judge) -> tuple[Check, Moment | None]:
        """One step from every state that the original visited, memory taken over from it."""
        compared = self.visited.compared(policy, judge)
        states = f"{len(judge.states)} visited states"
        claim = f"one step from each of {states} agrees with the live original, {self._listed}"
        return compared.check("fresh steps", claim, self._life), compared.moment

    def _free_run(self, policy: Policy) -> Check:
        """The artifact with a memory of its own, beside the original."""
        runs: list[list[Arrays]] = []
        for each in self.visited.visits:
            policy.reset()
            followed = follow(policy, each.script)
            runs.append([with_memory(outputs, policy.memory) for outputs in followed])
        for allowances_of_visits in self.free_allowances():
            comparison = Comparison(self.signature)
            visits = zip(self.visited.visits, runs, allowances_of_visits, strict=True)
            for each, run, allowed in visits:
                for step, got in enumerate(run):
                    now = {name: value[step] for name, value in allowed.items()}
                    comparison.add(step, each.results[step], got, now)
            if comparison.passed:
                break
        claim = "a run with a memory of its own departs no further than the original's own twins"
        return comparison.check("free run", claim)

    def _fixed(self, policy: Policy) -> tuple[list[Check], Moment | None]:
        """Fixed tolerances, and the artifact's own memory, where rounding was not measured."""
        comparison = Comparison(self.signature)
        moment = None
        for each in self.visited.visits:
            policy.reset()
            for step in range(each.script.steps):
                reset_rows(policy, each.script.resets[step])
                before, inputs = policy.memory, each.script.now(step)
                got = with_memory(policy.step(inputs), policy.memory)
                refuse_other_ports(each.results[step], got)
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
