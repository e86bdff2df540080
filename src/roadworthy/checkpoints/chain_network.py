"""A chain of layers as a network, with what their weights do not say about images."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import nn

from roadworthy.checkpoints.actor import Network, Tensors
from roadworthy.checkpoints.chain import Chain, Layer
from roadworthy.checkpoints.layers import ACTIVATIONS, layer, loaded, recurrent
from roadworthy.checkpoints.memory import start, stepped
from roadworthy.checkpoints.questions import Found, numbers, whole_numbers
from roadworthy.checkpoints.reading import ENV, Answers
from roadworthy.checkpoints.spaces import Box


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """How images reach the first convolution; strides and padding, which have no weights."""

    shape: tuple[int, ...]
    divisor: float
    strides: tuple[int, ...]
    padding: tuple[int, ...]


def ask_images(
    answers: Answers,
    chain: Chain,
    *,
    shape: Found = (),
    divisor: Found = (),
    strides: Found = (),
    padding: Found = (),
) -> Images | None:
    """What the weights of convolutions do not say; the keywords are what others say of it."""
    count = len(chain.of("conv"))
    env = answers.env.observation if answers.env else None
    told = ",".join(map(str, env.shape)) if isinstance(env, Box) else None

    def each(text: str) -> tuple[int, ...]:
        found = whole_numbers(text)
        if len(found) not in (1, count):
            raise ValueError(text)
        return found * count if len(found) == 1 else found

    def shape_of(text: str) -> tuple[int, ...]:
        found = whole_numbers(text)
        if len(found) != 3:
            raise ValueError(text)
        return found

    size = answers.ask(
        "image", "the shape of the image: channels first, as the first convolution takes it",
        read=shape_of, found=[(told, ENV), *shape], such_as="4,84,84", others=("--env ID",),
    )  # fmt: skip
    divided = answers.ask(
        "divisor", "what the pixels are divided by before the network",
        read=lambda text: numbers(text)[0], found=divisor, such_as="255",
    )  # fmt: skip
    steps = answers.ask(
        "strides", "the stride of each convolution", read=each, found=strides, such_as="4,2,1"
    )
    edge = answers.ask(
        "padding", "the padding of each convolution", read=each, found=padding, such_as="0"
    )
    if size is None or divided is None or steps is None or edge is None:
        return None
    return Images(shape=size, divisor=divided, strides=steps, padding=edge)


class ChainNetwork(Network):
    """The layers of a chain, one behind the other."""

    def __init__(self, chain: Chain, activation: str, images: Images | None, where: str) -> None:
        super().__init__()
        self.images = images
        self.layers = nn.ModuleList()
        convolutions = 0
        for before, own in zip((None, *chain.layers), chain.layers, strict=False):
            self._between(chain, before, own, activation)
            if own.kind == "conv":
                assert images is not None
                stride, padding = images.strides[convolutions], images.padding[convolutions]
                convolutions += 1
                self.layers.append(_convolution(own, stride, padding, where))
            elif own.kind in ("lstm", "gru"):
                self.layers.append(recurrent(own.weights, f"{where}: {own.path}"))
            else:
                self.layers.append(layer(own.weights, f"{where}: {own.path}"))
        self.inputs = chain.layers[0].inputs

    def _between(self, chain: Chain, before: Layer | None, own: Layer, activation: str) -> None:
        if before is None:
            return
        if chain.gap(before, own) and before.kind not in ("lstm", "gru"):
            self.layers.append(ACTIVATIONS[activation]())
        if before.kind == "conv" and own.kind != "conv":
            self.layers.append(nn.Flatten())

    def example(self) -> Tensors:
        """A value for each input."""
        if self.images is None:
            return {"obs": torch.zeros(1, self.inputs)}
        pixels = torch.uint8 if self.images.divisor == 255 else torch.float32
        return {"obs": torch.zeros(1, *self.images.shape, dtype=pixels)}

    def memory(self) -> Tensors:
        """Where the recurrent layers start."""
        found: Tensors = {}
        for place, each in enumerate(self._recurrent()):
            found |= start(each, place)
        return found

    def _recurrent(self) -> list[nn.LSTM | nn.GRU]:
        return [each for each in self.layers if isinstance(each, (nn.LSTM, nn.GRU))]

    def step(self, ports: Tensors, wanted: Collection[str]) -> Tensors:
        after: Tensors = {}
        value = ports["obs"].float()
        if self.images is not None:
            value = value / self.images.divisor
        place = 0
        for each in self.layers:
            if isinstance(each, (nn.LSTM, nn.GRU)):
                value, state = stepped(each, value, ports, place)
                after |= state
                place += 1
            else:
                value = each(value)
        return {"action": value, **{n: value for n in wanted if n != "action"}, **after}


def _convolution(own: Layer, stride: int, padding: int, where: str) -> nn.Module:
    out, channels, height, width = own.weights["weight"].shape
    made = nn.Conv2d(channels, out, (height, width), stride, padding, bias="bias" in own.weights)
    return loaded(made, own.weights, f"{where}: {own.path}")
