"""Pairs of sources: what somebody exported, and what should have been exported.

The ports are the same, so that nothing but behaviour tells them apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import roadworthy as rw

OBS, ACTIONS, HIDDEN = 6, 3, 8
MEAN = np.array([0.02, -0.41, 1.7, 0.0, -12.5, 3.3])
VAR = np.array([0.9, 0.04, 2.5, 0.01, 30.0, 0.5])
Pair = tuple[rw.Source, rw.Source]


def obs(*shape: int) -> Tensor:
    return torch.randn(1, *(shape or (OBS,)), generator=torch.Generator().manual_seed(1))


def net(inputs: int = OBS, outputs: int = ACTIONS, seed: int = 0) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(inputs, 16), nn.ELU(), nn.Linear(16, outputs))


class Actor(nn.Module):
    """Joint targets around a default pose, as an actor of a legged robot gives them."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.net = net()
        self.options = options

    def forward(self, obs: Tensor) -> Any:
        return self.net(obs)


def plain(module: nn.Module, **description: Any) -> rw.Source:
    return rw.Source(module, **({"example": {"obs": obs()}} | description))


def normalized(statistics: Any) -> rw.Source:
    return plain(Actor(), normalizer=statistics)


SB3 = rw.EpsInsideRoot(mean=MEAN, var=VAR, eps=1e-8, clip=10.0)
RSL_RL = rw.EpsOutsideRoot(mean=MEAN, std=np.sqrt(VAR), eps=1e-2)


class WithNormalizer(Actor):
    """The normaliser is a part of the actor; an exporter may take `actor.net` alone."""

    def __init__(self) -> None:
        super().__init__()
        self.obs_normalizer = nn.BatchNorm1d(OBS, affine=False)
        self.obs_normalizer.running_mean = torch.from_numpy(MEAN).float()
        self.obs_normalizer.running_var = torch.from_numpy(VAR).float()
        self.eval()

    def forward(self, obs: Tensor) -> Tensor:
        return self.net(self.obs_normalizer(obs))


class Squashed(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        actions = self.net(obs)
        for _ in range(self.options["squashes"]):
            actions = actions.tanh()
        return actions


class Scaled(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        actions = self.net(obs)
        for _ in range(self.options["times"]):
            actions = 0.25 * actions + torch.tensor([0.1, 0.8, -1.5])
        return actions


class Clipped(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        limit = self.options["limit"]
        return self.net(obs).clamp(-limit, limit)


class Cell(nn.Module):
    """A GRU whose cell is written out by hand, as exporters for small controllers do."""

    def __init__(self, variant: str) -> None:
        super().__init__()
        self.variant = variant
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(2)
            self.rnn = nn.GRU(OBS, HIDDEN)
            self.head = nn.Linear(HIDDEN, ACTIONS)

    def forward(self, obs: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        if self.variant == "torch":
            features, h = self.rnn(obs.unsqueeze(0), h)
            return self.head(features.squeeze(0)), h
        rnn, state = self.rnn, h[0]
        gates_x = (obs @ rnn.weight_ih_l0.T + rnn.bias_ih_l0).chunk(3, -1)
        weights, biases = rnn.weight_hh_l0.chunk(3), rnn.bias_hh_l0.chunk(3)
        names = "zrn" if self.variant == "zrn" else "rzn"
        x, w, b = (dict(zip(names, each, strict=True)) for each in (gates_x, weights, biases))
        reset = torch.sigmoid(x["r"] + state @ w["r"].T + b["r"])
        update = torch.sigmoid(x["z"] + state @ w["z"].T + b["z"])
        if self.variant == "reset first":
            new = torch.tanh(x["n"] + (reset * state) @ w["n"].T + b["n"])
        else:
            new = torch.tanh(x["n"] + reset * (state @ w["n"].T + b["n"]))
        state = (1 - update) * new + update * state
        return self.head(state), state.unsqueeze(0)


class Lstm(nn.Module):
    def __init__(self, forgets: bool = False, swaps_layout: bool = False) -> None:
        super().__init__()
        self.forgets, self.swaps_layout = forgets, swaps_layout
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(2)
            self.rnn = nn.LSTM(OBS, HIDDEN, 2)
            self.head = nn.Linear(HIDDEN, ACTIONS)

    def forward(self, obs: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        state = (torch.zeros_like(h), torch.zeros_like(c)) if self.forgets else (h, c)
        if self.swaps_layout:
            state = tuple(each.reshape(each.shape[1], 2, HIDDEN).transpose(0, 1) for each in state)
            state = tuple(each.contiguous() for each in state)
        features, (h, c) = self.rnn(obs.unsqueeze(0), state)
        return self.head(features.squeeze(0)), h, c


def two_states(layers: int = 2) -> dict[str, Tensor]:
    return {"h": torch.zeros(layers, 1, HIDDEN), "c": torch.zeros(layers, 1, HIDDEN)}


def recurrent(module: nn.Module, memory: dict[str, Any]) -> rw.Source:
    return plain(module, memory=memory)


class Stateless(nn.Module):
    """The LSTM of a training script that is called on single steps: its state starts anew."""

    def __init__(self) -> None:
        super().__init__()
        whole = Lstm()
        self.rnn, self.head = whole.rnn, whole.head

    def forward(self, obs: Tensor) -> Tensor:
        features, _ = self.rnn(obs.unsqueeze(0))
        return self.head(features.squeeze(0))


class ResetsOnDone(nn.Module):
    """16: the network clears its state when the environment says that the episode is over."""

    def __init__(self, listens: bool) -> None:
        super().__init__()
        self.listens = listens
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(2)
            self.cell = nn.GRUCell(OBS, HIDDEN)
            self.head = nn.Linear(HIDDEN, ACTIONS)

    def forward(self, obs: Tensor, done: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.where(done, torch.zeros_like(h), h) if self.listens else h + 0 * done
        h = self.cell(obs, h)
        return self.head(h), h


class Stack(nn.Module):
    """The last four observations, flattened by the caller, oldest first."""

    def __init__(self, newest_first: bool) -> None:
        super().__init__()
        self.newest_first = newest_first
        self.net = net(4 * OBS)

    def forward(self, frames: Tensor) -> Tensor:
        if self.newest_first:
            frames = frames.flip(1) if frames.ndim == 3 else frames.unflatten(1, (4, OBS)).flip(1)
        return self.net(frames.flatten(1))


class KeepsHistory(nn.Module):
    """The last three observations as memory; they are shifted in one direction or the other."""

    def __init__(self, newest_first: bool) -> None:
        super().__init__()
        self.newest_first = newest_first
        self.net = net(3 * OBS)

    def forward(self, obs: Tensor, history: Tensor) -> tuple[Tensor, Tensor]:
        new = obs.unsqueeze(1)
        if self.newest_first:
            history = torch.cat([new, history[:, :-1]], dim=1)
        else:
            history = torch.cat([history[:, 1:], new], dim=1)
        return self.net(history.flatten(1)), history


class FromDict(nn.Module):
    """An actor over a Dict observation; the order of the keys is the order of the features."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        super().__init__()
        self.keys = keys
        self.net = net(4 + 2)

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        return self.net(torch.cat([obs[key] for key in self.keys], dim=-1))


class Joints(nn.Module):
    """Joint orders of a simulator and of a robot."""

    def __init__(self, reads: tuple[int, ...], writes: tuple[int, ...]) -> None:
        super().__init__()
        self.reads, self.writes = list(reads), list(writes)
        self.net = net()

    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs[:, self.reads])[:, self.writes]


class Camera(nn.Module):
    """Convolutions over frames (height, width, colours) of a camera."""

    def __init__(self, layout: str = "permuted", divided: bool = True) -> None:
        super().__init__()
        self.layout, self.divided = layout, divided
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            self.convolutions = nn.Sequential(nn.Conv2d(3, 4, 4, stride=2), nn.ReLU())
            self.head = nn.Linear(4 * 5 * 5, ACTIONS)

    def forward(self, pixels: Tensor) -> Tensor:
        frames = pixels.float()
        if self.layout == "permuted":
            frames = frames.permute(0, 3, 1, 2)
        elif self.layout == "reshaped":
            frames = frames.reshape(-1, 3, 12, 12)
        if self.divided:
            frames = frames / 255.0
        return self.head(self.convolutions(frames).flatten(1))


def camera(module: nn.Module, *shape: int) -> rw.Source:
    pixels = torch.randint(0, 256, (1, *(shape or (12, 12, 3))), dtype=torch.uint8)
    return rw.Source(module, example={"pixels": pixels})


class Menu(nn.Module):
    """A policy over five choices that is told which are allowed, and may not listen."""

    def __init__(self) -> None:
        super().__init__()
        self.net = net(OBS, 5)

    def forward(self, obs: Tensor, action_mask: Tensor) -> Tensor:
        return self.net(obs).argmax(-1)


class Half(Actor):
    """Weights that went through float16."""

    def __init__(self) -> None:
        super().__init__()
        self.net = self.net.half().float()


class Loud(Actor):
    """Large activations, in the middle: beyond 65504 float16 has no numbers."""

    def forward(self, obs: Tensor) -> Tensor:
        hidden = self.net[:2](obs) * 2e4
        if self.options["half"]:
            hidden = hidden.half().float()
        return self.net[2](hidden) / 2e4


class Agent(nn.Module):
    """An agent with its target network and its critic; `acts` says which of them acts."""

    def __init__(self, acts: str = "actor") -> None:
        super().__init__()
        self.actor, self.target, self.critic = net(seed=0), net(seed=8), net(outputs=1, seed=9)
        self.acts = acts

    def forward(self, obs: Tensor) -> Tensor:
        return getattr(self, self.acts)(obs)


class OldCheckpoint(Actor):
    def __init__(self) -> None:
        super().__init__()
        self.net = net(seed=77)


class Swapped(nn.Module):
    """Two layers of the same shape, whose external data were exchanged."""

    def __init__(self, swapped: bool) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(4)
            layers = [nn.Linear(OBS, OBS), nn.Linear(OBS, OBS)]
        first, second = reversed(layers) if swapped else layers
        self.net = nn.Sequential(first, nn.Tanh(), second)

    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs)
