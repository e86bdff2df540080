"""The check that no search replaces: the file beside the environment as it really lives.

Every other check drives the registered tensors, and so is blind to what was not registered.
Memory runs freely here, and rounding with it: what is further off than rounding usually is may be
as far as the environment's own twins depart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from roadworthy.capture.devices import whole_float32
from roadworthy.capture.export_mode import one_thread
from roadworthy.capture.snapshot import preserved
from roadworthy.environment.horizon import Horizon
from roadworthy.environment.life import LEAST_STEPS, Life, LivedStep
from roadworthy.environment.source import EnvironmentSource, Tensors
from roadworthy.environment.stepping import set_evaluation_mode
from roadworthy.environment.ticks import eager, watch_ticks
from roadworthy.originals.original import NoYardstick, Yardstick
from roadworthy.runtime.policy import Policy
from roadworthy.spec.certificate import Check
from roadworthy.spec.port import Array
from roadworthy.spec.signature import Signature
from roadworthy.spec.stepping import Arrays, Script, stacked
from roadworthy.spec.tolerance import gaps
from roadworthy.verification.allowance import allowance
from roadworthy.verification.compare import Comparison
from roadworthy.verification.states import Layout, memory_key, timed, with_memory


@dataclass(frozen=True, slots=True, eq=False)
class _Tick:
    """One tick on both sides, in a policy step; `begins` an episode or not."""

    step: int
    begins: bool
    inputs: Arrays
    expected: Arrays
    got: Arrays


@dataclass(slots=True, eq=False)
class _Flight:
    """The two sides of a run, tick by tick."""

    starts: Comparison = field(default_factory=Comparison)
    ticks: list[_Tick] = field(default_factory=list)


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
    flight = _replayed(policy, life, source.rows)
    comparison, measured = _judged(flight, policy.signature, source.rows, yardstick)
    _blame_start(comparison, flight.starts)
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
    with preserved(*source.roots.values()), one_thread(), whole_float32(), eager(source):
        set_evaluation_mode(source.env, source.actor)
        source.env.prepare_export()
        with watch_ticks(source) as living:
            life.restart(living)
            for _ in range(max(LEAST_STEPS, horizon.steps)):
                _, _, was_reset = life.step(living)
                if was_reset:
                    life.restart(living)
    return life


def _replayed(policy: Policy, life: Life, rows: int) -> _Flight:
    """The artifact with the inputs of a life, its memory running freely between resets."""
    flight, starts = _Flight(), dict(life.starts)
    inputs = {port.name for port in policy.signature.inputs}
    for step in range(len(life.steps) + 1):
        if step in starts:
            _restart(step, policy, starts[step], rows, flight.starts)
        if step < len(life.steps):
            _step(step, policy, life.steps[step], inputs, flight)
    return flight


def _judged(
    flight: _Flight, signature: Signature, rows: int, yardstick: Callable[[], Yardstick]
) -> tuple[Comparison, bool]:
    """What was seen, judged, and whether that took a measurement.

    Measured only where something is further off than rounding usually is: it means to run the
    twins of a whole environment for as long.
    """
    usual = Comparison(signature)
    for tick in flight.ticks:
        usual.add(tick.step, tick.expected, tick.got)
    if usual.passed:
        return usual, False
    begins = np.array([[tick.begins] * rows for tick in flight.ticks])
    script = Script(inputs=stacked([tick.inputs for tick in flight.ticks]), resets=begins)
    try:
        free = allowance(yardstick(), Layout(timed(signature)), script, seed=0).free
    except NoYardstick:
        return usual, False
    found = Comparison(signature)
    for index, tick in enumerate(flight.ticks):
        found.add(tick.step, tick.expected, tick.got, dict(_allowed(free, index, tick.expected)))
    return found, True


def _allowed(free: Arrays, index: int, expected: Arrays) -> Iterator[tuple[str, Array]]:
    for name, value in expected.items():
        if name in free:
            _, usual = gaps(value[None], value[None], rows_at=1)
            yield name, np.maximum(usual[0], free[name][index])


def _restart(step: int, policy: Policy, memory: Tensors, rows: int, starts: Comparison) -> None:
    """A new episode on both sides; what an environment forgets to reset is seen here."""
    policy.reset()
    fresh = {each.name: each.fresh(rows) for each in policy.signature.memory}
    after = "{} after a reset".format
    starts.add(
        step,
        {after(memory_key(name)): value for name, value in _arrays(memory).items()},
        {after(memory_key(name)): value for name, value in fresh.items()},
    )


def _blame_start(comparison: Comparison, starts: Comparison) -> None:
    """Memory that starts otherwise is the cause where something went wrong after it.

    By itself it proves nothing: what is written before it is read may start as it likes.
    """
    late, early = comparison.first_failure, starts.first_failure
    if late is not None and early is not None and early.step <= late.step:
        comparison.first_failure = early


def _step(step: int, policy: Policy, lived: LivedStep, inputs: set[str], flight: _Flight) -> None:
    """One policy step on both sides; of the inputs, those that the artifact takes."""
    for tick, seen in enumerate(lived.ticks):
        given = _arrays(seen.inputs if tick else lived.inputs)
        given = {name: value for name, value in given.items() if name in inputs}
        got = with_memory(policy.step(given), policy.memory)
        shown = _arrays(seen.outputs if tick else lived.decided | seen.outputs)
        expected = with_memory(shown, _arrays(seen.memory))
        flight.ticks.append(_Tick(step, lived.begins and not tick, given, expected, got))


def _arrays(tensors: Tensors) -> dict[str, Array]:
    return {name: value.detach().cpu().numpy() for name, value in tensors.items()}
