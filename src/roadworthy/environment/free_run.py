"""The check that no search replaces: the file beside the environment as it really lives.

Every other check drives the registered tensors, and so is blind to what was not registered.
Memory runs freely here, and rounding with it: what is further off than rounding usually is may be
as far as the environment's own twins depart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from roadworthy.capture.devices import whole_float32
from roadworthy.capture.export_mode import one_thread, uncompiled
from roadworthy.environment.horizon import Horizon
from roadworthy.environment.life import LEAST_STEPS, Life, arrays
from roadworthy.environment.source import EnvironmentSource
from roadworthy.environment.stepping import set_evaluation_mode
from roadworthy.environment.ticks import eager, watch_ticks
from roadworthy.inspection.snapshot import preserved
from roadworthy.runtime.policy import Policy
from roadworthy.spec.certificate import Check
from roadworthy.spec.run import record_free, remembered
from roadworthy.spec.signature import Signature
from roadworthy.spec.tolerance import gaps
from roadworthy.verification.allowance import allowance
from roadworthy.verification.comparison import Comparison
from roadworthy.verification.originals.original import NoYardstick, Yardstick
from roadworthy.verification.states import StateLayout, timed


def free_run(
    policy: Policy,
    source: EnvironmentSource,
    horizon: Horizon,
    yardstick: Callable[[], Yardstick],
    life: Life | None = None,
) -> Check:
    """The living environment and the artifact side by side, tick by tick, resets included.

    `life` is one that was written down before: the environment is then not run again.
    """
    life = life or lived(source, horizon)
    steps = len(life.steps)
    comparison, measured = _judged(policy, life, source.rows, yardstick)
    _blame_start(comparison, _starts(policy.signature, life, source.rows))
    claim = f"the artifact gives what the running environment gives, for {steps} policy steps"
    if measured:
        claim += ", as far as its own rounding lets it"
    if not life.followed:
        claim += "; step() does not show its ticks, so they are those of a world that stands still"
    facts: dict[str, Any] = {"ticks followed": life.followed, "measured": measured}
    if horizon.beyond:
        claim += f"; not reached: what happens after {', '.join(map(str, horizon.beyond))} steps"
        facts["not reached"] = list(horizon.beyond)
    return comparison.check("free run", claim, facts)


def lived(source: EnvironmentSource, horizon: Horizon) -> Life:
    """A life of the environment, from a reset on; it comes back as it was."""
    life = Life()
    roots = source.roots.values()
    with uncompiled(), preserved(*roots), one_thread(), whole_float32(), eager(source):
        set_evaluation_mode(source.env, source.actor)
        source.env.prepare_export()
        with watch_ticks(source) as living:
            life.restart(living)
            for _ in range(max(LEAST_STEPS, horizon.steps)):
                _, _, was_reset = life.step(living)
                if was_reset:
                    life.restart(living)
    return life


def _judged(
    policy: Policy, life: Life, rows: int, yardstick: Callable[[], Yardstick]
) -> tuple[Comparison, bool]:
    """The artifact beside a life, its memory running freely; and whether that was measured.

    Measured only where something is further off than rounding usually is: it means to run the
    twins of a whole environment for as long.
    """
    signature = policy.signature
    script, numbers = life.script([port.name for port in signature.inputs], rows)
    got = record_free(policy, script).results
    expected = life.results(got)
    usual = Comparison(signature)
    usual.add_steps(expected, got, numbers=numbers)
    if usual.passed:
        return usual, False
    try:
        free = allowance(yardstick(), StateLayout(timed(signature)), script, seed=0).free
    except NoYardstick:
        return usual, False
    found = Comparison(signature)
    allowed = {
        name: np.maximum(gaps(value, value, rows_at=1)[1], free[name])
        for name, value in expected.items()
        if name in free
    }
    found.add_steps(expected, got, numbers=numbers, allowed=allowed)
    return found, True


def _starts(signature: Signature, life: Life, rows: int) -> Comparison:
    """The memory with which episodes began; what an environment forgets to reset is seen here."""
    starts = Comparison()
    fresh = {_begun(memory.name): memory.fresh(rows) for memory in signature.memory}
    for step, memory in life.starts:
        starts.add(step, {_begun(name): each for name, each in arrays(memory).items()}, fresh)
    return starts


def _begun(name: str) -> str:
    return f"{remembered(name)} after a reset"


def _blame_start(comparison: Comparison, starts: Comparison) -> None:
    """Memory that starts otherwise is the cause where something went wrong after it.

    By itself it proves nothing: what is written before it is read may start as it likes.
    """
    late, early = comparison.first_failure, starts.first_failure
    if late is not None and early is not None and early.step <= late.step:
        comparison.first_failure = early
