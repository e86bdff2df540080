"""The CNNs of rl_games: what agent.yaml, the statistics or the user say of their images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from roadworthy.frameworks import spaces
from roadworthy.frameworks.files.neighbours import AGENT
from roadworthy.frameworks.files.opening import Contents
from roadworthy.frameworks.network.images import Images, ask_images, of_each
from roadworthy.frameworks.network.layers import kernels_of, unexplained
from roadworthy.frameworks.questions import ask_activation
from roadworthy.frameworks.reading import ENV, FILE, Answers

_CNN = "params.network.cnn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cnn:
    """Convolutions, as far as they are known: None for what is still open."""

    channels: tuple[int, ...]
    activation: str | None
    images: Images | None


def ask_cnn(
    contents: Contents,
    answers: Answers,
    weights: Mapping[str, Tensor],
    statistics: Mapping[str, Tensor],
) -> Cnn | None:
    """The CNN of the actor; None where it has none."""
    kernels = kernels_of(weights)
    if not kernels:
        return None
    settings, where = contents.neighbours.lookup(AGENT, "params", "network", "cnn")
    said: Mapping[str, Any] = settings if isinstance(settings, Mapping) else {}
    _refuse_kind(said, contents.where)
    convs: Sequence[Any] = said.get("convs") or ()
    mean = statistics.get("running_mean")
    seen = None if mean is None or mean.ndim != 3 else ",".join(map(str, mean.shape))
    env = answers.env_observation
    pixels = ("255" if env.dtype == "uint8" else "1") if isinstance(env, spaces.Box) else None
    permuted = "last" if said.get("permute_input", True) else "first"
    images = ask_images(
        answers,
        kernels,
        shape=[(seen, FILE)],
        divisor=[(pixels, ENV)],
        strides=[(of_each(convs, "strides"), where)],
        padding=[(of_each(convs, "padding"), where)],
        channels=[(permuted if said else None, where)],
    )
    activation = ask_activation(
        answers, [(said.get("activation"), where)], (f"{_CNN}.activation in {AGENT}",),
        name="cnn_activation", what="the function between the convolutions",
    )  # fmt: skip
    return Cnn(
        channels=(kernels[0].shape[1], *(each.shape[0] for each in kernels)),
        activation=activation,
        images=images,
    )


def cnn_text(cnn: Cnn | None) -> str:
    """In words: "conv 4 → 32 → 64, "."""
    return f"conv {' → '.join(map(str, cnn.channels))}, " if cnn else ""


def _refuse_kind(said: Mapping[str, Any], where: str) -> None:
    kind = said.get("type", "conv2d")
    if kind not in ("conv2d", "conv2d_flatten"):
        raise unexplained(
            where, f"{AGENT} says {_CNN}.type={kind}; conv2d and conv2d_flatten are rebuilt"
        )
