"""IsaacLab's manager-based environments: the simulation's half of the dialect."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch

from roadworthy.environment.source import EnvironmentSource
from roadworthy.errors import Finding, RoadworthyWarning
from roadworthy.frameworks.managers import Candidate, Dialect, source_of
from roadworthy.frameworks.managers.problems import device_problem, group_problems
from roadworthy.spec.port import About

# Public names of an articulation's or a rigid object's data → the port, what is preferred first.
_STATE = {
    "joint_pos": "joint_pos",
    "joint_vel": "joint_vel",
    "joint_acc": "joint_acc",
    "root_quat_w": "root_quat",
    "root_pos_w": "root_pos",
    "root_lin_vel_w": "root_lin_vel",
    "root_ang_vel_w": "root_ang_vel",
    "root_state_w": "root_state",
    "root_lin_vel_b": "root_lin_vel_b",
    "root_ang_vel_b": "root_ang_vel_b",
    "projected_gravity_b": "projected_gravity",
    "body_pos_w": "body_pos",
    "body_quat_w": "body_quat",
    "body_state_w": "body_state",
}
_TARGETS = ("joint_pos_target", "joint_vel_target", "joint_effort_target")


def describe(
    thing: Any, *, actor: Any = None, groups: tuple[str, ...] | None = None
) -> EnvironmentSource:
    """The source of an environment of IsaacLab with its actor; experimental."""
    warnings.warn(
        "the adapter for IsaacLab is experimental: it follows the documented interface, and has "
        "not run beside IsaacLab itself",
        RoadworthyWarning,
        stacklevel=3,
    )
    clip = getattr(thing, "clip_actions", None)
    return source_of(IsaacLabDialect(thing.unwrapped), actor, groups=groups, clip_actions=clip)


class IsaacLabDialect(Dialect):
    """A `ManagerBasedRLEnv`: assets and sensors by the names of the scene."""

    def settle(self) -> None:
        """Nothing: what simulates flaws there is noise, and noise is refused."""

    def inputs(self) -> list[Candidate]:
        return [*self._assets(), *self._sensors(), *self._commands()]

    def _assets(self) -> Iterator[Candidate]:
        for name, asset in self._bodies():
            joints = list(getattr(asset, "joint_names", ()))
            for attribute, port in _STATE.items():
                value = getattr(asset.data, attribute, None)
                if isinstance(value, torch.Tensor):
                    named = port.startswith("joint_") and value.shape[-1] == len(joints)
                    about = About(elements=joints) if named else About()
                    read = partial(getattr, asset.data, attribute)
                    yield Candidate(f"{name}.{port}", read, about)

    def _bodies(self) -> Iterator[tuple[str, Any]]:
        scene = self.env.scene
        yield from scene.articulations.items()
        yield from getattr(scene, "rigid_objects", {}).items()

    def _sensors(self) -> Iterator[Candidate]:
        for name, sensor in getattr(self.env.scene, "sensors", {}).items():
            for field, value in vars(sensor.data).items():
                if isinstance(value, torch.Tensor):
                    yield Candidate(f"sensor.{name}.{field}", partial(_field, sensor, field))

    def _commands(self) -> Iterator[Candidate]:
        manager = self.env.command_manager
        for name in manager.active_terms:
            yield Candidate(f"command.{name}", partial(manager.get_command, name))

    def outputs(self) -> list[Candidate]:
        """The targets that differ when the action terms write them: they start as NaN."""
        held = {
            (name, field): getattr(asset.data, field)
            for name, asset in self.env.scene.articulations.items()
            for field in _TARGETS
        }
        return [
            self._output(name, field, ids)
            for (name, field), ids in self.written_by_actions(held).items()
            if ids
        ]

    def _output(self, name: str, field: str, ids: list[int]) -> Candidate:
        asset = self.env.scene.articulations[name]
        about = About(elements=[asset.joint_names[each] for each in ids])
        return Candidate(f"{name}.{field}", lambda: getattr(asset.data, field)[:, ids], about)

    def problems(self, names: Sequence[str]) -> list[Finding]:
        again = "make it once more with sim.device = 'cpu'"
        return [*group_problems(self.groups(), names), *device_problem(self.env, again)]

    def metadata(self, names: Sequence[str]) -> dict[str, str]:
        return {"physics_dt": str(self.env.physics_dt), "step_dt": str(self.env.step_dt)}


def _field(sensor: Any, field: str) -> torch.Tensor:
    found: torch.Tensor = getattr(sensor.data, field)
    return found
