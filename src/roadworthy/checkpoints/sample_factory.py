"""Sample-Factory: `checkpoint_p0/*.pth`, with config.json beside or above it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor, nn

from roadworthy.checkpoints.actor import Actor, Network, Tensors
from roadworthy.checkpoints.layers import ACTIVATIONS, layer, mlp, recurrent, under
from roadworthy.checkpoints.memory import start, stepped
from roadworthy.checkpoints.opening import Contents, refuse_bad_weights
from roadworthy.checkpoints.questions import ask_activation, whole_numbers
from roadworthy.checkpoints.reading import ENV, Answers, Reading
from roadworthy.checkpoints.spaces import Box, Discrete
from roadworthy.checkpoints.spaces import MultiDiscrete as Several
from roadworthy.source import Source
from roadworthy.spec.transforms import ActionStep, Argmax, EpsInsideRoot, MultiDiscrete, Normalizer

NAME = "Sample-Factory"
SETTINGS = "config.json"
_STATISTICS = "obs_normalizer.running_mean_std.running_mean_std"
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
    encoders = _encoders(under(weights, f"{side}encoder.encoders"))
    said = contents.neighbours.lookup
    activation = ask_activation(
        answers, [said(SETTINGS, "nonlinearity")], (f"nonlinearity in {SETTINGS}",)
    )
    shift = _ask_number(contents, answers, "obs_subtract_mean", "what is subtracted from obs")
    scale = _ask_number(contents, answers, "obs_scale", "what obs is divided by")
    tanh = _ask_number(contents, answers, "continuous_tanh_scale", "the range of a tanh behind the "
                       "means of continuous actions; 0 for none")  # fmt: skip
    head = under(weights, "action_parameterization.distribution_linear")
    outputs = int(head["weight"].shape[0])
    fixed = "action_parameterization.learned_stddev" in weights
    space = ("continuous",) if fixed else _ask_space(answers, outputs)
    normalizers = _normalizers(weights, list(encoders), answers)

    def build(wanted: Sequence[str]) -> Source:
        assert activation is not None
        assert shift is not None
        assert scale is not None
        assert tanh is not None
        assert space is not None
        network = Policy(weights, encoders, side, activation, contents.where)
        if space == ("continuous",):
            network.kept, network.squash = outputs if fixed else outputs // 2, tanh if fixed else 0
        return Source(
            Actor(network, wanted),
            example={name: torch.zeros(1, size) for name, size in network.sizes.items()},
            memory=network.memory(),
            normalizer=_shifted(normalizers, shift, scale) or None,
            action=_steps(space),
        )

    return Reading(
        framework=NAME,
        version="2",
        algorithm="APPO",
        architecture=_text(encoders, under(weights, f"{side}decoder.mlp"), outputs, activation),
        normalizers=normalizers,
        action=answers.env.action if answers.env else None,
        facts=tuple(answers.facts),
        questions=tuple(answers.questions),
        unexplained=tuple(
            name for name in weights
            if not name.startswith((*_UNUSED, f"{side}core.core.", f"{side}decoder.mlp."))
            and not (name.startswith(f"{side}encoder.encoders.") and ".mlp_head." in name)
        ),
        outputs=("action", "action_raw" if space == ("continuous",) else "logits"),
        build=build,
    )  # fmt: skip


class Policy(Network):
    """An encoder for each observation, an optional recurrent core, a decoder, and one layer."""

    def __init__(
        self,
        weights: Mapping[str, Tensor],
        encoders: Mapping[str, Mapping[str, Tensor]],
        side: str,
        activation: str,
        where: str,
    ) -> None:
        super().__init__()
        self.names = tuple(sorted(encoders))  # the order in which they stand side by side
        self.encoders = nn.ModuleList(
            mlp(encoders[name], activation, active_end=True, where=where) for name in self.names
        )
        self.sizes = {name: int(encoders[name]["0.weight"].shape[1]) for name in self.names}
        core = under(weights, f"{side}core.core")
        self.cell = recurrent(core, where) if core else None
        decoder = under(weights, f"{side}decoder.mlp")
        self.decoder = mlp(decoder, activation, active_end=True, where=where)
        head = under(weights, "action_parameterization.distribution_linear")
        self.head = layer(head, where)
        # Of continuous actions the means alone, squashed if that is more than 0.
        self.kept, self.squash = (
            len(weights["action_parameterization.distribution_linear.bias"]),
            0.0,
        )

    def memory(self) -> Tensors:
        return start(self.cell) if self.cell is not None else {}

    def step(self, ports: Tensors, wanted: Collection[str]) -> Tensors:
        parts = [
            encoder(ports[name]) for name, encoder in zip(self.names, self.encoders, strict=True)
        ]
        after: Tensors = {}
        latent = torch.cat(parts, dim=-1)
        if self.cell is not None:
            latent, after = stepped(self.cell, latent, ports)
        action = self.head(self.decoder(latent))[..., : self.kept]
        if self.squash > 0:
            action = torch.tanh(action / self.squash) * self.squash
        return dict.fromkeys(("action", *wanted), action) | after


def _encoders(weights: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    names = dict.fromkeys(name.partition(".")[0] for name in weights)
    return {name: under(weights, f"{name}.mlp_head") for name in names}


def _ask_number(contents: Contents, answers: Answers, name: str, what: str) -> float | None:
    return answers.ask(
        name, what, read=float, found=[contents.neighbours.lookup(SETTINGS, name)], such_as="0",
        others=(f"{name} in {SETTINGS}",),
    )  # fmt: skip


def _ask_space(answers: Answers, outputs: int) -> tuple[int | str, ...] | None:
    """("continuous",), or the number of choices of each part of the action."""
    env = answers.env.action if answers.env else None
    told: str | None = None
    if isinstance(env, Box):
        told = "continuous"
    elif isinstance(env, Discrete):
        told = str(env.n)
    elif isinstance(env, Several):
        told = ",".join(map(str, env.sizes))

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
        own = under(weights, f"{_STATISTICS}.{name}")
        if own:
            mean, var = own["running_mean"].float(), own["running_var"].float()
            found[name] = EpsInsideRoot(mean=mean, var=var, eps=1e-5, clip=5.0)
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
    encoders: Mapping[str, Mapping[str, Tensor]], decoder: Mapping[str, Tensor], outputs: int,
    activation: str | None,
) -> str:  # fmt: skip
    def sizes(weights: Mapping[str, Tensor]) -> list[int]:
        return [int(w.shape[0]) for name, w in weights.items() if name.endswith("weight")]

    first = ", ".join(" → ".join(map(str, sizes(each))) for each in encoders.values())
    rest = " → ".join(map(str, [*sizes(decoder), outputs]))
    known = [name for name in ACTIVATIONS if name == activation]
    return ", ".join([f"MLP {first} → {rest}", *known])
