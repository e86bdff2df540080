"""The checks against the live original: fresh values that no trace has seen."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from roadworthy.runtime.policy import Policy
from roadworthy.spec.certificate import Check
from roadworthy.spec.run import Run, Values, at, record, record_free
from roadworthy.spec.sampling import Sampling
from roadworthy.spec.signature import Signature
from roadworthy.verification.allowance import allowance, allowances
from roadworthy.verification.checks import BATCH_SIZES
from roadworthy.verification.comparison import Comparison
from roadworthy.verification.judging import Judge
from roadworthy.verification.originals.original import NoYardstick, Original, Yardstick
from roadworthy.verification.states import StateLayout, timed
from roadworthy.verification.visited import FailingStep, Visited, refuse_other_ports

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
        self.layout = StateLayout(timed(signature))
        self._allowances: list[list[Values]] = []

    @cached_property
    def yardstick(self) -> Yardstick | None:
        return self.original.yardstick(self.signature)

    @cached_property
    def visited(self) -> Visited:
        """The states that the live original came through, in batches of several sizes."""
        runs = [self._recorded(rows) for rows in self.sizes]
        return Visited(self.signature, self.yardstick, runs, self.seed)

    @property
    def judge(self) -> Judge | None:
        return self.visited.judge

    def free_allowances(self) -> Iterator[list[Values]]:
        """How far a free run beside each visit may be, by step, none narrower than the one before;
        empty where it is not known."""
        known = self._allowances
        for turn in itertools.count():
            if turn == len(known):
                try:
                    known.append(next(self._measuring))
                except StopIteration:
                    return
                except NoYardstick:  # a graph that does not take any number of rows
                    if known:
                        return
                    known.append([{} for _ in self.visited.runs])
            yield known[turn]

    @cached_property
    def _measuring(self) -> Iterator[list[Values]]:
        return self._measured_allowances()

    def _measured_allowances(self) -> Iterator[list[Values]]:
        assert self.yardstick is not None
        runs = self.visited.runs
        lengths = {run.steps for run in runs}
        if not self.layout.rows_are_states or len(lengths) > 1:
            yield [allowance(self.yardstick, self.layout, run, self.seed).free for run in runs]
            return
        together = self.layout.side_by_side(runs)
        ends = np.cumsum([run.rows for run in runs])[:-1]
        for each in allowances(self.yardstick, self.layout, together, self.seed):
            parts = {
                name: np.split(v, ends, axis=1 + self.layout.axis(name))
                for name, v in each.free.items()
            }
            yield [{name: part[at] for name, part in parts.items()} for at in range(len(runs))]

    def checks(self, policy: Policy) -> tuple[list[Check], FailingStep | None]:
        """The checks of one target, and the step at which it first differs, if it does."""
        if self.judge is None:
            return self._fixed(policy)
        check, failing = self._one_step(policy, self.judge)
        if not self.signature.memory or self.signature.clock:  # an environment runs by itself
            return [check], failing
        return [check, self._free_run(policy)], failing

    def _one_step(self, policy: Policy, judge: Judge) -> tuple[Check, FailingStep | None]:
        """One step from every state that the original visited, memory taken over from it."""
        compared = self.visited.compared(policy, judge)
        states = f"{len(judge.states)} visited states"
        claim = f"one step from each of {states} agrees with the live original, {self._listed}"
        return compared.check("fresh steps", claim, self._life), compared.failing

    def _free_run(self, policy: Policy) -> Check:
        """The artifact with a memory of its own, beside the original."""
        originals = self.visited.runs
        runs = [record_free(policy, run) for run in originals]
        for allowances_of_runs in self.free_allowances():
            comparison = Comparison(self.signature)
            for original, run, allowed in zip(originals, runs, allowances_of_runs, strict=True):
                comparison.add_steps(original.results, run.results, allowed=allowed)
            if comparison.passed:
                break
        claim = "a run with a memory of its own departs no further than the original's own twins"
        return comparison.check("free run", claim)

    def _fixed(self, policy: Policy) -> tuple[list[Check], FailingStep | None]:
        """Fixed tolerances, and the artifact's own memory, where rounding was not measured."""
        comparison = Comparison(self.signature)
        failing = None
        for original in self.visited.runs:
            run = record_free(policy, original)
            refuse_other_ports(original, policy)
            comparison.add_steps(original.results, run.results)
            if failing is None and comparison.first_failure is not None:
                step = comparison.first_failure.step
                failing = FailingStep(step, at(run.inputs, step), at(run.memory, step))
        claim = f"fresh steps agree with the live original, memory included, {self._listed}"
        facts = {"measured": False} | self._life
        return [comparison.check("fresh steps", claim, facts)], failing

    def _recorded(self, rows: int) -> Run:
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
            return record(live, script)

    @property
    def _life(self) -> dict[str, int]:
        return {"life_steps": self.sampling.life} if self.sampling.life else {}

    @property
    def _listed(self) -> str:
        return f"batches of {', '.join(map(str, self.sizes))}"
