"""A robot of twelve joints as simulators write it: sixty operators around its actor.

The usual 48 observations of a walker, from a pose, velocities, joints and a command, each scaled
and clipped; the actor decides at every tick, and its actions become torques within limits.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from roadworthy.environment import ExportableEnvironment, Input, Memory, Output

DEFAULT = [0.1, 0.8, -1.5, -0.1, 0.8, -1.5, 0.1, 1.0, -1.5, -0.1, 1.0, -1.5]
INPUTS = (
    "orientation", "linear_velocity", "angular_velocity", "command", "heading",
    "joint_positions", "joint_velocities",
)  # fmt: skip


def rotated_back(orientation: Tensor, vector: Tensor) -> Tensor:
    """A vector of the world in the frame of a body whose orientation is (w, x, y, z)."""
    w, axis = orientation[:, :1], orientation[:, 1:]
    twice = 2.0 * torch.cross(axis, vector, dim=-1)
    return vector - w * twice + torch.cross(axis, twice, dim=-1)


class Walker(ExportableEnvironment):
    """Observations, PD control and a filter of velocities, at one rate."""

    def __init__(self) -> None:
        super().__init__()
        self.orientation, self.heading = torch.zeros(1, 4), torch.zeros(1, 1)
        self.linear_velocity, self.angular_velocity = torch.zeros(1, 3), torch.zeros(1, 3)
        self.command = torch.zeros(1, 2)
        self.joint_positions, self.joint_velocities = torch.zeros(1, 12), torch.zeros(1, 12)
        components = self.context_manager()
        for name in INPUTS:
            components.add_component(Input(name, partial(getattr, self, name)))
        self.default, self.gravity = torch.tensor([DEFAULT]), torch.tensor([[0.0, 0.0, -1.0]])
        self.scale = torch.tensor([[2.0, 2.0, 0.25]])
        self.low, self.high = self.default - 1.2, self.default + 1.2
        self.last, self.smooth, self.target, self.torques = (torch.zeros(1, 12) for _ in range(4))
        components.add_component(Memory("last", lambda: self.last))
        components.add_component(Memory("smooth", lambda: self.smooth))
        components.add_component(Output("target", lambda: self.target))
        components.add_component(Output("torques", lambda: self.torques))
        self.observations_reset()

    def compute_observations(self) -> Tensor:
        turn = torch.atan2(self.heading.sin(), self.heading.cos()) * 0.5
        command = torch.cat([self.command, turn.clamp(-1.0, 1.0)], dim=-1)
        terms = (
            rotated_back(self.orientation, self.linear_velocity) * 2.0,
            self.angular_velocity * 0.25,
            rotated_back(self.orientation, self.gravity),
            command * self.scale,
            self.joint_positions - self.default,
            (0.8 * self.smooth + 0.2 * self.joint_velocities) * 0.05,
            self.last,
        )
        return torch.cat([term.clamp(-100.0, 100.0) for term in terms], dim=-1)

    def process_actions(self, actions: Tensor) -> None:
        self.last[:] = actions
        self.smooth[:] = 0.8 * self.smooth + 0.2 * self.joint_velocities
        wanted = self.default + 0.25 * actions.clamp(-10.0, 10.0)
        self.target = torch.minimum(torch.maximum(wanted, self.low), self.high)

    def apply_actions(self) -> None:
        wanted = 25.0 * (self.target - self.joint_positions) - 0.5 * self.joint_velocities
        room = (1.0 - self.joint_velocities.abs() / 30.0).clamp(0.0, 1.0) * 33.5
        self.torques = torch.minimum(torch.maximum(wanted, -room), room)

    def step(self, actions: Tensor) -> tuple[Tensor, bool]:
        self.process_actions(actions)
        self.apply_actions()
        self.joint_velocities += 0.002 * self.torques
        self.joint_positions += 0.02 * self.joint_velocities
        self.angular_velocity += 0.01 * self.torques[:, :3]
        self.linear_velocity *= 0.99
        self.linear_velocity += 0.01 * self.torques[:, 3:6]
        turned = self.orientation.roll(1, -1) * 0.05
        self.orientation += turned
        self.orientation /= self.orientation.norm()
        self.command += 0.01
        self.heading += 0.02
        return self.compute_observations(), False

    def observations_reset(self) -> Tensor:
        self.orientation[:] = torch.tensor([[0.9, 0.1, -0.2, 0.3]])
        self.joint_positions[:] = self.default
        for each in (self.last, self.smooth, self.target, self.torques, self.joint_velocities):
            each.zero_()
        for each in (self.linear_velocity, self.angular_velocity, self.command, self.heading):
            each.fill_(0.3)
        return self.compute_observations()

    def empty_actions(self) -> Tensor:
        return torch.zeros(1, 12)
