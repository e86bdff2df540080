"""The CNNs of rsl_rl, whose strides, padding and pooling are in no file but agent.yaml."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from roadworthy.frameworks.network.layers import ACTIVATIONS, activation_name, loaded
from roadworthy.frameworks.reading import Answers

_PADDED = ("zeros", "reflect", "replicate", "circular")
_POOLS = {"max": nn.AdaptiveMaxPool2d, "avg": nn.AdaptiveAvgPool2d}


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What one CNN takes, and how it is built; a number for every convolution."""

    shape: tuple[int, int, int]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    max_pool: tuple[bool, ...]
    padding: str
    activation: str
    global_pool: str

    def settings(self, weights: Mapping[str, Tensor]) -> dict[str, Any]:
        """The same in the words of rsl_rl's `cnn_cfg`."""
        kernels = _convolutions(weights)
        return {
            "output_channels": [each.shape[0] for each in kernels],
            "kernel_size": [each.shape[-1] for each in kernels],
            "stride": list(self.stride), "dilation": list(self.dilation),
            "max_pool": list(self.max_pool), "padding": self.padding,
            "activation": self.activation, "global_pool": self.global_pool,
        }  # fmt: skip


def ask_images(
    answers: Answers, cnns: Mapping[str, Mapping[str, Tensor]], settings: Mapping[str, Any]
) -> dict[str, Image] | None:
    """The image of every group, or None while something is open."""
    found: dict[str, Image | None] = {}
    for group, weights in cnns.items():
        own = settings.get(group, settings) if settings else {}
        found[group] = _ask_image(answers, group, _convolutions(weights), own)
    if any(image is None for image in found.values()):
        return None
    return {group: image for group, image in found.items() if image is not None}


def _ask_image(
    answers: Answers, group: str, kernels: Sequence[Tensor], settings: Mapping[str, Any]
) -> Image | None:
    def size(text: str) -> tuple[int, int]:
        height, width = text.lower().split("x")
        return int(height), int(width)

    def words(text: str) -> dict[str, str]:
        pairs = [each.partition("=") for each in text.split()]
        if not all(value for _, _, value in pairs):
            raise ValueError(text)
        return {name: value for name, _, value in pairs}

    sides = answers.ask(
        f"{group}_size", f"height and width of the images of the group {group}", read=size,
        such_as="64x64",
    )  # fmt: skip
    told = " ".join(f"{name}={_joined(value)}" for name, value in settings.items()) or None
    said = answers.ask(
        f"{group}_cnn",
        f"how the {len(kernels)} convolutions of the group {group} step; weights do not say it",
        read=words,
        found=[(told, "params/agent.yaml (cnn_cfg)")],
        such_as="'stride=2,1 padding=none activation=elu'",
        others=("cnn_cfg in params/agent.yaml",),
    )
    if sides is None or said is None:
        return None
    count = len(kernels)
    return Image(
        shape=(kernels[0].shape[1], *sides),
        stride=_each(said.get("stride", "1"), count),
        dilation=_each(said.get("dilation", "1"), count),
        max_pool=tuple(
            word == "True" for word in _words(said.get("max_pool", "False"), count)
        ),
        padding=said.get("padding", "none"),
        activation=activation_name(said.get("activation", "elu")),
        global_pool=said.get("global_pool", "none"),
    )  # fmt: skip


def encoder(weights: Mapping[str, Tensor], image: Image, where: str) -> nn.Module:
    """The CNN with its weights: convolutions, norms where there are some, pooling."""
    layers: list[nn.Module] = []
    sides: tuple[int, ...] = image.shape[1:]
    for index, kernel in enumerate(_convolutions(weights)):
        reach = image.dilation[index] * (kernel.shape[-1] - 1)
        stride = image.stride[index]
        padded = image.padding in _PADDED
        height, width = (_padding(side, stride, reach) if padded else 0 for side in sides)
        mode: Any = image.padding if padded else "zeros"
        out, channels, tall, wide = kernel.shape
        layers.append(
            nn.Conv2d(
                channels, out, (tall, wide), stride, (height, width), image.dilation[index],
                padding_mode=mode,
            )
        )  # fmt: skip
        sides = tuple(
            (side + 2 * pad - reach - 1) // stride + 1
            for side, pad in zip(sides, (height, width), strict=True)
        )
        norm = _norm(weights, len(layers))
        if norm is not None:
            layers.append(norm)
        layers.append(ACTIVATIONS[image.activation]())
        if image.max_pool[index]:
            layers.append(nn.MaxPool2d(3, 2, 1))
            sides = tuple(math.ceil(side / 2) for side in sides)
    if image.global_pool in _POOLS:
        layers.append(_POOLS[image.global_pool](1))
    layers.append(nn.Flatten(1))
    return loaded(nn.Sequential(*layers), weights, where)


def _padding(side: int, stride: int, reach: int) -> int:
    """As many as it takes for side / stride outputs, rounded down."""
    return math.ceil((stride * (side // stride) - side - stride + reach + 1) / 2)


def _norm(weights: Mapping[str, Tensor], place: int) -> nn.Module | None:
    weight = weights.get(f"{place}.weight")
    if weight is None or weight.ndim == 4:
        return None
    return nn.BatchNorm2d(weight.shape[0]) if weight.ndim == 1 else nn.LayerNorm(weight.shape)


def _convolutions(weights: Mapping[str, Tensor]) -> list[Tensor]:
    found = {int(n.partition(".")[0]): w for n, w in weights.items() if w.ndim == 4}
    return [found[place] for place in sorted(found)]


def _joined(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _words(text: str, count: int) -> list[str]:
    words = text.split(",")
    return words * count if len(words) == 1 else words


def _each(text: str, count: int) -> tuple[int, ...]:
    return tuple(int(word) for word in _words(text, count))
