"""What the files of rsl_rl do not say, and where params/agent.yaml says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from roadworthy.errors import UsageError
from roadworthy.frameworks.files.neighbours import AGENT
from roadworthy.frameworks.files.opening import Contents
from roadworthy.frameworks.network.layers import ACTIVATIONS, activation_name
from roadworthy.frameworks.questions import numbers
from roadworthy.frameworks.reading import Answers
from roadworthy.frameworks.rsl_rl.layout import Layout
from roadworthy.spec.port import About
from roadworthy.spec.transforms import ActionStep, Clip, ScaleOffset

HEADS = ("deterministic", "heteroscedastic", "beta")
_CLASSES = {
    "HeteroscedasticGaussianDistribution": "heteroscedastic", "BetaDistribution": "beta",
}  # fmt: skip


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


def ask_activation(contents: Contents, answers: Answers) -> str | None:
    places = (("actor", "activation"), ("student", "activation"), ("policy", "activation"))
    return answers.ask(
        "activation",
        "the function between the layers; the weights do not say it",
        # What rsl_rl calls crelu has been PyTorch's CELU in every version that could be trained.
        read=lambda text: "celu" if text == "crelu" else activation_name(text),
        found=[contents.neighbours.lookup(AGENT, *place) for place in places],
        choices=tuple(ACTIVATIONS),
        others=(f"activation in {AGENT}",),
    )


def ask_head(answers: Answers, layout: Layout, settings: Mapping[str, Any]) -> str | None:
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
        found=[(_distribution(settings.get(layout.role)), f"{AGENT} ({layout.role})")],
        choices=HEADS,
        others=(f"distribution_cfg in {AGENT}",),
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


def ask_range(answers: Answers, settings: Mapping[str, Any]) -> tuple[float, float] | None:
    actor = settings.get("actor")
    told = actor.get("distribution_cfg") if isinstance(actor, Mapping) else None
    said = told.get("action_range", (-1.0, 1.0)) if isinstance(told, Mapping) else None

    def read(text: str) -> tuple[float, float]:
        low, high = numbers(text)
        return low, high

    return answers.ask(
        "action_range", "the lowest and highest action of the Beta distribution", read=read,
        found=[(said, f"{AGENT} (actor.distribution_cfg)")], such_as="-1,1",
    )  # fmt: skip


def ask_groups(answers: Answers, layout: Layout, settings: Mapping[str, Any]) -> Groups | None:
    told = settings.get("obs_groups")
    said = told if isinstance(told, Mapping) else {}
    listed = next((said[name] for name in (layout.role, "policy") if name in said), None)
    if not layout.grouped and listed is None:
        return Groups({"obs": None})

    def read(text: str) -> Groups:
        pairs = [each.strip(" '\"").partition(":") for each in text.strip("[]()").split(",")]
        found = {n.strip(): int(size) if size else None for n, _, size in pairs if n.strip()}
        return Groups(
            {n: size for n, size in found.items() if n not in layout.actor.cnns} or {"obs": None}
        )

    return answers.ask(
        "obs_groups",
        "the groups of which the observation is made, in their order",
        read=read,
        found=[(None if listed is None else ",".join(map(str, listed)), f"{AGENT} (obs_groups)")],
        such_as="policy, or policy:45,command:3 for a port each",
        others=(f"obs_groups in {AGENT}",),
    )


def ask_steps(answers: Answers, contents: Contents) -> tuple[ActionStep, ...] | None:
    """What stands between the network and the environment: a clip, a scale."""
    settings = contents.neighbours.settings(AGENT)
    # Null is an answer too; only where the key is missing nobody has said anything.
    limit = None
    if "clip_actions" in settings:
        limit = "none" if settings["clip_actions"] is None else settings["clip_actions"]

    def read(text: str) -> tuple[float, ...]:
        return () if text in ("none", "None", "False") else numbers(text)

    clip = answers.ask(
        "clip_actions", "how far the wrapper of the environment lets actions go, both ways",
        read=read, found=[(limit, f"{AGENT} (clip_actions)")], such_as="none, or 100",
        others=(f"clip_actions in {AGENT}",),
    )  # fmt: skip
    scale = answers.ask(
        "action_scale",
        "what actions are multiplied with; none leaves it to the environment, as in training",
        read=read,
        found=[("none" if settings else None, f"{AGENT}: the environment scales")],
        such_as="none, or 0.25",
        others=(f"{AGENT} beside the file",),
    )
    if clip is None or scale is None:
        return None
    clips = [Clip(low=-clip[0], high=clip[0])] if clip else []
    factor = scale[0] if len(scale) == 1 else scale
    return (*clips, *([ScaleOffset(scale=factor)] if scale else []))


def cnn_settings(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    for part, key in (("actor", "cnn_cfg"), ("student", "cnn_cfg"), ("policy", "actor_cnn_cfg")):
        own = settings.get(part)
        if isinstance(own, Mapping) and isinstance(own.get(key), Mapping):
            return cast("Mapping[str, Any]", own[key])
    return {}
