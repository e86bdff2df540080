"""The check that no search replaces: the file beside the environment as it really lives.

Every other check drives the registered tensors, and so is blind to what was not registered.
"""

from __future__ import annotations

from typing import Any

from roadworthy.capture.devices import whole_float32
from roadworthy.capture.export_mode import one_thread
from roadworthy.capture.snapshot import preserved
from roadworthy.environment.horizon import Horizon
from roadworthy.environment.source import ACTIONS, EnvironmentSource, Tensors, observed_ports
from roadworthy.environment.stepping import set_evaluation_mode
from roadworthy.environment.ticks import LiveRun, eager, watch_ticks
from roadworthy.runtime.policy import Policy
from roadworthy.spec.certificate import Check
from roadworthy.spec.port import Array
from roadworthy.verification.compare import Comparison

LEAST_STEPS = 64


def free_run(policy: Policy, source: EnvironmentSource, horizon: Horizon) -> Check:
    """The living environment and the artifact side by side, tick by tick, resets included."""
    steps = max(LEAST_STEPS, horizon.steps)
    comparison, starts = Comparison(policy.signature), Comparison()
    with preserved(*source.roots.values()), one_thread(), whole_float32(), eager(source):
        set_evaluation_mode(source.env, source.actor)
        source.env.prepare_export()
        with watch_ticks(source) as living:
            _restart(0, policy, living, starts)
            for step in range(steps):
                if _step(step, policy, living, comparison):
                    _restart(step + 1, policy, living, starts)
            followed = bool(living.followed)
    _blame_start(comparison, starts)
    claim = f"the artifact gives what the running environment gives, for {steps} policy steps"
    if not followed:
        claim += "; step() does not show its ticks, so they are those of a world that stands still"
    facts: dict[str, Any] = {"ticks followed": followed}
    if horizon.beyond:
        claim += f"; not reached: what happens after {', '.join(map(str, horizon.beyond))} steps"
        facts["not reached"] = list(horizon.beyond)
    return comparison.check("free run", claim, facts)


def _restart(step: int, policy: Policy, living: LiveRun, starts: Comparison) -> None:
    """A new episode on both sides; what an environment forgets to reset is seen here."""
    source = living.source
    living.restart()
    policy.reset()
    kept = _arrays(living.memory())
    fresh = {each.name: each.fresh(source.rows) for each in policy.signature.memory}
    after = "memory {} after a reset".format
    starts.add(
        step,
        {after(name): value for name, value in kept.items()},
        {after(name): value for name, value in fresh.items()},
    )


def _blame_start(comparison: Comparison, starts: Comparison) -> None:
    """Memory that starts otherwise is the cause where something went wrong after it.

    By itself it proves nothing: what is written before it is read may start as it likes.
    """
    late, early = comparison.first_failure, starts.first_failure
    if late is not None and early is not None and early.step <= late.step:
        comparison.first_failure = early


def _step(step: int, policy: Policy, living: LiveRun, comparison: Comparison) -> bool:
    decision, actions = living.decide()
    decided = {ACTIONS: actions.clone()} | observed_ports(decision.observations)
    ticks, _, was_reset = living.step(actions)
    for tick, seen in enumerate(ticks):
        got = policy.step(_arrays(seen.inputs if tick else decision.inputs))
        expected = _arrays(seen.outputs if tick else decided | seen.outputs)
        remembered = {f"memory {name}": value for name, value in _arrays(seen.memory).items()}
        memory = {f"memory {name}": value for name, value in policy.memory.items()}
        comparison.add(step, expected | remembered, got | memory)
    return was_reset


def _arrays(tensors: Tensors) -> dict[str, Array]:
    return {name: value.detach().cpu().numpy() for name, value in tensors.items()}
