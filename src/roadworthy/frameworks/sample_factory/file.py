"""Sample-Factory: `checkpoint_p0/*.pth`, with config.json beside or above it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from roadworthy.capture.source import Source
from roadworthy.frameworks import spaces
from roadworthy.frameworks.files.opening import Contents, refuse_bad_weights
from roadworthy.frameworks.network.actor import source_of
from roadworthy.frameworks.network.layers import under
from roadworthy.frameworks.network.statistics import VALUE, normalizer_of
from roadworthy.frameworks.questions import ask_activation, whole_numbers
from roadworthy.frameworks.reading import ENV, Answers, Reading
from roadworthy.frameworks.sample_factory.encoders import (
    SETTINGS,
    Encoding,
    ask_encoder_images,
    encodings,
)
from roadworthy.frameworks.sample_factory.network import HEAD, Policy
from roadworthy.spec.transforms import ActionStep, Argmax, EpsInsideRoot, MultiDiscrete, Normalizer

_STATISTICS = "obs_normalizer.running_mean_std.running_mean_std"
_ENCODER = re.compile(r"\.(mlp_head|conv_head|mlp_layers)\.")
_UNUSED = ("critic_", "returns_normalizer.", "obs_normalizer.", "action_parameterization.")


def recognise(contents: Contents) -> str | None:
    """Why the file looks like one of Sample-Factory: the names in its model."""
    inside = contents.tensors("model")
    acts = "action_parameterization.distribution_linear.weight" in inside
    return "it holds action_parameterization in model" if acts else None


def read(contents: Contents, answers: Answers) -> Reading:
    """What the file says, and what config.json says beside it."""
    weights = contents.tensors("model")
    refuse_bad_weights(weights, contents.where)
    side = "actor_" if any(name.startswith("actor_encoder.") for name in weights) else ""
    found = encodings(under(weights, f"{side}encoder.encoders"))
    said = contents.neighbours.lookup
    activation = ask_activation(
        answers, [said(SETTINGS, "nonlinearity")], (f"nonlinearity in {SETTINGS}",)
    )
    shift = _ask_number(contents, answers, "obs_subtract_mean", "what is subtracted from obs")
    scale = _ask_number(contents, answers, "obs_scale", "what obs is divided by")
    tanh = _ask_number(contents, answers, "continuous_tanh_scale", "the range of a tanh behind the "
                       "means of continuous actions; 0 for none")  # fmt: skip
    outputs = int(weights[f"{HEAD}.weight"].shape[0])
    fixed = "action_parameterization.learned_stddev" in weights
    space = ("continuous",) if fixed else _ask_space(answers, outputs)
    normalizers = _normalizers(weights, list(found), answers)
    encoders = _with_images(contents, answers, found, normalizers, shift, scale)

    def build(wanted: Sequence[str]) -> Source:
        assert activation is not None
        assert shift is not None
        assert scale is not None
        assert tanh is not None
        assert space is not None
        network = Policy(
            weights, encoders, side, activation, contents.where, statistics=normalizers,
            valued=VALUE in wanted,
        )  # fmt: skip
        if space == ("continuous",):
            network.kept, network.squash = outputs if fixed else outputs // 2, tanh if fixed else 0
        # Statistics of images act behind the division, inside of the network.
        outside = {name: each for name, each in normalizers.items() if not encoders[name].convs}
        vector = "obs" in encoders and not encoders["obs"].convs
        normalizer = _shifted(outside, shift, scale) if vector else outside
        return source_of(network, wanted, _steps(space), normalizer or None)

    raw = ("action_raw", "mean") if space == ("continuous",) else ("logits",)
    return Reading(
        version="2",
        algorithm="APPO",
        architecture=_text(found.values(), under(weights, f"{side}decoder.mlp"), outputs,
                           activation),
        normalizers=normalizers,
        action=answers.env_action,
        unexplained=tuple(
            name for name in weights
            if not name.startswith((*_UNUSED, f"{side}core.core.", f"{side}decoder.mlp."))
            and not (name.startswith(f"{side}encoder.encoders.") and _ENCODER.search(name))
        ),
        outputs=("action", *raw, VALUE),
        build=build,
    )  # fmt: skip


def _with_images(
    contents: Contents,
    answers: Answers,
    encoders: Mapping[str, Encoding],
    normalizers: Mapping[str, Normalizer],
    shift: float | None,
    scale: float | None,
) -> dict[str, Encoding]:
    """The encoders, those of images with what their weights do not say."""
    alone = sum(bool(each.convs) for each in encoders.values()) == 1
    known = {}
    for name, each in encoders.items():
        images = None
        if each.convs:
            own = normalizers.get(name)
            mean = torch.as_tensor(own.mean) if own else None
            images = ask_encoder_images(
                contents, answers, each, mean, shift=shift, scale=scale, alone=alone
            )
        known[name] = replace(each, images=images)
    return known


def _ask_number(contents: Contents, answers: Answers, name: str, what: str) -> float | None:
    return answers.ask(
        name, what, read=float, found=[contents.neighbours.lookup(SETTINGS, name)], such_as="0",
        others=(f"{name} in {SETTINGS}",),
    )  # fmt: skip


def _ask_space(answers: Answers, outputs: int) -> tuple[int | str, ...] | None:
    """("continuous",), or the number of choices of each part of the action."""
    env = answers.env_action
    told: str | None = None
    if isinstance(env, spaces.Box):
        told = "continuous"
    elif isinstance(env, spaces.Discrete):
        told = str(env.n)
    elif isinstance(env, spaces.MultiDiscrete):
        told = ",".join(map(str, env.nvec))

    def read(text: str) -> tuple[int | str, ...]:
        if text == "continuous":
            return (text,)
        sizes = whole_numbers(text)
        if sum(sizes) != outputs:
            raise ValueError(text)
        return sizes

    return answers.ask(
        "action_space",
        f"what the {outputs} numbers of the last layer are: means and deviations, or choices",
        read=read,
        found=[(told, ENV)],
        such_as=f"continuous, or {outputs}, or 3,{max(outputs - 3, 1)}",
        others=("--env ID",),
    )


def _steps(space: tuple[int | str, ...]) -> tuple[ActionStep, ...]:
    if space == ("continuous",):
        return ()
    sizes = tuple(int(size) for size in space)
    return (Argmax(),) if len(sizes) == 1 else (MultiDiscrete(sizes=sizes),)


def _normalizers(
    weights: Mapping[str, Tensor], names: Sequence[str], answers: Answers
) -> dict[str, Normalizer]:
    found: dict[str, Normalizer] = {}
    for name in names:
        own = normalizer_of(under(weights, f"{_STATISTICS}.{name}"))
        if own is not None:
            found[name] = own
    told = "(x - mean) / sqrt(var + 1e-5), clipped at 5" if found else "none"
    answers.note("normalizer", told)
    return found


def _shifted(
    statistics: Mapping[str, Normalizer], shift: float, scale: float
) -> dict[str, Normalizer]:
    """The statistics of observations of which `obs` was shifted and divided first."""
    found = dict(statistics)
    if (shift, scale) == (0.0, 1.0):
        return found
    own = found.get("obs", EpsInsideRoot(mean=0.0, var=1.0, eps=0.0))
    assert isinstance(own, EpsInsideRoot)
    mean, var = torch.as_tensor(own.mean), torch.as_tensor(own.var)
    found["obs"] = EpsInsideRoot(
        mean=mean * scale + shift, var=var * scale**2, eps=own.eps * scale**2, clip=own.clip
    )
    return found


def _text(
    encoders: Iterable[Encoding], decoder: Mapping[str, Tensor], outputs: int,
    activation: str | None,
) -> str:  # fmt: skip
    sizes = [int(w.shape[0]) for name, w in decoder.items() if name.endswith("weight")]
    rest = " → ".join(map(str, [*sizes, outputs]))
    first = ", ".join(each.text for each in encoders)
    return ", ".join([f"{first} → {rest}", *([activation] if activation else [])])
