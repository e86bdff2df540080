"""Environments that differ in what they compute: robots as one meets them."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

from roadworthy.environment import (
    ExportableEnvironment,
    Group,
    Input,
    Memory,
    Output,
    add_actor_memory,
)
from tests.environment.robot import Recurrent, Robot, recurrent, wave


class Pd(Robot):
    """Joint targets at the policy's rate, torques from raw state at the simulation's."""

    def build(self) -> None:
        shape = (self.envs, self.joints)
        self.q, self.v, self.last = (torch.zeros(shape) for _ in range(3))
        self.target, self.torque = (torch.zeros(shape) for _ in range(2))
        self.context_manager().add_components(
            [
                Input("q", lambda: self.q),
                Input("v", lambda: self.v),
                Memory("last", lambda: self.last),
                Output("torque", lambda: self.torque),
            ]
        )

    def begin(self) -> None:
        self.q[:], self.v[:], self.last[:] = 0.1, 0.0, 0.3

    def world(self) -> None:
        self.v += 0.02 * self.torque
        self.q += 0.02 * self.v + 0.01 * wave(self.age, self.envs, self.joints)

    def compute_observations(self) -> Tensor:
        return torch.cat([self.q, self.v, self.last], dim=-1)

    def process_actions(self, actions: Tensor) -> None:
        self.last[:] = actions
        self.target = 0.25 * actions + 0.1

    def apply_actions(self) -> None:
        self.torque[:] = 20.0 * (self.target - self.q) - 0.5 * self.v


class PdFourTicks(Pd):
    decimation = 4


class FourRobots(Pd):
    """Several environments in the batch."""

    envs = 4
    decimation = 2


class Integers(Robot):
    """An int32 gait number picks a row of a float64 table; contacts are flags."""

    def build(self) -> None:
        self.gait = torch.zeros(1, dtype=torch.int32)
        self.contact = torch.zeros(1, 2, dtype=torch.bool)
        self.table = torch.tensor([[0.1, 0.2], [0.7, -0.3], [0.4, 0.9]], dtype=torch.float64)
        self.phase = torch.zeros(1, dtype=torch.int32)
        self.air = torch.zeros(1, 2)
        self.context_manager().add_components(
            [
                Input("gait", lambda: self.gait),
                Input("contact", lambda: self.contact),
                Memory("phase", lambda: self.phase),
                Output("air", lambda: self.air),
            ]
        )

    def begin(self) -> None:
        self.gait[:], self.phase[:] = 1, 5
        self.contact[:] = True

    def world(self) -> None:
        self.gait[:] = self.age % 3
        self.contact[:] = wave(self.age, 1, 2) > 0

    def compute_observations(self) -> Tensor:
        phase = self.phase.float().unsqueeze(-1) / 8.0
        row = self.table[self.gait.long()].to(torch.float32)
        return torch.cat([row, self.contact.float(), torch.sin(phase)], dim=-1)

    def process_actions(self, actions: Tensor) -> None:
        self.phase[:] = (self.phase + 1) % 8
        self.air = torch.where(self.contact, torch.zeros_like(actions), actions)

    def apply_actions(self) -> None:
        """Actions are the commands."""


with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)

    @torch.jit.script
    def rotate_inverse(quaternion: Tensor, vector: Tensor) -> Tensor:
        """The vector in the frame of the body; w comes first."""
        w, xyz = quaternion[:, :1], quaternion[:, 1:]
        t = torch.cross(xyz, vector, dim=-1) * 2.0
        return vector - w * t + torch.cross(xyz, t, dim=-1)


class Quaternions(Robot):
    """Projected gravity by a TorchScript function; the orientation is normalised first."""

    envs = 2

    def build(self) -> None:
        self.root, self.last = torch.zeros(2, 7), torch.zeros(2, 2)
        self.gravity = torch.tensor([0.0, 0.0, -1.0]).expand(2, 3)
        self.context_manager().add_components(
            [
                Input("orientation", lambda: self.root[:, 3:]),
                Memory("last", lambda: self.last),
                Output("target", lambda: self.last),
            ]
        )

    def begin(self) -> None:
        self.root[:] = torch.tensor([0.0, 0.0, 0.5, 1.0, 0.0, 0.0, 0.0])
        self.last[:] = 0.0

    def world(self) -> None:
        self.root[:, 3:] = torch.tensor([2.0, 0.0, 0.0, 0.0]) + wave(self.age, 2, 4)

    def compute_observations(self) -> Tensor:
        orientation = nn.functional.normalize(self.root[:, 3:], dim=-1)
        return torch.cat([rotate_inverse(orientation, self.gravity), self.last], dim=-1)

    def process_actions(self, actions: Tensor) -> None:
        self.last[:] = actions

    def apply_actions(self) -> None:
        """Actions are the commands."""


class Encoded(Robot):
    """A module with dropout and running statistics in the observations, left in training mode."""

    def build(self) -> None:
        self.scan, self.last = torch.zeros(1, 5), torch.zeros(1, 2)
        torch.manual_seed(1)
        self.encoder = nn.Sequential(nn.Linear(5, 3), nn.Dropout(0.5), nn.Tanh())
        self.context_manager().add_module(self.encoder)
        self.context_manager().add_components(
            [
                Input("scan", lambda: self.scan),
                Memory("last", lambda: self.last),
                Output("target", lambda: self.last),
            ]
        )

    def begin(self) -> None:
        self.scan[:], self.last[:] = 0.1, 0.0

    def world(self) -> None:
        self.scan[:] = wave(self.age, 1, 5)

    def compute_observations(self) -> Tensor:
        return torch.cat([self.encoder(self.scan), self.last], dim=-1)

    def process_actions(self, actions: Tensor) -> None:
        self.last[:] = actions

    def apply_actions(self) -> None:
        """Actions are the commands."""


class History(Robot):
    """The last four readings, rolled."""

    def build(self) -> None:
        self.q, self.target = torch.zeros(1, 2), torch.zeros(1, 2)
        self.history = torch.zeros(1, 4, 2)
        self.context_manager().add_components(
            [
                Input("q", lambda: self.q),
                Memory("history", lambda: self.history),
                Output("target", lambda: self.target),
            ]
        )

    def begin(self) -> None:
        self.q[:] = 0.2
        self.history[:] = self.q

    def world(self) -> None:
        self.q[:] = wave(self.age, 1, 2)

    def compute_observations(self) -> Tensor:
        return torch.cat([self.history.flatten(1), self.q], dim=-1)

    def process_actions(self, actions: Tensor) -> None:
        self.history = torch.roll(self.history, -1, dims=1)
        self.history[:, -1] = self.q
        self.target = actions

    def apply_actions(self) -> None:
        """Actions are the commands."""


class Ring(History):
    """The last four readings in a ring; its place, and a phase, are Python numbers."""

    decimation = 3

    def build(self) -> None:
        super().build()
        self.pointer, self.phase = 0, 0.0
        self.context_manager().add_components(
            [
                Memory("pointer", lambda: self.pointer),
                Memory("phase", lambda: self.phase),
            ]
        )

    def begin(self) -> None:
        super().begin()
        self.pointer, self.phase = 2, 0.0

    def compute_observations(self) -> Tensor:
        latest, oldest = self.history[:, self.pointer - 1], self.history[0, self.pointer]
        return torch.cat([latest - oldest, self.q + self.phase], dim=-1)

    def process_actions(self, actions: Tensor) -> None:
        self.history[:, self.pointer] = self.q
        self.history[..., self.pointer, 0] += 0.5
        self.pointer = (self.pointer + 1) % 4
        self.target = actions.clone()

    def apply_actions(self) -> None:
        self.phase = (self.phase + 0.13) % 1.0
        self.target = self.target + 0.01 * self.pointer


class Delayed(Robot):
    """Actions arrive three ticks late, by way of a line that moves at the simulation's rate."""

    decimation = 2

    def build(self) -> None:
        self.q, self.action, self.command = (torch.zeros(1, 2) for _ in range(3))
        self.line = torch.zeros(3, 1, 2)
        self.context_manager().add_components(
            [
                Input("q", lambda: self.q),
                Memory("line", lambda: self.line),
                Output("command", lambda: self.command),
            ]
        )

    def begin(self) -> None:
        self.q[:], self.line[:] = 0.1, 0.6

    def world(self) -> None:
        self.q[:] = wave(self.age, 1, 2)

    def compute_observations(self) -> Tensor:
        return torch.cat([self.q, self.line[0]], dim=-1)

    def process_actions(self, actions: Tensor) -> None:
        self.action[:] = actions

    def apply_actions(self) -> None:
        self.command[:] = self.line[0]
        self.line[:-1] = self.line[1:].clone()
        self.line[-1] = self.action


class Arm:
    def __init__(self) -> None:
        self.q, self.target = torch.zeros(1, 2), torch.zeros(1, 2)


class TwoArms(Robot):
    """Two robots in one group, each a group of its own."""

    joints = 4

    def build(self) -> None:
        self.arms = [Arm(), Arm()]
        self.last = torch.zeros(1, 4)
        left, right = self.arms
        self.context_manager().add_group(
            Group(
                "arms",
                [
                    Group("left", [Input("q", lambda: left.q), Output("t", lambda: left.target)]),
                    Group(
                        "right", [Input("q", lambda: right.q), Output("t", lambda: right.target)]
                    ),
                    Memory("last", lambda: self.last),
                ],
                metadata={"robots": 2},
            )
        )

    def begin(self) -> None:
        for index, arm in enumerate(self.arms):
            arm.q[:] = 0.3 * index
        self.last[:] = 0.1

    def world(self) -> None:
        for index, arm in enumerate(self.arms):
            arm.q[:] = wave(self.age + 4 * index, 1, 2)

    def compute_observations(self) -> Tensor:
        return torch.cat([*(arm.q for arm in self.arms), self.last], dim=-1)

    def process_actions(self, actions: Tensor) -> None:
        self.last[:] = actions

    def apply_actions(self) -> None:
        for arm, action in zip(self.arms, self.last.chunk(2, dim=-1), strict=True):
            arm.target = arm.q + action


class Noisy(Pd):
    """Noise that is drawn outside of the step and registered as an input."""

    def build(self) -> None:
        super().build()
        self.noise = torch.zeros(1, 6)
        self.context_manager().add_component(Input("noise", lambda: self.noise))

    def world(self) -> None:
        super().world()
        self.noise = 0.1 * torch.randn(1, 6)

    def compute_observations(self) -> Tensor:
        return super().compute_observations() + self.noise


class EnvironmentModule(Pd, nn.Module):
    """The environment is a module itself, and its memory a buffer."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        super().__init__()

    def build(self) -> None:
        super().build()
        del self.last
        self.register_buffer("last", torch.zeros(1, 2))


def with_recurrent(
    env: ExportableEnvironment, kind: type[nn.LSTM] | type[nn.GRU]
) -> tuple[ExportableEnvironment, Recurrent]:
    actor = recurrent(env, kind)
    add_actor_memory(env.context_manager(), actor.get_state)
    return env, actor
