"""Questions that several frameworks ask, and what follows from the answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from torch import nn

from roadworthy.capture.source import Source
from roadworthy.frameworks import spaces
from roadworthy.frameworks.network.actor import Around, Network, Tensors, results, source_of
from roadworthy.frameworks.network.layers import ACTIVATIONS, activation_name
from roadworthy.frameworks.network.statistics import VALUE
from roadworthy.frameworks.reading import ENV, Answers
from roadworthy.spec.transforms import (
    ActionStep,
    Argmax,
    Clip,
    MultiDiscrete,
    Normalizer,
    ScaleToBounds,
    Tanh,
)

Found = Sequence[tuple[object, str]]
T = TypeVar("T")


def ask_activation(
    answers: Answers,
    found: Found = (),
    others: Sequence[str] = (),
    *,
    name: str = "activation",
    what: str = "the function between the layers",
) -> str | None:
    """The name of the activation between the layers."""
    return answers.ask(
        name,
        f"{what}; the weights do not say it",
        read=activation_name,
        found=found,
        choices=tuple(ACTIVATIONS),
        others=others,
    )


def ask_choice(
    answers: Answers,
    name: str,
    what: str,
    options: Mapping[str, T],
    found: Found = (),
    others: Sequence[str] = (),
) -> T | None:
    """What one of a few words stands for."""
    return answers.ask(
        name, what, read=options.__getitem__, found=found, choices=tuple(options), others=others
    )


def ask_flag(
    answers: Answers, name: str, what: str, found: Found = (), others: Sequence[str] = ()
) -> bool | None:
    """Yes or no, as settings write it: true, False."""
    words = {"true": True, "false": False}
    return answers.ask(
        name, what, read=lambda text: words[text.lower()], found=found, choices=tuple(words),
        others=others,
    )  # fmt: skip


def per_layer(text: str, count: int) -> tuple[int, ...]:
    """A whole number for each of `count` layers; one alone is that of all of them."""
    found = whole_numbers(text)
    if len(found) not in (1, count):
        raise ValueError(text)
    return found * count if len(found) == 1 else found


def numbers(text: str) -> tuple[float, ...]:
    """Numbers between commas; ValueError for anything else."""
    return tuple(float(each) for each in text.strip("[]() ").split(",") if each.strip())


def whole_numbers(text: str) -> tuple[int, ...]:
    """Whole numbers between commas; ValueError for anything else."""
    return tuple(int(each) for each in text.strip("[]() ").split(",") if each.strip())


def ask_bounds(
    answers: Answers, size: int, found: Found = (), *, only: str = ""
) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """The lowest and highest action, one number for each element; `only` says when they matter."""
    env = answers.env_action
    sides = []
    for side in ("low", "high"):
        told = None
        if isinstance(env, spaces.Box):
            told = ",".join(repr(float(each)) for each in getattr(env, side).reshape(-1))

        def read(text: str) -> tuple[float, ...]:
            values = numbers(text)
            if len(values) not in (1, size):
                raise ValueError(text)
            return values * size if len(values) == 1 else values

        sides.append(
            answers.ask(
                f"action_{side}",
                f"the {side}est action that the environment takes, in each of {size} elements"
                + (f", {only}" if only else ""),
                read=read,
                found=[(told, ENV), *found],
                such_as=",".join(["-1.0" if side == "low" else "1.0"] * min(size, 3)),
                others=("--env ID",),
            )
        )
    low, high = sides
    return None if low is None or high is None else (low, high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What the last layer's numbers are: the steps that make an action of them.

    last    a function that the network itself ends with
    """

    steps: tuple[ActionStep, ...]
    last: nn.Module | None = None

    @property
    def discrete(self) -> bool:
        return any(isinstance(step, (Argmax, MultiDiscrete)) for step in self.steps)

    @property
    def outputs(self) -> tuple[str, ...]:
        """What can be had: the action, and what it is made of.

        Of what is squashed or scaled nobody says whether the distribution stands before or behind.
        """
        if self.discrete:
            return ("action", "logits")
        plain = all(isinstance(step, Clip) for step in self.steps)
        return ("action", "action_raw", *(("mean",) if plain else ()))

    def source(
        self, network: Network, wanted: Sequence[str], normalizer: Normalizer | None = None
    ) -> Source:
        """The source of a network that this stands behind."""
        ended = network if self.last is None else Ended(network, self.last)
        return source_of(ended, wanted, self.steps, normalizer)


# How continuous actions leave a network: in words that are typed behind --assume.
HEADS = ("argmax", "multi_discrete", "plain", "tanh", "tanh_to_bounds", "clip_to_bounds",
         "scale_to_bounds")  # fmt: skip


class Ended(Around):
    """A network with a function behind its last layer."""

    def __init__(self, network: Network, last: nn.Module) -> None:
        super().__init__(network)
        self.last = last

    def step(self, ports: Tensors, wanted: Collection[str]) -> Tensors:
        more = self.network.step(ports, [name for name in wanted if name == VALUE])
        action = self.last(more.pop("action"))
        return results(action, wanted, more)


def ask_head(
    answers: Answers,
    size: int,
    found: Found = (),
    *,
    expression: Callable[[str], Head] | None = None,
) -> Head | None:
    """What becomes of the last layer's `size` numbers.

    expression  reads answers in a framework's own words; ValueError for what is none
    """
    own: list[Head] = []
    env = answers.env_action
    discrete = {spaces.Discrete: "argmax", spaces.MultiDiscrete: "multi_discrete"}.get(type(env))

    def read(text: str) -> str:
        if text not in HEADS and expression is not None:
            own.append(expression(text))
        elif text not in HEADS:
            raise KeyError(text)
        return text

    kind = answers.ask(
        "output",
        f"what the last layer's {size} numbers are: choices, or an action that is taken as it is, "
        "squashed, clipped or scaled",
        read=read,
        found=[(discrete, ENV), *found],
        choices=HEADS,
        others=("--env ID, where actions are discrete",),
    )
    if own:
        return own[0]
    if kind in ("argmax", "multi_discrete"):
        return _choices(answers, size, kind)
    if kind in (None, "plain", "tanh"):
        steps: tuple[ActionStep, ...] = (Tanh(),) if kind == "tanh" else ()
        return None if kind is None else Head(steps=steps)
    bounds = ask_bounds(answers, size)
    if bounds is None:
        return None
    low, high = bounds
    if kind == "clip_to_bounds":
        return Head(steps=(Clip(low=low, high=high),))
    squash: tuple[ActionStep, ...] = (Tanh(),) if kind == "tanh_to_bounds" else ()
    return Head(steps=(*squash, ScaleToBounds(low=low, high=high)))


def _choices(answers: Answers, size: int, kind: str) -> Head | None:
    if kind == "argmax":
        return Head(steps=(Argmax(),))
    env = answers.env_action
    told = ",".join(map(str, env.nvec)) if isinstance(env, spaces.MultiDiscrete) else None
    sizes = answers.ask(
        "sizes", f"how many of the {size} numbers belong to each choice", read=whole_numbers,
        found=[(told, ENV)], such_as="3,3", others=("--env ID",),
    )  # fmt: skip
    return None if sizes is None else Head(steps=(MultiDiscrete(sizes=sizes),))


def ask_no_normalizer(answers: Answers, found: Found = ()) -> None:
    """Whether the policy saw observations as they are; the only answer that a file can take."""

    ask_choice(
        answers,
        "normalizer",
        "whether training normalised the observations; the file holds no statistics",
        {"none": None},
        found,
        ("in Python: rw.export(module, folder, normalizer=…)",),
    )
