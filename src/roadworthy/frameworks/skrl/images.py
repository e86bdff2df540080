"""Convolutions of skrl's model instantiator: what agent.yaml says of them, and what is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from roadworthy.frameworks.network.chain import Chain
from roadworthy.frameworks.network.images import Images, ask_images
from roadworthy.frameworks.reading import Answers
from roadworthy.frameworks.skrl.expressions import Input, input_of

SETTINGS = "params/agent.yaml"
_WHERE = f"{SETTINGS} (models.policy.network)"
# The order in which a list names them; dictionaries may spell them in two ways.
_ORDER = ("out_channels", "kernel_size", "stride", "padding")
_SPELT = {"strides": "stride", "features": "out_channels"}


def ask_chain_images(answers: Answers, chain: Chain, settings: Mapping[str, Any]) -> Images | None:
    """What the weights of convolutions do not say; None while some of it is open."""
    network = settings.get("network")
    parts = [each for each in network or () if isinstance(each, Mapping)]
    convs = [conv for part in parts for conv in _convolutions(part)]
    seen = _input(parts)
    return ask_images(
        answers,
        chain.kernels,
        divisor=[(seen.divisor if seen else None, _WHERE)],
        shift=seen.shift if seen else 0.0,
        strides=[(_each(convs, "stride", 1), _WHERE)],
        padding=[(_each(convs, "padding", 0), _WHERE)],
        channels=[(seen.channels if seen else None, _WHERE)],
    )


def _convolutions(part: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for layer in part.get("layers") or ():
        own = layer.get("conv2d") if isinstance(layer, Mapping) else None
        if isinstance(own, Mapping):
            found.append({_SPELT.get(str(name), str(name)): value for name, value in own.items()})
        elif isinstance(own, (list, tuple)):
            found.append(dict(zip(_ORDER, own, strict=False)))
    return found


def _input(parts: Sequence[Mapping[str, Any]]) -> Input | None:
    """What the first network does to its observations; None where that cannot be read."""
    try:
        return input_of(str(parts[0].get("input"))) if parts else None
    except ValueError:
        return None


def _each(convs: Sequence[Mapping[str, Any]], name: str, default: int) -> str | None:
    return ",".join(str(each.get(name, default)) for each in convs) or None
