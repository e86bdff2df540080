"""What a case of this set is: a policy as somebody has it, and what they type first."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

# The keywords of the second call are read out of the hint, as it stands.
HINT = "the hint"

# The original at work: what it is given at a step, in the form of the example → what it answers.
Live = Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A policy, the first call of somebody new, and what comes of it.

    family    where it comes from
    name      what it is called
    build     makes it anew, with the same weights every time
    example   the inputs of the first call: floats are drawn from a normal distribution, integers
              from the smallest to the largest that the example has
    keywords  of the first call, besides the example
    then      the keywords of the second call: none where the first one succeeds, `HINT` where they
              are read out of the hint, a mapping where the hint says them in words or with a gap;
              `module` among them is what the hint does to the module
    refused   the code of the finding, where it is refused for good
    live      the original at work from the beginning of an episode; left out, a copy is called
    margin    how far the artifact may be away, relative to the largest value
    framework the package that it needs, if it is none of the project's own
    long      takes longer than the rest
    """

    family: str
    name: str
    build: Callable[[], nn.Module]
    example: Any
    keywords: Mapping[str, Any] = field(default_factory=dict)
    then: Mapping[str, Any] | str | None = None
    refused: str = ""
    live: Callable[[nn.Module], Live] | None = None
    margin: float = 1e-4
    framework: bool = False
    long: bool = False

    def __str__(self) -> str:
        return f"{self.family}: {self.name}"

    @property
    def expected(self) -> str:
        """What the table calls it."""
        if self.refused:
            return "refused"
        return "first call" if self.then is None else "after one hint"

    def make(self) -> nn.Module:
        """The policy, without touching the global seed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(len(self.name))
            return self.build()


Build = Callable[[], nn.Module]
ABOUT_CASES = ("then", "refused", "live", "margin", "long")


@dataclass(frozen=True, slots=True)
class Family:
    """Policies of one origin."""

    name: str
    framework: bool = False
    cases: list[Case] = field(default_factory=list)

    def case(self, example: Any, **keywords: Any) -> Callable[[Build], Build]:
        """Registers what is decorated; keywords that are not of a `Case` are of the first call."""
        of_case = {name: keywords.pop(name) for name in ABOUT_CASES if name in keywords}

        def registered(build: Build) -> Build:
            named = {"family": self.name, "name": build.__name__, "framework": self.framework}
            about = {"build": build, "example": example, "keywords": keywords}
            self.cases.append(Case(**named, **about, **of_case))
            return build

        return registered


def obs(size: int) -> dict[str, Tensor]:
    """The example that most policies have."""
    return {"obs": torch.zeros(1, size)}


def mlp(*sizes: int, activation: type[nn.Module] = nn.ELU) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), activation()]
    return nn.Sequential(*layers[:-1])


def as_one(module: nn.Module) -> Live:
    """A stateless policy that takes its inputs as one dict."""
    return lambda given: module(given)


def carrying(
    step: Callable[[nn.Module, Any, Any], tuple[Any, Any]], initial: Callable[[], Any]
) -> Callable[[nn.Module], Live]:
    """A policy whose state the caller carries: `step(module, inputs, state)` → outputs, state."""

    def live(module: nn.Module) -> Live:
        state = initial()

        def call(given: Any) -> Any:
            nonlocal state
            answer, state = step(module, given, state)
            return answer

        return call

    return live
