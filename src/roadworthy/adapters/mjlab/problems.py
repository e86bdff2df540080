"""What of an mjlab environment cannot be exported as it is, and what deserves a warning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from roadworthy.errors import Finding

if TYPE_CHECKING:
    from roadworthy.adapters.mjlab.dialect import MjlabDialect


def problems(dialect: MjlabDialect, names: Sequence[str]) -> list[Finding]:
    """Everything at once: what would make the file another policy than the one that was trained."""
    found = [*_device(dialect.env), *_groups(dialect, names)]
    if dialect.written == "ctrl":
        found += _actuators(dialect.env)
    return found


def _finding(where: str, what: str, hint: str) -> Finding:
    return Finding(code="RW180", where=where, what=what, hint=hint)


def _device(env: Any) -> Iterator[Finding]:
    if str(env.device) != "cpu":
        yield _finding(
            "env.device",
            f"the environment is on {env.device}, and is exported on the CPU",
            "make it once more with ManagerBasedRlEnv(cfg, device='cpu')",
        )


def _groups(dialect: MjlabDialect, names: Sequence[str]) -> Iterator[Finding]:
    known = dialect.groups()
    for name in names:
        group = known[name]
        if group.corrupted:
            noisy = [term.name for term in group.terms if term.noise]
            yield _finding(
                f"cfg.observations[{name!r}].enable_corruption",
                "noise is added to the observations"
                + (f" ({', '.join(noisy)})" if noisy else "")
                + ", and a robot has its own",
                f"cfg.observations[{name!r}].enable_corruption = False, or load_env_cfg(task, "
                "play=True), then make the environment",
            )
        if group.nan_policy != "disabled":
            yield _finding(
                f"cfg.observations[{name!r}].nan_policy",
                f"the policy {group.nan_policy!r} branches on whether a value is NaN, and a graph "
                "has one branch",
                f"cfg.observations[{name!r}].nan_policy = 'disabled'",
            )
        if not group.concatenated:
            yield _finding(
                f"cfg.observations[{name!r}].concatenate_terms",
                "the terms stay apart, and the actor is given one tensor for each group",
                f"cfg.observations[{name!r}].concatenate_terms = True",
            )
        for term in group.terms:
            delay = dialect.env.observation_manager._group_obs_term_delay_buffer[name].get(
                term.name
            )
            yield from _delay(f"cfg.observations[{name!r}].terms[{term.name!r}]", delay)


def _actuators(env: Any) -> Iterator[Finding]:
    for name, entity in env.scene.entities.items():
        for actuator in entity.actuators:
            yield from _delay(f"{name}'s {type(actuator).__name__}", actuator._delay_buffer)


def _delay(where: str, delay: Any) -> Iterator[Finding]:
    """A delay that is drawn at random has no place in a file; one that is fixed has."""
    if delay is None:
        return
    if delay.min_lag != delay.max_lag:
        yield _finding(
            f"{where}.delay_min_lag",
            f"the delay is drawn between {delay.min_lag} and {delay.max_lag} steps: expected one "
            "number",
            f"delay_min_lag = delay_max_lag = {delay.max_lag}, or 0 for none",
        )
    elif delay.hold_prob > 0 or delay.update_period > 1:
        yield _finding(
            f"{where}.delay_hold_prob",
            f"the delay is renewed at random moments (hold_prob={delay.hold_prob}, "
            f"update_period={delay.update_period})",
            "delay_hold_prob = 0.0 and delay_update_period = 0",
        )
