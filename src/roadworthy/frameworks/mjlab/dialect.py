"""mjlab's simulation, for an environment whose managers have the usual names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from roadworthy.errors import Finding
from roadworthy.frameworks.managers.dialect import Dialect
from roadworthy.frameworks.managers.problems import device_problem, finding, group_problems
from roadworthy.frameworks.managers.terms import Candidate, Ring
from roadworthy.frameworks.mjlab import robot, state
from roadworthy.inspection.unwatched import unwatched
from roadworthy.spec.robot import Robot

Written = Literal["targets", "ctrl"]
# What of the simulation runs in mujoco_warp alone.
_SIMULATES = ("step", "forward", "sense")


class MjlabDialect(Dialect):
    """A `ManagerBasedRlEnv`; `written` says whether the file ends at the targets of the joints or
    goes on through the actuators' delays and laws to the simulator's controls."""

    def __init__(self, env: Any, written: Written = "targets") -> None:
        super().__init__(env)
        self.written = written
        self.apply_ends_tick = written == "targets"

    @contextmanager
    def routed(
        self, observe: Callable[[Callable[[], object]], object], apply: Callable[[], None]
    ) -> Iterator[None]:
        held = vars(self.env.sim)
        before = dict(held)
        held |= {name: unwatched(getattr(self.env.sim, name)) for name in _SIMULATES}
        try:
            with super().routed(observe, apply):
                yield
        finally:
            for name in _SIMULATES:
                held.pop(name)
                held |= {name: before[name]} if name in before else {}

    def settle(self) -> None:
        for entity in self.env.scene.entities.values():
            entity.data.encoder_bias.zero_()

    def left_out(self, names: Sequence[str]) -> list[str]:
        # Set to zero, as `settle` says.
        biased = [n for n, e in self.env.scene.entities.items() if e.data.encoder_bias.any()]
        return [*super().left_out(names), *(f"encoder_bias of {name}" for name in biased)]

    def inputs(self) -> list[Candidate]:
        return state.inputs(self.env)

    def rings(self, names: Sequence[str]) -> list[Ring]:
        found = super().rings(names)
        return [*found, *_of_actuators(self.env)] if self.written == "ctrl" else found

    def outputs(self) -> list[Candidate]:
        if self.written == "ctrl":
            return state.controls(self.env)
        return [*state.targets(self)]

    def problems(self, names: Sequence[str]) -> list[Finding]:
        again = "make it once more with ManagerBasedRlEnv(cfg, device='cpu')"
        found = [*device_problem(self.env, again), *group_problems(self.groups(), names)]
        found += _delays(self.env, names)
        return [*found, *_actuators(self.env)] if self.written == "ctrl" else found

    def metadata(self, names: Sequence[str]) -> dict[str, str]:
        return robot.metadata(self.env, self.groups(), names)

    def robot(self, names: Sequence[str], outputs: Mapping[str, Sequence[str]]) -> Robot | None:
        return robot.robot(self.env, self.groups(), names, outputs)

    def randomised(self) -> list[Candidate]:
        return state.randomised(self.env)


def _of_actuators(env: Any) -> Iterator[Ring]:
    """The delays between a command and its actuator, each once: fused actuators share one."""
    for name, entity in env.scene.entities.items():
        shared: dict[int, Any] = {}
        for actuator in entity.actuators:
            delay = getattr(actuator, "_delay_buffer", None)
            if delay is not None:
                shared.setdefault(id(delay), delay)
        for number, delay in enumerate(shared.values()):
            yield Ring(f"delay.{name}.actuators_{number}", delay._buffer)


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
