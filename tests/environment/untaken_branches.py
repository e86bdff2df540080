"""Environments with a branch that no run enters, or with more than a run uses."""

from __future__ import annotations

import torch
from torch import Tensor

from roadworthy.environment import Input, Memory, Output
from tests.environment.mistakes import Sound
from tests.environment.robot import wave


class Rays(Sound):
    """Heights from ray distances; where a ray misses, from the height of the base."""

    def build(self) -> None:
        self.distance, self.base = torch.ones(1, 6), torch.zeros(1, 1)
        super().build()

    def register(self) -> None:
        super().register()
        self.add(Input("distance", lambda: self.distance))
        self.add(Input("base", lambda: self.base))

    def world(self) -> None:
        super().world()
        self.distance[:] = 1.0 + 0.1 * wave(self.age, 1, 6)
        self.base[:] = 0.3 + 0.1 * wave(self.age, 1, 1)

    def missed(self) -> Tensor:
        return self.distance < 0.0

    def compute_observations(self) -> Tensor:
        heights = torch.where(self.missed(), self.base.expand(1, 6), self.distance)
        return super().compute_observations() + heights


class RaysAlone(Rays):
    """The base moves, matters only when a ray misses, and is not registered."""

    def register(self) -> None:
        Sound.register(self)
        self.add(Input("distance", lambda: self.distance))


class FarRaysAlone(RaysAlone):
    """A ray that misses says that it went very far."""

    def missed(self) -> Tensor:
        return self.distance > 99.0


class MaskedRaysAlone(RaysAlone):
    """A mask says which rays missed: so far none."""

    def build(self) -> None:
        self.mask = torch.zeros(1, 6, dtype=torch.bool)
        super().build()

    def register(self) -> None:
        super().register()
        self.add(Input("mask", lambda: self.mask))

    def missed(self) -> Tensor:
        return self.mask


class TwiceGatedRaysAlone(MaskedRaysAlone):
    def missed(self) -> Tensor:
        return self.mask & (self.distance < 0.0)


class Overwritten(Sound):
    """A tensor that moves and is read, and what was read is overwritten before it is used."""

    def build(self) -> None:
        self.noise = torch.zeros(1, 6)
        super().build()

    def world(self) -> None:
        super().world()
        self.noise[:] = wave(self.age + 3, 1, 6)

    def compute_observations(self) -> Tensor:
        result = self.noise * 2.0
        result[:] = super().compute_observations()
        return result


class Selected(Sound):
    """A command that counts while a selector is on; no run switches it on."""

    def build(self) -> None:
        self.on, self.wanted = torch.zeros(1, 1, dtype=torch.bool), torch.zeros(1, 6)
        super().build()

    def register(self) -> None:
        super().register()
        self.add(Input("on", lambda: self.on))
        self.add(Input("wanted", lambda: self.wanted))

    def world(self) -> None:
        super().world()
        self.wanted[:] = wave(self.age + 9, 1, 6)

    def compute_observations(self) -> Tensor:
        return super().compute_observations() + torch.where(self.on, self.wanted, 0.0)


class AtRest(Sound):
    """A velocity target that is zero while the robot rests; no version tells that it is written."""

    def build(self) -> None:
        with torch.inference_mode():
            self.speed = torch.zeros(1, 2)
        super().build()

    def register(self) -> None:
        super().register()
        self.add(Output("speed", lambda: self.speed))

    def apply_actions(self) -> None:
        super().apply_actions()
        resting = self.env.data_source.foo.abs() < 0.9
        with torch.inference_mode():
            self.speed[:] = torch.where(resting, 0.0, self.env.last)


class Generic(Sound):
    """A registration with more than this task reads."""

    def build(self) -> None:
        self.height = torch.zeros(1, 3)
        super().build()

    def register(self) -> None:
        super().register()
        self.add(Input("height", lambda: self.height))

    def world(self) -> None:
        super().world()
        self.height[:] = wave(self.age, 1, 3)


class Rolled(Sound):
    """A ring whose oldest entry comes first by a roll; its place is a Python number."""

    def build(self) -> None:
        self.ring, self.pointer = torch.zeros(1, 3, 2), 0
        super().build()

    def register(self) -> None:
        super().register()
        self.add(Memory("ring", lambda: self.ring))
        self.add(Memory("pointer", lambda: self.pointer))

    def begin(self) -> None:
        super().begin()
        self.ring[:], self.pointer = 0.0, 0

    def compute_observations(self) -> Tensor:
        ordered = torch.roll(self.ring, -self.pointer, dims=1)
        return torch.cat([super().compute_observations(), ordered.flatten(1)], dim=-1)

    def process_actions(self, actions: Tensor) -> None:
        super().process_actions(actions)
        self.ring[:, self.pointer] = actions
        self.pointer = (self.pointer + 1) % 3


class NarrowIndices(Sound):
    """Indices of 32 bits, several at once: ONNX has none such."""

    decimation = 2

    def build(self) -> None:
        self.columns = torch.tensor([2, 0, 1, 1, 0, 2], dtype=torch.int32)
        self.table = torch.zeros(2, 3)
        super().build()

    def register(self) -> None:
        super().register()
        self.add(Input("table", lambda: self.table))

    def world(self) -> None:
        super().world()
        self.table[:] = wave(self.age, 2, 3)

    def compute_observations(self) -> Tensor:
        rows = torch.ones(6, dtype=torch.int32)
        return super().compute_observations() + self.table[rows, self.columns]


class PushedInPlace(Sound):
    """A history that compute_observations pushes in place; the ticks in between do not."""

    decimation = 3

    def build(self) -> None:
        self.history = torch.zeros(1, 3, 2)
        super().build()

    def register(self) -> None:
        super().register()
        self.add(Memory("history", lambda: self.history))

    def begin(self) -> None:
        super().begin()
        self.history[:] = 0.0

    def empty_actor_observations(self) -> Tensor:
        return torch.zeros_like(self.compute_observations())

    def compute_observations(self) -> Tensor:
        self.history[:] = torch.roll(self.history, -1, dims=1)
        self.history[:, -1] = self.env.data_source.foo
        return torch.cat([super().compute_observations(), self.history.flatten(1)], dim=-1)


class Grouped(Sound):
    """Observations by group."""

    def compute_observations(self) -> dict[str, Tensor]:
        return {"policy": super().compute_observations(), "scan": 2.0 * self.env.data_source.foo}
