"""What of an mjlab environment cannot be exported as it is, and what deserves a warning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from roadworthy.errors import Finding
from roadworthy.frameworks.managers.problems import device_problem, finding, group_problems

if TYPE_CHECKING:
    from roadworthy.frameworks.mjlab.dialect import MjlabDialect


def problems(dialect: MjlabDialect, names: Sequence[str]) -> list[Finding]:
    """Everything at once: what would make the file another policy than the one that was trained."""
    again = "make it once more with ManagerBasedRlEnv(cfg, device='cpu')"
    found = [*device_problem(dialect.env, again), *group_problems(dialect.groups(), names)]
    found += _delays(dialect.env, names)
    if dialect.written == "ctrl":
        found += _actuators(dialect.env)
    return found


def _delays(env: Any, names: Sequence[str]) -> Iterator[Finding]:
    for name in names:
        for term, delay in env.observation_manager._group_obs_term_delay_buffer[name].items():
            yield from _delay(f"cfg.observations[{name!r}].terms[{term!r}]", delay)


def _actuators(env: Any) -> Iterator[Finding]:
    for name, entity in env.scene.entities.items():
        for actuator in entity.actuators:
            yield from _delay(f"{name}'s {type(actuator).__name__}", actuator._delay_buffer)


def _delay(where: str, delay: Any) -> Iterator[Finding]:
    """A delay that is drawn at random has no place in a file; one that is fixed has."""
    if delay is None:
        return
    if delay.min_lag != delay.max_lag:
        yield finding(
            f"{where}.delay_min_lag",
            f"the delay is drawn between {delay.min_lag} and {delay.max_lag} steps: expected one "
            "number",
            f"delay_min_lag = delay_max_lag = {delay.max_lag}, or 0 for none",
        )
    elif delay.hold_prob > 0 or delay.update_period > 1:
        yield finding(
            f"{where}.delay_hold_prob",
            f"the delay is renewed at random moments (hold_prob={delay.hold_prob}, "
            f"update_period={delay.update_period})",
            "delay_hold_prob = 0.0 and delay_update_period = 0",
        )
