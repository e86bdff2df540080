"""What every manager-based framework has, without the names that it gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from roadworthy.errors import Finding
from roadworthy.spec.port import About
from roadworthy.spec.robot import Robot

Tensors = dict[str, torch.Tensor]
NOTHING_SAID = About()


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One observation term of a group, as the framework processes it.

    flattened  whether the frames of its history lie side by side
    delay      (fewest, most) steps by which it comes late
    """

    name: str
    shape: tuple[int, ...]
    scale: float | tuple[float, ...] | None = None
    clip: tuple[float, float] | None = None
    history: int = 0
    flattened: bool = True
    delay: tuple[int, int] = (0, 0)
    noise: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTerms:
    """One observation group: its terms in order, and what happens to them together.

    shape       of its observations, without the environments: a row of numbers, or an image
    nan_policy  what is done about NaN: "disabled", or a way that depends on the values
    """

    name: str
    shape: tuple[int, ...]
    terms: tuple[Term, ...]
    concatenated: bool = True
    corrupted: bool = False
    nan_policy: str = "disabled"


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A tensor of the environment that may become a port, if the step reads it.

    `table` says that it may as well be a table of numbers that nobody ever changes: such a one is
    a constant of the file, and no port.
    """

    name: str
    read: Callable[[], torch.Tensor]
    about: About = NOTHING_SAID
    table: bool = False


class Ring(Protocol):
    """A ring buffer of frames, whatever its pointer; `frames` is (envs, length, …), oldest first.

    `pushes` counts the frames of each environment since its reset, up to the length.
    """

    @property
    def name(self) -> str: ...

    @property
    def owner(self) -> object: ...

    def frames(self) -> torch.Tensor: ...

    def set_frames(self, value: torch.Tensor) -> None: ...

    def pushes(self) -> torch.Tensor: ...

    def set_pushes(self, value: torch.Tensor) -> None: ...


class Dialect(Protocol):
    """An environment of one framework: its managers, by what they do."""

    @property
    def rows(self) -> int: ...

    @property
    def decimation(self) -> int: ...

    @property
    def action_width(self) -> int: ...

    def action_names(self) -> tuple[str, ...]:
        """What each element of the actions moves; empty where some term does not say it."""

    def groups(self) -> Mapping[str, GroupTerms]:
        """Every observation group, by name."""

    def observe(self, names: Sequence[str]) -> Tensors:
        """The observations of some groups, pushed into their history."""

    def process(self, actions: torch.Tensor) -> None:
        """Take the actions in, at the policy's rate."""

    def apply(self) -> None:
        """Write the commands, at the simulation's rate."""

    def step(self, actions: torch.Tensor) -> bool:
        """The framework's own step; whether an environment was reset in it."""

    def reset(self) -> None:
        """The framework's own reset of every environment."""

    def routed(
        self, observe: Callable[[Callable[[], object]], object], apply: Callable[[], None]
    ) -> AbstractContextManager[None]:
        """Lets the framework's own step and reset call these where it observes and applies.

        `observe` is handed the call that the framework meant to make.
        """

    def settle(self) -> None:
        """Take out what simulates a flaw of the robot; called before anything is observed."""

    def inputs(self) -> list[Candidate]:
        """What may be read from the robot, what is preferred first."""

    def memory(self) -> list[Candidate]:
        """Tensors that one step leaves for the next."""

    def rings(self, names: Sequence[str]) -> list[Ring]:
        """History and delays of some groups."""

    def outputs(self) -> list[Candidate]:
        """What the action terms write, of the joints that they write."""

    def problems(self, names: Sequence[str]) -> list[Finding]:
        """Why these groups cannot be exported as they are."""

    def left_out(self, names: Sequence[str]) -> list[str]:
        """What serves training alone, in words: it stays out of the file."""

    def randomised(self) -> list[Candidate]:
        """Facts about the robot that were drawn at random when the environment was made."""

    @property
    def tick_s(self) -> float:
        """How long one call of `apply` holds."""

    def metadata(self, names: Sequence[str]) -> dict[str, str]:
        """Facts about the environment for the file, as text."""

    def robot(self, names: Sequence[str], outputs: Mapping[str, Sequence[str]]) -> Robot | None:
        """The robot that the actions move; None where that is not known.

        `outputs` are the ports that the actions write, with the names of their elements.
        """


@dataclass(frozen=True, slots=True, eq=False)
class CircularBuffer:
    """IsaacLab's and mjlab's, rotated when it is written: then its pointer is always at the end."""

    name: str
    owner: Any

    def frames(self) -> torch.Tensor:
        found: torch.Tensor = self.owner.buffer
        return found

    def set_frames(self, value: torch.Tensor) -> None:
        self.owner._buffer = value.transpose(0, 1).contiguous()
        self.owner._pointer = self.owner.max_length - 1
        # Newer ones of IsaacLab fill all frames at the first push only behind this flag: a graph
        # has to ask the count of pushes at every step.
        if hasattr(self.owner, "_need_reset"):
            self.owner._need_reset = True

    def pushes(self) -> torch.Tensor:
        # Beyond its length the count changes nothing: so it never overflows.
        pushes: torch.Tensor = self.owner.current_length.to(torch.int32)
        return pushes

    def set_pushes(self, value: torch.Tensor) -> None:
        self.owner._num_pushes = value.to(torch.int64)


def of_groups(env: Any, groups: Sequence[str]) -> Iterator[Ring]:
    """The history and the delays of observation groups."""
    manager = env.observation_manager
    for group in groups:
        delays = getattr(manager, "_group_obs_term_delay_buffer", {}).get(group, {})
        for term, delay in delays.items():
            yield CircularBuffer(f"delay.{group}.{term}", delay._buffer)
        for term, history in manager._group_obs_term_history_buffer[group].items():
            yield CircularBuffer(f"history.{group}.{term}", history)
