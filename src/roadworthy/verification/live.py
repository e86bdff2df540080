"""The check against the live module: fresh values that no trace has seen."""

from __future__ import annotations

import numpy as np

from roadworthy.capture.record import draw_resets, original
from roadworthy.capture.source import Source
from roadworthy.runtime.policy import Policy
from roadworthy.spec.port import Array
from roadworthy.spec.samples import draw
from roadworthy.verification.certificate import Check
from roadworthy.verification.checks import BATCH_SIZES
from roadworthy.verification.compare import Comparison

STEPS = 64


def live(policy: Policy, source: Source, seed: int) -> Check:
    """Fresh random steps of the artifact and of the module side by side, memory compared too."""
    comparison = Comparison()
    sizes = (source.batch,) if source.batch else BATCH_SIZES
    for rows in sizes:
        rng = np.random.default_rng(seed + 100 * rows)
        inputs = draw(policy.signature, rng, steps=STEPS, rows=rows)
        resets = draw_resets(policy.signature, rng, steps=STEPS, rows=rows)
        policy.reset()
        with original(source, policy.signature, rows=rows) as truth:
            for step in range(STEPS):
                now = {name: array[step] for name, array in inputs.items()}
                if step and resets[step].any():
                    truth.reset(resets[step])
                    policy.reset(resets[step])
                expected, got = truth.step(now), policy.step(now)
                comparison.add(step, expected | _memory(truth.memory), got | _memory(policy.memory))
    listed = ", ".join(map(str, sizes))
    claim = f"fresh steps agree with the live module, batches of {listed}"
    return Check.of("live", claim, comparison)


def _memory(values: dict[str, Array]) -> dict[str, Array]:
    return {f"memory {name}": value for name, value in values.items()}
