"""From observations to features, as Stable-Baselines3 does it before the first layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from roadworthy.frameworks import spaces
from roadworthy.frameworks.network.actor import Tensors
from roadworthy.frameworks.network.layers import Weights, convolutions, sequence, under, unexplained
from roadworthy.frameworks.questions import ask_choice
from roadworthy.frameworks.reading import ENV, Answers
from roadworthy.spec.port import About

Layout = Literal["channels_first", "channels_last"]
_LAYOUTS: Mapping[str, Layout] = {
    "channels_last": "channels_last", "channels_first": "channels_first",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Observed:
    """One port: the space that the policy was trained on, and how its values arrive.

    layout    of an image; the policy itself has the channels first
    divided   whether pixels are divided by 255
    floating  whether the port takes floats although the space holds whole numbers
    """

    space: spaces.Leaf
    layout: Layout = "channels_first"
    divided: bool = False
    floating: bool = False

    @property
    def example(self) -> Tensor:
        """A value for the port: zeros, batch axis first."""
        shape = self.space.shape
        if self.layout == "channels_last":
            shape = (*shape[1:], shape[0])
        return torch.zeros(1, *shape, dtype=self.dtype)

    @property
    def dtype(self) -> torch.dtype:
        """Floats are float32, whatever the space says: the policy computes in it."""
        dtype: torch.dtype = getattr(torch, self.space.dtype, torch.float32)
        return torch.float32 if dtype.is_floating_point or self.floating else dtype

    def about(self) -> About:
        """Limits of the port, where the space has choices."""
        return About() if isinstance(self.space, spaces.Box) else spaces.about_of(self.space)


def observed(
    space: spaces.Space,
    answers: Answers,
    *,
    normalize_images: bool,
    normalized: Mapping[str, object],
) -> dict[str, Observed]:
    """Port → how its values arrive. Asks for the layout of images, which the file does not say."""
    leaves = space.spaces if isinstance(space, spaces.Dict) else {spaces.OBS: space}
    env = answers.env_observation
    others = env.spaces if isinstance(env, spaces.Dict) else {spaces.OBS: env}
    found = {}
    for port, leaf in leaves.items():
        layout: Layout = "channels_first"
        if isinstance(leaf, spaces.Box) and leaf.is_image:
            layout = _layout(port, leaf, others.get(port), answers)
        found[port] = Observed(
            space=leaf,
            layout=layout,
            divided=normalize_images and isinstance(leaf, spaces.Box) and leaf.is_image,
            floating=port in normalized,
        )
    return found


def _layout(port: str, image: spaces.Box, env: spaces.Leaf | None, answers: Answers) -> Layout:
    channels, height, width = image.shape
    told = None
    if env is not None and env.shape != image.shape and env.shape[:2] == (height, width):
        told = "channels_last"  # frames may be stacked: the number of channels is not compared
    elif env is not None and env.shape[1:] == (height, width):
        told = "channels_first"

    name = "image" if port == spaces.OBS else f"image_{port}"
    return (
        ask_choice(
            answers,
            name,
            f"whether the environment gives ({height}, {width}, {channels}) or {image.shape}; "
            "Stable-Baselines3 turns the first into the second, and saves that",
            _LAYOUTS,
            [(told, ENV)],
            ("--env ID",),
        )
        or "channels_first"
    )


class Preprocess(nn.Module):
    """One observation as floats: images divided and turned, choices one-hot."""

    def __init__(self, own: Observed) -> None:
        super().__init__()
        self.own = own

    def forward(self, value: Tensor) -> Tensor:
        space = self.own.space
        if isinstance(space, spaces.Discrete):
            return functional.one_hot(value.long(), space.n).float()
        if isinstance(space, spaces.MultiDiscrete):
            columns = value.long().unbind(dim=1)
            hot = [functional.one_hot(c, n) for c, n in zip(columns, space.nvec, strict=True)]
            return torch.cat(hot, dim=-1).float()
        if self.own.layout == "channels_last":
            value = value.permute(0, 3, 1, 2)
        return value.float() / 255.0 if self.own.divided else value.float()


class NatureCnn(nn.Module):
    """Three convolutions and a linear layer, each with a ReLU."""

    def __init__(self, weights: Weights, where: str) -> None:
        super().__init__()
        for place in ("0", "2", "4"):
            kernel = weights.get(f"cnn.{place}.weight")
            if kernel is None or kernel.ndim != 4:
                raise unexplained(where, f"no convolution at cnn.{place}")
        own = {n: w for n, w in under(weights, "cnn").items() if n.startswith(("0.", "2.", "4."))}
        layers = convolutions(own, ((4, 0), (2, 0), (1, 0)), "relu", f"{where}.cnn")
        linear = under(weights, "linear")
        last = sequence(linear, "relu", active_end=True, where=f"{where}.linear")
        self.layers = nn.Sequential(*layers, last)

    def forward(self, image: Tensor) -> Tensor:
        features: Tensor = self.layers(image)
        return features


class Extractor(nn.Module):
    """Features of all observations, one behind the other: CNN for images, the rest as it is."""

    def __init__(self, ports: Mapping[str, Observed], weights: Weights, where: str) -> None:
        super().__init__()
        self.ports = tuple(ports)
        self.prepare = nn.ModuleList([Preprocess(each) for each in ports.values()])
        self.extract = nn.ModuleList(
            [
                _extractor(port, weights, len(ports) > 1 or port != spaces.OBS, where)
                for port in ports
            ]
        )

    def forward(self, values: Tensors) -> Tensor:
        parts = [
            extract(prepare(values[port]))
            for port, prepare, extract in zip(self.ports, self.prepare, self.extract, strict=True)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def _extractor(port: str, weights: Weights, in_dict: bool, where: str) -> nn.Module:
    own = under(weights, f"extractors.{port}") if in_dict else weights
    return NatureCnn(own, where) if own else nn.Flatten()
