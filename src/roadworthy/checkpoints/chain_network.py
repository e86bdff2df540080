"""A chain of layers as a network."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import nn

from roadworthy.checkpoints.actor import Network, Tensors
from roadworthy.checkpoints.chain import Chain, Layer
from roadworthy.checkpoints.layers import ACTIVATIONS, layer, recurrent
from roadworthy.checkpoints.memory import start, stepped
from roadworthy.checkpoints.pictures import ImageInput, Images, convolution
from roadworthy.spec.transforms import Normalizer


class ChainNetwork(Network):
    """The layers of a chain, one behind the other."""

    def __init__(
        self,
        chain: Chain,
        activation: str,
        images: Images | None,
        where: str,
        *,
        statistics: Normalizer | None = None,
    ) -> None:
        super().__init__()
        self.images = images
        self.seen = ImageInput(images, statistics) if images else nn.Identity()
        self.layers = nn.ModuleList()
        convolutions = 0
        for before, own in zip((None, *chain.layers), chain.layers, strict=False):
            self._between(chain, before, own, activation)
            if own.kind == "conv":
                assert images is not None
                stride, padding = images.strides[convolutions], images.padding[convolutions]
                convolutions += 1
                at = f"{where}: {own.path}"
                self.layers.append(convolution(own.weights, stride, padding, at))
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
        return {"obs": self.images.example()}

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
        value = self.seen(ports["obs"].float())
        place = 0
        for each in self.layers:
            if isinstance(each, (nn.LSTM, nn.GRU)):
                value, state = stepped(each, value, ports, place)
                after |= state
                place += 1
            else:
                value = each(value)
        return {"action": value, **{n: value for n in wanted if n != "action"}, **after}
