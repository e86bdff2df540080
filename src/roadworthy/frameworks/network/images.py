"""Images on their way to a first convolution, and the convolutions themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from roadworthy.frameworks import spaces
from roadworthy.frameworks.network.layers import Stride, unexplained
from roadworthy.frameworks.questions import Found, ask_choice, numbers, per_layer, whole_numbers
from roadworthy.frameworks.reading import ENV, Answers
from roadworthy.spec.transforms import EpsInsideRoot, Normalizer

SHAPES = "the shapes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """How images reach the first convolution; strides and padding, which have no weights.

    shape          as the environment gives them
    channels_last  whether their last axis is the colours; convolutions have these first
    divisor        what pixels are divided by; `shift` is taken off before
    pixels         whether the port takes bytes
    """

    shape: tuple[int, ...]
    divisor: float
    strides: tuple[int, ...]
    padding: tuple[int, ...]
    channels_last: bool = False
    shift: float = 0.0
    pixels: bool = False

    @property
    def stack_axis(self) -> int:
        """The axis along which images of several moments lie."""
        return -1 if self.channels_last else 0

    @property
    def steps(self) -> list[Stride]:
        """Stride and padding of each convolution."""
        return list(zip(self.strides, self.padding, strict=True))

    def example(self) -> Tensor:
        """One image."""
        return torch.zeros(1, *self.shape, dtype=torch.uint8 if self.pixels else torch.float32)


def of_each(convs: Sequence[Any], name: str, default: object = None) -> str | None:
    """What settings say of each convolution, between commas; None where they name none."""
    said = [str(conv.get(name, default)) for conv in convs if isinstance(conv, Mapping)]
    return ",".join(said) or None


def ask_images(
    answers: Answers,
    kernels: Sequence[Tensor],
    *,
    shape: Found = (),
    usual_shape: Found = (),
    divisor: Found = (),
    strides: Found = (),
    padding: Found = (),
    channels: Found = (),
    shift: float = 0.0,
    name: str = "image",
    port: str = "obs",
) -> Images | None:
    """What the weights of convolutions do not say; the keywords are what others say of it."""
    env = answers.env_observation
    own = env.spaces.get(port) if isinstance(env, spaces.Dict) else env
    box = own if isinstance(own, spaces.Box) else None
    told = ",".join(map(str, box.shape)) if box else None

    def each(text: str) -> tuple[int, ...]:
        return per_layer(text, len(kernels))

    def shape_of(text: str) -> tuple[int, ...]:
        found = whole_numbers(text)
        if len(found) != 3:
            raise ValueError(text)
        return found

    size = answers.ask(
        name, "the shape of the image as the environment gives it",
        read=shape_of, found=[*shape, (told, ENV), *usual_shape], such_as="4,84,84",
        others=("--env ID",),
    )  # fmt: skip
    divided = answers.ask(
        "divisor", "what the pixels are divided by before the network; 1 if by nothing",
        read=lambda text: numbers(text)[0], found=divisor, such_as="255",
    )  # fmt: skip
    steps = answers.ask(
        "strides", "the stride of each convolution", read=each, found=strides, such_as="4,2,1"
    )
    edge = answers.ask(
        "padding", "the padding of each convolution", read=each, found=padding, such_as="0"
    )
    last = (
        None if size is None else _channels_last(answers, size, int(kernels[0].shape[1]), channels)
    )
    if size is None or divided is None or steps is None or edge is None or last is None:
        return None
    return Images(
        shape=size, divisor=divided, strides=steps, padding=edge, channels_last=last, shift=shift,
        pixels=divided == 255 or (box is not None and box.dtype == "uint8"),
    )  # fmt: skip


def _channels_last(
    answers: Answers, shape: tuple[int, ...], taken: int, found: Found
) -> bool | None:
    """Whether the colours are the last axis; shapes say it unless both ends would do."""
    first, last = shape[0] == taken, shape[-1] == taken
    if first != last:
        if last:
            answers.note("channels", "last; they are moved to the front", SHAPES)
        return last
    if not first:
        raise unexplained(
            f"image={','.join(map(str, shape))}",
            f"the first convolution takes {taken} channels, which neither end of the shape has",
        )
    return ask_choice(
        answers, "channels", "which axis of the image the colours are; the shape allows both",
        {"first": False, "last": True}, found,
    )  # fmt: skip


class Standardised(nn.Module):
    """`clip((x - mean) / divisor, ±clip)`, for statistics that act inside of a network."""

    mean: Tensor
    divisor: Tensor

    def __init__(self, statistics: Normalizer, shape: tuple[int, ...] | None = None) -> None:
        super().__init__()
        if isinstance(statistics, EpsInsideRoot):
            divisor = (torch.as_tensor(statistics.var).double() + statistics.eps).sqrt()
        else:
            divisor = torch.as_tensor(statistics.std).double() + statistics.eps
        mean = torch.as_tensor(statistics.mean).double()
        self.register_buffer("mean", (mean.reshape(shape) if shape else mean).float())
        self.register_buffer("divisor", (divisor.reshape(shape) if shape else divisor).float())
        self.clip = statistics.clip

    def forward(self, x: Tensor) -> Tensor:
        scaled = (x - self.mean) / self.divisor
        return scaled if self.clip is None else scaled.clamp(-self.clip, self.clip)


class ImageInput(nn.Module):
    """From an image as the environment gives it to what the first convolution takes.

    statistics_first  whether they are of pixels as they are, before anything is divided
    """

    def __init__(
        self,
        images: Images,
        statistics: Normalizer | None = None,
        *,
        statistics_first: bool = False,
    ) -> None:
        super().__init__()
        self.images, self.first = images, statistics_first
        self.normalized = Standardised(statistics, images.shape) if statistics else nn.Identity()

    def forward(self, image: Tensor) -> Tensor:
        value = image.float()
        if self.first:
            value = self.normalized(value)
        if self.images.shift:
            value = value - self.images.shift
        if self.images.divisor != 1:
            value = value / self.images.divisor
        if not self.first:
            value = self.normalized(value)
        return value.permute(0, 3, 1, 2) if self.images.channels_last else value
