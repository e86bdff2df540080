"""The encoders of Sample-Factory: one for each observation, an MLP or convolutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat

from torch import Tensor, nn

from roadworthy.frameworks.files.opening import Contents
from roadworthy.frameworks.network.images import (
    ImageInput,
    Images,
    ask_images,
)
from roadworthy.frameworks.network.layers import (
    ACTIVATIONS,
    convolutions,
    kernels_of,
    layer,
    places,
    sequence,
    under,
)
from roadworthy.frameworks.reading import DEFAULT, FILE, Answers
from roadworthy.spec.transforms import Normalizer

SETTINGS = "config.json"
_ARCHITECTURE = "encoder_conv_architecture"
# The strides of each architecture; their convolutions are not padded.
_STRIDES = {"convnet_simple": "4,2,2", "convnet_impala": "4,2", "convnet_atari": "4,2,1"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Encoding:
    """What encodes one observation: its weights, and what they do not say.

    head    an MLP, for vectors; `convs` and `tail`, for images, are empty then
    images  None for vectors, and while something is open
    """

    name: str
    head: Mapping[str, Tensor]
    convs: Mapping[str, Tensor]
    tail: Mapping[str, Tensor]
    images: Images | None = None

    @property
    def residual(self) -> bool:
        """Whether it is the network of IMPALA, whose blocks add what they are given."""
        return any("res_block_core" in name for name in self.convs)

    @property
    def text(self) -> str:
        if self.head:
            return f"MLP {_sizes(self.head)}"
        kind = "residual conv" if self.residual else "conv"
        parts = [f"{kind} {' → '.join(str(each.shape[0]) for each in kernels_of(self.convs))}"]
        return ", ".join([*parts, *([f"MLP {_sizes(self.tail)}"] if self.tail else [])])

    @property
    def inputs(self) -> int:
        """How many numbers a vector has."""
        return int(self.head["0.weight"].shape[1])

    def module(
        self, weights: Encoding, activation: str, statistics: Normalizer | None, where: str
    ) -> nn.Module:
        """The encoder with these weights: its own, or those of the critic's encoder beside it."""
        if self.head:
            return sequence(weights.head, activation, active_end=True, where=where)
        assert self.images is not None
        return nn.Sequential(
            ImageInput(self.images, statistics),
            _residual(weights.convs, activation, f"{where}: conv_head")
            if self.residual
            else convolutions(weights.convs, self.images.steps, activation, f"{where}: conv_head"),
            sequence(weights.tail, activation, active_end=True, where=f"{where}: mlp_layers"),
        )


def encodings(weights: Mapping[str, Tensor]) -> dict[str, Encoding]:
    """The encoders by the observations that they take, without what images need."""
    found = {}
    for name in dict.fromkeys(each.partition(".")[0] for each in weights):
        own = under(weights, name)
        own = under(own, "enc") or own  # convolutions are compiled as one
        head, convs, tail = (under(own, part) for part in ("mlp_head", "conv_head", "mlp_layers"))
        found[name] = Encoding(name=name, head=head, convs=convs, tail=tail)
    return found


def ask_encoder_images(
    contents: Contents,
    answers: Answers,
    encoder: Encoding,
    mean: Tensor | None,
    *,
    shift: float | None,
    scale: float | None,
    alone: bool,
) -> Images | None:
    """What the encoder of an image leaves open; None while some of it is."""
    kernels = kernels_of(encoder.convs)
    architecture, where = contents.neighbours.lookup(SETTINGS, _ARCHITECTURE)
    strides = "1" if encoder.residual else _STRIDES.get(str(architecture))
    first = encoder.name == "obs"  # of all observations only this one is shifted and divided
    return ask_images(
        answers,
        kernels,
        shape=[(None if mean is None else ",".join(map(str, mean.shape)), FILE)],
        divisor=[(scale if first and scale is not None else 1.0, "obs_scale")],
        shift=(shift or 0.0) if first else 0.0,
        strides=[(strides, where)],
        padding=[("1" if encoder.residual else "0", DEFAULT)],
        channels=[("first", DEFAULT)],
        name="image" if alone else f"{encoder.name}_image",
        port=encoder.name,
    )


class _Block(nn.Module):
    def __init__(self, core: nn.Module) -> None:
        super().__init__()
        self.core = core

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = self.core(x) + x
        return added


def _residual(weights: Mapping[str, Tensor], activation: str, where: str) -> nn.Sequential:
    """Convolutions that are pooled, each followed by blocks that add what they are given."""
    build = partial(layer, steps=repeat((1, 1)))
    layers: list[nn.Module] = []
    for place in places(weights):
        own, at = under(weights, str(place)), f"{where}.{place}"
        core = under(own, "res_block_core")
        if core:
            layers.append(_Block(sequence(core, activation, where=at, build=build)))
        else:
            layers += [build(own, at), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*layers, ACTIVATIONS[activation](), nn.Flatten())


def _sizes(weights: Mapping[str, Tensor]) -> str:
    found: Sequence[int] = [int(w.shape[0]) for n, w in weights.items() if n.endswith("weight")]
    return " → ".join(map(str, found))
