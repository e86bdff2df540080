"""The check against the live original: fresh values that no trace has seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from roadworthy.errors import UsageError
from roadworthy.originals.original import Original
from roadworthy.runtime.policy import Policy
from roadworthy.spec.certificate import Check
from roadworthy.spec.port import Array
from roadworthy.spec.sampling import Sampling
from roadworthy.spec.stepping import Arrays, Script, Steppable, follow
from roadworthy.verification.checks import BATCH_SIZES
from roadworthy.verification.compare import Comparison

STEPS = 64
LONG_LIFE_ROWS = 2


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """The step at which two sides first differ: what both were given."""

    step: int
    inputs: Mapping[str, Array]
    memory: Mapping[str, Array]


def fresh_steps(
    policy: Policy, original: Original, seed: int, sampling: Sampling
) -> tuple[Check, Moment | None]:
    """Fresh random steps of the artifact and of the original side by side, memory compared too.

    With the check comes the moment at which the two first differ, if they do.
    """
    comparison = Comparison(policy.signature)
    moment: Moment | None = None
    sizes = (original.rows,) if original.rows else BATCH_SIZES
    long_life = original.rows or LONG_LIFE_ROWS
    for rows in sizes:
        rng = np.random.default_rng(seed + 100 * rows)
        # One batch lives as long as the horizon is: the others would only repeat it.
        steps = sampling.steps(STEPS, rows=rows) if rows == long_life else STEPS
        script = original.fresh_steps(
            policy.signature, rng, steps=steps, rows=rows, sampling=sampling
        )
        with original.open(policy.signature, rows=rows) as truth:
            found = _compared(script, truth, policy, comparison)
        moment = moment or found
    listed = ", ".join(map(str, sizes))
    claim = f"fresh steps agree with the live original, memory included, in batches of {listed}"
    facts = {"life_steps": sampling.life} if sampling.life else {}
    return comparison.check("fresh steps", claim, facts), moment


def _compared(
    script: Script, truth: Steppable, policy: Policy, comparison: Comparison
) -> Moment | None:
    """The moment at which the two sides first part; None where they stay together."""
    failed_before = comparison.first_failure is not None
    policy.reset()
    for step, (expected, got) in enumerate(
        zip(follow(truth, script), follow(policy, script), strict=True)
    ):
        _refuse_other_ports(expected, got)
        comparison.add(step, expected | _memory(truth.memory), got | _memory(policy.memory))
    first = comparison.first_failure
    if first is None or failed_before:
        return None
    return Moment(first.step, script.now(first.step), _memory_before(policy, script, first.step))


def _memory_before(policy: Policy, script: Script, step: int) -> Arrays:
    """What the policy remembers when it comes to a step of the script."""
    if step == 0:
        return {each.name: each.fresh(script.rows) for each in policy.signature.memory}
    inputs = {name: array[:step] for name, array in script.inputs.items()}
    for _ in follow(policy, Script(inputs=inputs, resets=script.resets[:step])):
        pass
    if script.resets[step].any():
        policy.reset(script.resets[step])
    return policy.memory


def _refuse_other_ports(expected: Arrays, got: Arrays) -> None:
    if set(expected) != set(got):
        raise UsageError(
            f"the live original gives {', '.join(map(repr, sorted(expected)))}, "
            f"the bundle {', '.join(map(repr, sorted(got)))}",
            where="against",
            hint="pass the policy that the bundle was exported from, or export again",
        )


def _memory(values: Arrays) -> Arrays:
    return {f"memory {name}": value for name, value in values.items()}
