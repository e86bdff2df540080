"""Environments that differ in how they write their tensors, and in what a callback returns."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from roadworthy.environment import Connection, Input, Memory, Output
from tests.environment.robot import Robot, wave


class InPlace(Robot):
    """`+=` and `[:] =` on tensors that are never replaced; memory starts away from zero."""

    def build(self) -> None:
        self.q, self.filtered, self.torque = (torch.zeros(1, 2) for _ in range(3))
        self.context_manager().add_components(
            [
                Input("q", lambda: self.q),
                Memory("filtered", lambda: self.filtered),
                Output("torque", lambda: self.torque),
            ]
        )

    def begin(self) -> None:
        self.q[:] = 0.5
        self.filtered[:] = torch.tensor([[0.25, -0.75]])

    def world(self) -> None:
        self.q += 0.1 * self.torque

    def compute_observations(self) -> Tensor:
        return torch.cat([self.q, self.filtered], dim=-1)

    def process_actions(self, actions: Tensor) -> None:
        self.filtered *= 0.8
        self.filtered += 0.2 * actions

    def apply_actions(self) -> None:
        self.torque[:] = self.filtered
        self.torque -= 0.3 * self.q


class Slices(Robot):
    """Observations and commands are assembled slice by slice in buffers that stay."""

    decimation = 4

    def build(self) -> None:
        self.q, self.last = torch.zeros(1, 2), torch.zeros(1, 2)
        self.buffer, self.command = torch.zeros(1, 6), torch.zeros(1, 4)
        self.context_manager().add_components(
            [
                Input("q", lambda: self.q),
                Memory("last", lambda: self.last),
                Output("command", lambda: self.command),
            ]
        )

    def begin(self) -> None:
        self.last[...] = 0.0
        self.q[:, 0], self.q[:, 1] = 0.1, -0.1

    def world(self) -> None:
        self.q[:] = wave(self.age, 1, 2)

    def compute_observations(self) -> Tensor:
        self.buffer[:, 0:2] = self.q
        self.buffer[:, 2:4] = self.last
        self.buffer[0, 4] = self.q[0, 0] * self.q[0, 1]
        self.buffer[..., 5:] = self.q.sum(-1, keepdim=True)
        return self.buffer

    def process_actions(self, actions: Tensor) -> None:
        self.last[:, 0] = actions[:, 1]
        self.last[:, 1] = actions[:, 0]

    def apply_actions(self) -> None:
        self.command[:, ::2] = self.last
        self.command[:, 1::2] = self.q - self.last


class Copies(Robot):
    """`copy_`, `lerp_`, `clamp_`, `fill_` and their like."""

    decimation = 2

    def build(self) -> None:
        self.v, self.last, self.smooth = (torch.zeros(1, 2) for _ in range(3))
        self.context_manager().add_components(
            [
                Input("v", lambda: self.v),
                Memory("last", lambda: self.last),
                Memory("smooth", lambda: self.smooth),
                Output("speed", lambda: self.smooth),
            ]
        )

    def begin(self) -> None:
        self.v.zero_()
        self.last.fill_(0.5)
        self.smooth.copy_(self.last)

    def world(self) -> None:
        self.v.copy_(wave(self.age, 1, 2)).mul_(0.7)

    def compute_observations(self) -> Tensor:
        return torch.hstack([self.v, self.last])

    def process_actions(self, actions: Tensor) -> None:
        self.last.copy_(actions).clamp_(-0.4, 0.4)

    def apply_actions(self) -> None:
        self.smooth.lerp_(self.last, 0.3).add_(self.v, alpha=0.1)


class Rebinding(Robot):
    """Every write makes a new tensor; state is in a dictionary; process hands over to apply."""

    decimation = 4

    def build(self) -> None:
        self.state: dict[str, Tensor] = {}
        self.context_manager().add_components(
            [
                Input("q", lambda: self.state["q"]),
                Memory("last", lambda: self.last),
                Output("target", lambda: self.target),
            ]
        )

    def begin(self) -> None:
        self.state["q"] = torch.full((1, 2), 0.3)
        self.last = torch.tensor([[-0.2, 0.2]])
        self.processed, self.target = torch.zeros(1, 2), torch.zeros(1, 2)

    def world(self) -> None:
        self.state = {"q": wave(self.age, 1, 2)}

    def compute_observations(self) -> Tensor:
        self.scaled = self.state["q"] * 2.0
        return torch.cat([self.scaled, self.last], dim=-1)

    def process_actions(self, actions: Tensor) -> None:
        self.last = actions
        self.processed = 0.5 * actions + 0.1

    def apply_actions(self) -> None:
        self.target = self.processed + self.state["q"]


class EarlyViews(Robot):
    """Code works on views that were made in the constructor, over one buffer."""

    decimation = 2

    def build(self) -> None:
        self.state = torch.zeros(1, 8)
        self.q, self.v = self.state[:, :2], self.state[:, 2:4]
        self.last, self.torque = self.state[:, 4:6], self.state[:, 6:8]
        self.context_manager().add_components(
            [
                Input("q", lambda: self.q),
                Input("v", lambda: self.v),
                Memory("last", lambda: self.last),
                Output("torque", lambda: self.torque),
            ]
        )

    def begin(self) -> None:
        self.state[:] = 0.05 * torch.arange(8.0)

    def world(self) -> None:
        self.state[:, :4] = wave(self.age, 1, 4)

    def compute_observations(self) -> Tensor:
        return self.state[:, :6] * 1.5

    def process_actions(self, actions: Tensor) -> None:
        self.last[:] = actions

    def apply_actions(self) -> None:
        self.torque[:] = 2.0 * (self.last - self.q) - 0.1 * self.v


class CallbackViews(Robot):
    """Inputs are slices, transposes and reshapes of larger tensors, of which the rest moves too."""

    def build(self) -> None:
        self.bodies, self.last = torch.zeros(1, 3, 7), torch.zeros(1, 2)
        self.grid = torch.zeros(2, 3)
        self.context_manager().add_components(
            [
                Input("base", lambda: self.bodies[:, 0, :3]),
                Input("feet", lambda: self.bodies[:, 1:, 2]),
                Input("heights", lambda: self.grid.view(1, -1)),
                Memory("last", lambda: self.last.reshape(1, 2)),
                Output("target", lambda: self.command[:, :2]),
            ]
        )

    def begin(self) -> None:
        self.bodies[:], self.grid[:], self.last[:] = 0.2, -0.1, 0.0
        self.command = torch.zeros(1, 3)

    def world(self) -> None:
        self.bodies[:] = wave(self.age, 1, 3, 7)
        self.grid[:] = wave(self.age + 5, 2, 3)

    def compute_observations(self) -> Tensor:
        base, feet = self.bodies[:, 0, :3], self.bodies[:, 1:, 2]
        return torch.cat([base, feet, self.grid.t().reshape(1, 6), self.last], dim=-1)

    def process_actions(self, actions: Tensor) -> None:
        self.last[:] = actions

    def apply_actions(self) -> None:
        self.command = torch.nn.functional.pad(self.last, (0, 1))


@dataclass
class Data:
    q: Tensor
    v: Tensor


class Replaced(Robot):
    """The object that holds the tensors is another one after every tick, and after registration."""

    def build(self) -> None:
        self.data, self.last = Data(torch.ones(1, 2), torch.ones(1, 2)), torch.zeros(1, 2)
        self.context_manager().add_components(
            [
                Input("q", lambda: self.data.q),
                Input("v", lambda: self.data.v),
                Memory("last", lambda: self.last),
                Output("target", lambda: self.target),
            ]
        )
        self.data = Data(torch.zeros(1, 2), torch.zeros(1, 2))

    def begin(self) -> None:
        self.data = Data(torch.full((1, 2), 0.1), torch.full((1, 2), 0.2))
        self.last, self.target = torch.zeros(1, 2), torch.zeros(1, 2)

    def world(self) -> None:
        self.data = Data(wave(self.age, 1, 2), wave(self.age + 3, 1, 2))

    def compute_observations(self) -> Tensor:
        return torch.cat([self.data.q - self.data.v, self.data.v, self.last], dim=-1)

    def process_actions(self, actions: Tensor) -> None:
        self.last = actions.clone()

    def apply_actions(self) -> None:
        self.target = self.last * 0.5 + self.data.q


class Connected(Robot):
    """A connection and a command update bring values to where the observations read them."""

    def build(self) -> None:
        self.sensor, self.seen, self.last = (torch.zeros(1, 2) for _ in range(3))
        self.command = torch.zeros(1, 1)
        self.register_command_update(self.update_command)
        self.context_manager().add_components(
            [
                Input("sensor", lambda: self.sensor),
                Connection("seen", lambda: self.sensor, self.see),
                Memory("last", lambda: self.last),
                Output("target", lambda: self.last),
            ]
        )

    def see(self, value: Tensor) -> None:
        self.seen = value * 2.0

    def update_command(self) -> None:
        self.command[:] = self.sensor[:, :1].square()

    def begin(self) -> None:
        self.sensor[:], self.last[:] = 0.4, 0.0
        self.see(self.sensor)
        self.update_command()

    def world(self) -> None:
        self.sensor[:] = wave(self.age, 1, 2)
        self.see(self.sensor)

    def compute_observations(self) -> Tensor:
        return torch.cat([self.seen, self.command, self.last], dim=-1)

    def process_actions(self, actions: Tensor) -> None:
        self.last[:] = actions

    def apply_actions(self) -> None:
        """Actions are the commands."""
