"""rsl_rl 1 to 5: `model_*.pt`, in the three layouts that its versions wrote."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from roadworthy.checkpoints.actor import Actor, Network, Tensors
from roadworthy.checkpoints.layers import ACTIVATIONS, activation_name, mlp, recurrent, widths
from roadworthy.checkpoints.memory import start, stepped
from roadworthy.checkpoints.opening import Contents, refuse_bad_weights
from roadworthy.checkpoints.questions import numbers
from roadworthy.checkpoints.reading import Answers, Reading
from roadworthy.checkpoints.rsl_rl.images import Image, ask_images, encoder
from roadworthy.checkpoints.rsl_rl.layout import Layout, layout_of
from roadworthy.errors import UsageError
from roadworthy.source import Source
from roadworthy.spec.port import About
from roadworthy.spec.transforms import ActionStep, Clip, EpsOutsideRoot, Normalizer, ScaleOffset

NAME = "rsl_rl"
SETTINGS = "params/agent.yaml"
EPS = 1e-2
HEADS = ("deterministic", "heteroscedastic", "beta")
_CLASSES = {
    "HeteroscedasticGaussianDistribution": "heteroscedastic", "BetaDistribution": "beta",
}  # fmt: skip


def recognise(contents: Contents) -> str | None:
    """Why the file looks like one of rsl_rl: the keys that its runners write."""
    tree = contents.tree
    if not isinstance(tree, Mapping):
        return None
    if "iter" in tree and {"actor_state_dict", "student_state_dict"} & set(tree):
        return "it holds iter and actor_state_dict or student_state_dict"
    inside = contents.tensors("model_state_dict")
    acts = any(name.startswith(("actor.", "student.")) for name in inside)
    return "it holds iter, and actor.* in model_state_dict" if "iter" in tree and acts else None


def read(contents: Contents, answers: Answers) -> Reading:
    """What the file says, and what agent.yaml says beside it."""
    layout = layout_of(contents)
    refuse_bad_weights(layout.own, contents.where)
    settings = contents.neighbours.settings(SETTINGS)
    activation = _ask_activation(contents, answers)
    head = _ask_head(answers, layout, settings)
    low_high = _ask_range(answers, settings) if head == "beta" else (-1.0, 1.0)
    images = ask_images(answers, layout.cnns, _cnn_settings(settings)) if layout.cnns else {}
    groups = _ask_groups(answers, layout, settings)
    steps = _ask_steps(answers, contents)
    for name in layout.noise:
        answers.note(name, "the noise of training, not used")
    mean, std = layout.statistics.get("_mean"), layout.statistics.get("_std")
    answers.note("normalizer", "none" if mean is None else "(x - mean) / (std + 0.01)")
    shaped = mlp(layout.mlp, "identity", where=contents.where)

    def build(outputs: Sequence[str]) -> Source:
        assert activation is not None
        assert head is not None
        assert images is not None
        assert low_high is not None
        assert groups is not None
        assert steps is not None
        network = Policy(layout, activation, head, low_high, images, contents.where)
        ports, about = groups.ports(network.flat)
        network.groups = tuple(ports)
        return Source(
            Actor(network, outputs),
            example={n: torch.zeros(1, size) for n, size in ports.items()} | network.pictures(),
            memory=network.memory(),
            normalizer=_split(mean, std, ports) or None,
            action=steps,
            about=about,
        )

    kinds = ", ".join(filter(None, [
        f"CNN of {', '.join(layout.cnns)}" if layout.cnns else "",
        layout.cell_text, f"MLP {widths(shaped)}", activation or "",
    ]))  # fmt: skip
    return Reading(
        framework=NAME,
        version=layout.version,
        algorithm="distillation, the student" if layout.role == "student" else "PPO",
        architecture=kinds,
        normalizers=_split(mean, std, {"obs": mean.numel()}) if mean is not None else {},
        facts=tuple(answers.facts),
        questions=tuple(answers.questions),
        unexplained=layout.unexplained,
        outputs=("action", "action_raw"),
        build=build,
    )


def predicting(contents: Contents, answers: Answers, source: Source) -> Source | None:
    """The installed rsl_rl's own model, for files that it can load."""
    from roadworthy.checkpoints.rsl_rl import trusted

    return trusted.predicting(contents, answers, source)


class Policy(Network):
    """Observation groups, an optional CNN and recurrent layer, an MLP, and what its end means."""

    def __init__(
        self,
        layout: Layout,
        activation: str,
        head: str,
        low_high: tuple[float, float],
        images: Mapping[str, Image],
        where: str,
    ) -> None:
        super().__init__()
        self.cnns = nn.ModuleDict(
            {name: encoder(layout.cnns[name], image, where) for name, image in images.items()}
        )
        self.images = images
        self.cell = recurrent(layout.cell, where) if layout.cell else None
        self.mlp = mlp(layout.mlp, activation, where=where)
        self.head, self.low, self.range = head, low_high[0], low_high[1] - low_high[0]
        first = next(each for each in self.mlp if isinstance(each, nn.Linear)).in_features
        width = first if self.cell is None else self.cell.input_size
        self.flat = width - self._encoded()
        self.groups: tuple[str, ...] = ("obs",)

    def _encoded(self) -> int:
        with torch.no_grad():
            return sum(self.cnns[n](p).shape[-1] for n, p in self.pictures().items())

    def pictures(self) -> Tensors:
        """One image of each group that has some."""
        return {name: torch.zeros(1, *image.shape) for name, image in self.images.items()}

    def memory(self) -> Tensors:
        return start(self.cell) if self.cell is not None else {}

    def step(self, ports: Tensors, wanted: Collection[str]) -> Tensors:
        # Vectors come first in the latent, whatever the order of the groups.
        parts = [ports[name] for name in self.groups]
        parts += [self.cnns[name](ports[name]) for name in self.images]
        after: Tensors = {}
        latent = torch.cat(parts, dim=-1)
        if self.cell is not None:
            latent, after = stepped(self.cell, latent, ports)
        action = self._action(self.mlp(latent))
        return dict.fromkeys(("action", *wanted), action) | after

    def _action(self, out: Tensor) -> Tensor:
        if self.head == "deterministic":
            return out
        first, second = out.chunk(2, dim=-1)
        if self.head == "heteroscedastic":
            return first
        alpha = nn.functional.softplus(first) + 1.0
        beta = nn.functional.softplus(second) + 1.0
        return alpha / (alpha + beta) * self.range + self.low


@dataclass(frozen=True, slots=True)
class Groups:
    """The observation groups that are vectors, in order; None where nobody says how long one is."""

    sizes: Mapping[str, int | None]

    def ports(self, total: int) -> tuple[dict[str, int], dict[str, About]]:
        """Port → numbers, and what is worth saying about a port of several groups."""
        if total == 0:
            return {}, {}
        names = list(self.sizes)
        if len(names) == 1:
            return {names[0]: total}, {}
        known = {name: size for name, size in self.sizes.items() if size is not None}
        if len(known) < len(names):
            said = f"{', '.join(names)}, side by side in this order"
            return {"obs": total}, {"obs": About(description=said)}
        if sum(known.values()) != total:
            raise UsageError(
                f"the groups have {sum(known.values())} numbers, the network takes {total}",
                where="obs_groups", hint="give the size of each: --assume obs_groups=policy:12,…",
            )  # fmt: skip
        return known, {}


def _ask_activation(contents: Contents, answers: Answers) -> str | None:
    places = (("actor", "activation"), ("student", "activation"), ("policy", "activation"))
    return answers.ask(
        "activation",
        "the function between the layers; the weights do not say it",
        # What rsl_rl calls crelu has been PyTorch's CELU in every version that could be trained.
        read=lambda text: "celu" if text == "crelu" else activation_name(text),
        found=[contents.neighbours.lookup(SETTINGS, *place) for place in places],
        choices=tuple(ACTIVATIONS),
        others=(f"activation in {SETTINGS}",),
    )


def _ask_head(answers: Answers, layout: Layout, settings: Mapping[str, Any]) -> str | None:
    """What the last numbers are: actions, or parameters of a distribution."""
    if layout.head:
        return layout.head

    def read(text: str) -> str:
        name = _CLASSES.get(text, text)
        if name not in HEADS:
            raise KeyError(text)
        return name

    return answers.ask(
        "distribution",
        "the file holds no deviation: the last layer gives the actions themselves, or their means "
        "and deviations (heteroscedastic), or the parameters of a Beta distribution",
        read=read,
        found=[(_distribution(settings.get(layout.role)), f"{SETTINGS} ({layout.role})")],
        choices=HEADS,
        others=(f"distribution_cfg in {SETTINGS}",),
    )


def _distribution(said: object) -> object:
    if not isinstance(said, Mapping):
        return None
    if "state_dependent_std" in said:  # version 4
        own = said["state_dependent_std"] and said.get("stochastic", True)
        return "heteroscedastic" if own else "deterministic"
    if "distribution_cfg" not in said:
        return None
    told = said["distribution_cfg"] or {"class_name": "deterministic"}
    return str(told.get("class_name")).rpartition(":")[2].rpartition(".")[2]


def _ask_range(answers: Answers, settings: Mapping[str, Any]) -> tuple[float, float] | None:
    actor = settings.get("actor")
    told = actor.get("distribution_cfg") if isinstance(actor, Mapping) else None
    said = told.get("action_range", (-1.0, 1.0)) if isinstance(told, Mapping) else None

    def read(text: str) -> tuple[float, float]:
        low, high = numbers(text)
        return low, high

    return answers.ask(
        "action_range", "the lowest and highest action of the Beta distribution", read=read,
        found=[(said, f"{SETTINGS} (actor.distribution_cfg)")], such_as="-1,1",
    )  # fmt: skip


def _ask_groups(answers: Answers, layout: Layout, settings: Mapping[str, Any]) -> Groups | None:
    told = settings.get("obs_groups")
    said = told if isinstance(told, Mapping) else {}
    listed = next((said[name] for name in (layout.role, "policy") if name in said), None)
    if not layout.grouped and listed is None:
        return Groups({"obs": None})

    def read(text: str) -> Groups:
        pairs = [each.strip(" '\"").partition(":") for each in text.strip("[]()").split(",")]
        found = {n.strip(): int(size) if size else None for n, _, size in pairs if n.strip()}
        return Groups(
            {n: size for n, size in found.items() if n not in layout.cnns} or {"obs": None}
        )

    return answers.ask(
        "obs_groups",
        "the groups of which the observation is made, in their order",
        read=read,
        found=[
            (None if listed is None else ",".join(map(str, listed)), f"{SETTINGS} (obs_groups)")
        ],
        such_as="policy, or policy:45,command:3 for a port each",
        others=(f"obs_groups in {SETTINGS}",),
    )


def _ask_steps(answers: Answers, contents: Contents) -> tuple[ActionStep, ...] | None:
    """What stands between the network and the environment: a clip, a scale."""
    settings = contents.neighbours.settings(SETTINGS)
    # Null is an answer too; only where the key is missing nobody has said anything.
    limit = None
    if "clip_actions" in settings:
        limit = "none" if settings["clip_actions"] is None else settings["clip_actions"]

    def read(text: str) -> tuple[float, ...]:
        return () if text in ("none", "None", "False") else numbers(text)

    clip = answers.ask(
        "clip_actions", "how far the wrapper of the environment lets actions go, both ways",
        read=read, found=[(limit, f"{SETTINGS} (clip_actions)")], such_as="none, or 100",
        others=(f"clip_actions in {SETTINGS}",),
    )  # fmt: skip
    scale = answers.ask(
        "action_scale",
        "what actions are multiplied with; none leaves it to the environment, as in training",
        read=read,
        found=[("none" if settings else None, f"{SETTINGS}: the environment scales")],
        such_as="none, or 0.25",
        others=(f"{SETTINGS} beside the file",),
    )
    if clip is None or scale is None:
        return None
    clips = [Clip(low=-clip[0], high=clip[0])] if clip else []
    factor = scale[0] if len(scale) == 1 else scale
    return (*clips, *([ScaleOffset(scale=factor)] if scale else []))


def _cnn_settings(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    for part, key in (("actor", "cnn_cfg"), ("student", "cnn_cfg"), ("policy", "actor_cnn_cfg")):
        own = settings.get(part)
        if isinstance(own, Mapping) and isinstance(own.get(key), Mapping):
            return cast("Mapping[str, Any]", own[key])
    return {}


def _split(
    mean: Tensor | None, std: Tensor | None, ports: Mapping[str, int]
) -> dict[str, Normalizer]:
    """The statistics of each port: training normalises its groups side by side."""
    if mean is None or std is None:
        return {}
    sizes = list(ports.values())
    means, stds = (torch.split(each.reshape(-1), sizes) for each in (mean, std))
    parts = zip(ports, means, stds, strict=True)
    return {port: EpsOutsideRoot(mean=m, std=s, eps=EPS) for port, m, s in parts}
