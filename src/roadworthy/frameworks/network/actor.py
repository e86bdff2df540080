"""An actor rebuilt from weights, as a module that takes its ports by name."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from roadworthy.capture.source import Source
from roadworthy.errors import UsageError
from roadworthy.spec.transforms import ActionStep, Normalizer

Tensors = dict[str, Tensor]
FRAMES = "frames"


class Network(nn.Module):
    """What a framework's module builds: from ports and memory to outputs and memory, by name."""

    @abstractmethod
    def step(self, ports: Tensors, wanted: Collection[str]) -> Tensors:
        """The wanted outputs, the action as the network gives it, and the memory's successors."""

    @abstractmethod
    def example(self) -> Tensors:
        """A value for each input."""

    def memory(self, wanted: Collection[str] = ()) -> Tensors:
        """Where an episode starts, for one row, if these outputs are wanted."""
        return {}


class Around(Network):
    """Something around a network, which takes what the network takes."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def example(self) -> Tensors:
        return self.network.example()

    def memory(self, wanted: Collection[str] = ()) -> Tensors:
        return self.network.memory(wanted)


def results(action: Tensor, wanted: Collection[str], more: Tensors) -> Tensors:
    """The action, also under the names of what it is made of, and whatever else there is."""
    return {**dict.fromkeys(("action", *wanted), action), **more}


class Actor(nn.Module):
    """A network with the outputs that the user wants: `forward(**ports)`."""

    recorded_in = "roadworthy.checkpoints.actor"

    def __init__(self, network: Network, wanted: Sequence[str]) -> None:
        super().__init__()
        self.network, self.wanted = network, tuple(wanted)
        self.eval().requires_grad_(False)

    def forward(self, **ports: Tensor) -> Tensors:
        return self.network.step(ports, self.wanted)


class FrameStack(Around):
    """A network that sees the last observations at once; they are kept as the memory `frames`.

    Along `axis`, newest last; zeros before the first, as VecFrameStack has it. With `repeat_first`
    the first observation of an episode fills the stack, as Gymnasium's wrapper has it.
    """

    def __init__(self, network: Network, port: str, axis: int, *, repeat_first: bool) -> None:
        super().__init__(network)
        self.port, self.axis = port, axis
        self.repeat_first = repeat_first

    def step(self, ports: Tensors, wanted: Collection[str]) -> Tensors:
        ports = dict(ports)
        newest, frames = ports[self.port], ports.pop(FRAMES)
        size = newest.shape[self.axis]
        count = frames.shape[self.axis] // size
        if self.repeat_first:
            started = ports.pop("started").reshape(-1, *(1,) * (newest.ndim - 1))
            first = torch.cat([newest] * count, dim=self.axis)
            frames = torch.where(started, frames, first)
        kept = frames.narrow(self.axis, size, size * (count - 1))
        stacked = torch.cat([kept, newest], dim=self.axis)
        ports[self.port] = stacked
        after = {**self.network.step(ports, wanted), FRAMES: stacked}
        if self.repeat_first:
            after["started"] = torch.ones_like(newest[:, :1].flatten(1)[:, 0], dtype=torch.bool)
        return after


def source_of(
    network: Network,
    wanted: Sequence[str],
    action: Sequence[ActionStep] = (),
    normalizer: Normalizer | Mapping[str, Normalizer] | None = None,
) -> Source:
    """The network as a source with the wanted outputs, between a normaliser and action steps."""
    return Source(
        Actor(network, wanted),
        example=network.example(),
        memory=network.memory(wanted),
        normalizer=normalizer,
        action=tuple(action),
    )


def stacked(
    source: Source,
    count: int | None,
    *,
    axis: int = -1,
    repeat_first: bool = False,
    port: str = "obs",
) -> Source:
    """The source whose port takes one observation, where its network sees `count` of them.

    `axis` is the one along which they lie, counted as in the stack without the batch: 0 or -1.
    Where nothing is said of a stack the source stays as it is.
    """
    if count is None:
        return source
    actor = source.module
    assert isinstance(actor, Actor)
    example = source.example[port]
    where = axis if axis < 0 else axis + 1
    if example.shape[where] % count:
        raise UsageError(
            f"{example.shape[where]} elements cannot be {count} observations", where="frame_stack",
            hint=f"the observation of the policy has the shape {tuple(example.shape[1:])}",
        )  # fmt: skip
    size = example.shape[where] // count
    memory = {FRAMES: torch.zeros_like(example[:1])}
    if repeat_first:
        memory["started"] = torch.zeros(1, dtype=torch.bool)
    network = FrameStack(actor.network, port, where, repeat_first=repeat_first)
    return replace(
        source,
        module=Actor(network, actor.wanted),
        example={**source.example, port: example.narrow(where, 0, size).contiguous()},
        memory={**source.memory, **memory},
    )
