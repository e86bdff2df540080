"""The check against the live module: fresh values that no trace has seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from roadworthy.capture.record import Subject, draw_resets
from roadworthy.errors import UsageError
from roadworthy.runtime.policy import Policy
from roadworthy.spec.port import Array
from roadworthy.verification.certificate import Check
from roadworthy.verification.checks import BATCH_SIZES
from roadworthy.verification.compare import Comparison

STEPS = 64


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """The step at which two sides first differ: what both were given."""

    step: int
    inputs: Mapping[str, Array]
    memory: Mapping[str, Array]


def live(policy: Policy, subject: Subject, seed: int) -> tuple[Check, Moment | None]:
    """Fresh random steps of the artifact and of the original side by side, memory compared too.

    With the check comes the moment at which the two first differ, if they do.
    """
    comparison = Comparison(policy.signature)
    moment: Moment | None = None
    sizes = (subject.rows,) if subject.rows else BATCH_SIZES
    for rows in sizes:
        rng = np.random.default_rng(seed + 100 * rows)
        inputs = subject.draw(policy.signature, rng, steps=STEPS, rows=rows)
        resets = draw_resets(policy.signature, rng, steps=STEPS, rows=rows)
        policy.reset()
        fresh = {each.name: each.fresh(rows) for each in policy.signature.memory}
        with subject.original(policy.signature, rows=rows) as truth:
            for step in range(STEPS):
                now = {name: array[step] for name, array in inputs.items()}
                if step and resets[step].any():
                    truth.reset(resets[step])
                    policy.reset(resets[step])
                before = policy.memory if step else fresh
                expected, got = truth.step(now), policy.step(now)
                _refuse_other_ports(expected, got)
                comparison.add(step, expected | _memory(truth.memory), got | _memory(policy.memory))
                if moment is None and comparison.first_failure is not None:
                    moment = Moment(step, now, before)
    listed = ", ".join(map(str, sizes))
    claim = f"fresh steps agree with the live module, batches of {listed}"
    return Check.of("live", claim, comparison), moment


def _refuse_other_ports(expected: dict[str, Array], got: dict[str, Array]) -> None:
    if set(expected) != set(got):
        raise UsageError(
            f"the live module gives {', '.join(map(repr, sorted(expected)))}, "
            f"the bundle {', '.join(map(repr, sorted(got)))}",
            where="against",
            hint="compare a bundle with the module that it was exported from",
        )


def _memory(values: dict[str, Array]) -> dict[str, Array]:
    return {f"memory {name}": value for name, value in values.items()}
