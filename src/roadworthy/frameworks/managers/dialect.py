"""An environment of one framework, by what its managers and its simulation do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import torch

from roadworthy.errors import Finding
from roadworthy.frameworks.managers.problems import left_out
from roadworthy.frameworks.managers.terms import (
    Candidate,
    GroupTerms,
    Ring,
    Tensors,
    Term,
    of_groups,
)
from roadworthy.spec.robot import Robot

Key = TypeVar("Key")
# What the action manager remembers of the actions before.
_ACTIONS = {
    "last_action": "_action",
    "last_action_1": "_prev_action",
    "last_action_2": "_prev_prev_action",
}


class Dialect(ABC):
    """An environment of one framework.

    Managers have the names that IsaacLab gave them, and that others took over; what speaks of the
    simulation differs, and is abstract. `apply_ends_tick` is False where the actuators are asked
    as well: a tick then ends behind `scene.write_data_to_sim`.
    """

    apply_ends_tick = True

    def __init__(self, env: Any) -> None:
        self.env = env

    @property
    def rows(self) -> int:
        return int(self.env.num_envs)

    @property
    def decimation(self) -> int:
        return int(self.env.cfg.decimation)

    @property
    def action_width(self) -> int:
        return int(self.env.action_manager.total_action_dim)

    def action_names(self) -> tuple[str, ...]:
        """What each element of the actions moves; empty where some term does not say it."""
        manager = self.env.action_manager
        found: list[str] = []
        for name in manager.active_terms:
            term = manager.get_term(name)
            # mjlab's word, and IsaacLab's.
            said: Sequence[str] = getattr(term, "target_names", getattr(term, "_joint_names", ()))
            if len(said) != term.action_dim:
                return ()
            found += said
        return tuple(found) if len(set(found)) == self.action_width else ()

    def groups(self) -> Mapping[str, GroupTerms]:
        """Every observation group, by name."""
        manager = self.env.observation_manager
        return {name: _group(manager, name) for name in manager.active_terms}

    def observe(self, names: Sequence[str]) -> Tensors:
        """The observations of some groups, pushed into their history."""
        manager = self.env.observation_manager
        return {name: manager.compute_group(name, update_history=True) for name in names}

    def process(self, actions: torch.Tensor) -> None:
        """Take the actions in, at the policy's rate."""
        self.env.action_manager.process_action(actions)

    def apply(self) -> None:
        """Write the commands, at the simulation's rate."""
        self.env.action_manager.apply_action()
        if not self.apply_ends_tick:
            self.env.scene.write_data_to_sim()

    def step(self, actions: torch.Tensor) -> bool:
        """The framework's own step; whether an environment was reset in it."""
        _, _, terminated, timed_out, _ = self.env.step(actions)
        return bool((terminated | timed_out).any())

    def reset(self) -> None:
        """The framework's own reset of every environment."""
        self.env.reset()

    @contextmanager
    def routed(
        self, observe: Callable[[Callable[[], object]], object], apply: Callable[[], None]
    ) -> Iterator[None]:
        """Lets the framework's own step and reset call these where it observes and applies.

        `observe` is handed the call that the framework meant to make.
        """
        manager, actions = self.env.observation_manager, self.env.action_manager
        scene = self.env.scene
        compute, written = manager.compute, scene.write_data_to_sim
        waiting = False

        def observing(*args: Any, **kwargs: Any) -> object:
            return observe(lambda: compute(*args, **kwargs))

        def applying() -> None:
            nonlocal waiting
            if self.apply_ends_tick:
                through()
            else:
                waiting = True

        def writing() -> None:
            nonlocal waiting
            if not waiting:
                written()  # a reset writes without having applied
                return
            waiting = False
            through()

        def through() -> None:
            del actions.apply_action, scene.write_data_to_sim
            try:
                apply()
            finally:
                actions.apply_action, scene.write_data_to_sim = applying, writing

        manager.compute = observing
        actions.apply_action, scene.write_data_to_sim = applying, writing
        try:
            yield
        finally:
            del manager.compute, actions.apply_action, scene.write_data_to_sim

    def memory(self) -> list[Candidate]:
        """Tensors that one step leaves for the next."""
        manager = self.env.action_manager
        found = [
            Candidate(name, partial(getattr, manager, attribute))
            for name, attribute in _ACTIONS.items()
            if hasattr(manager, attribute)
        ]
        for name in manager.active_terms:
            term = manager.get_term(name)
            attribute = "raw_action" if hasattr(term, "raw_action") else "raw_actions"
            found.append(Candidate(f"last_action.{name}", partial(getattr, term, attribute)))
        return [*found, *self._processed()] if self.decimation > 1 else found

    def _processed(self) -> Iterator[Candidate]:
        """What the terms make of the actions, for the ticks until the next ones come."""
        manager = self.env.action_manager
        for name in manager.active_terms:
            term = manager.get_term(name)
            if isinstance(getattr(term, "_processed_actions", None), torch.Tensor):
                alone = len(manager.active_terms) == 1
                said = "processed_actions" if alone else f"processed_actions.{name}"
                yield Candidate(said, partial(getattr, term, "_processed_actions"))

    def written_by_actions(self, held: Mapping[Key, torch.Tensor]) -> dict[Key, list[int]]:
        """The elements that differ when the action terms write them: they start as NaN."""
        before = {key: value.clone() for key, value in held.items()}
        for value in held.values():
            value.fill_(float("nan"))
        self.env.action_manager.process_action(torch.zeros(self.rows, self.action_width))
        self.env.action_manager.apply_action()
        written = {key: (~value.isnan()).all(dim=0) for key, value in held.items() if value.numel()}
        for key, value in held.items():
            value.copy_(before[key])
        return {key: mask.nonzero().flatten().tolist() for key, mask in written.items()}

    def left_out(self, names: Sequence[str]) -> list[str]:
        """What serves training alone, in words: it stays out of the file."""
        return [*left_out(self.env, self.groups(), names)]

    def robot(self, names: Sequence[str], outputs: Mapping[str, Sequence[str]]) -> Robot | None:
        """The robot that the actions move; None where that is not known.

        `outputs` are the ports that the actions write, with the names of their elements.
        """
        return None

    @property
    def tick_s(self) -> float:
        """How long one call of `apply` holds."""
        return float(self.env.physics_dt)

    @abstractmethod
    def settle(self) -> None:
        """Take out what simulates a flaw of the robot; called before anything is observed."""

    @abstractmethod
    def inputs(self) -> list[Candidate]:
        """What may be read from the robot, what is preferred first."""

    @abstractmethod
    def outputs(self) -> list[Candidate]:
        """What the action terms write, of the joints that they write."""

    def rings(self, names: Sequence[str]) -> list[Ring]:
        """History and delays of some groups."""
        return [*of_groups(self.env, names)]

    @abstractmethod
    def problems(self, names: Sequence[str]) -> list[Finding]:
        """Why these groups cannot be exported as they are."""

    def randomised(self) -> list[Candidate]:
        """Facts about the robot that were drawn at random when the environment was made."""
        return []

    @abstractmethod
    def metadata(self, names: Sequence[str]) -> dict[str, str]:
        """Facts about the environment for the file, as text."""


def _group(manager: Any, name: str) -> GroupTerms:
    cfg = manager.cfg[name] if isinstance(manager.cfg, Mapping) else getattr(manager.cfg, name)
    shape = manager.group_obs_dim[name]
    terms = []
    for term, size in zip(
        manager.active_terms[name], manager.group_obs_term_dim[name], strict=True
    ):
        # Public in mjlab alone.
        said = manager._group_obs_term_cfgs[name][manager.active_terms[name].index(term)]
        terms.append(
            Term(
                name=term,
                shape=tuple(size),
                scale=None if said.scale is None else _numbers(said.scale),
                clip=said.clip,
                history=said.history_length,
                flattened=bool(getattr(said, "flatten_history_dim", True)),
                delay=(getattr(said, "delay_min_lag", 0), getattr(said, "delay_max_lag", 0)),
                noise="" if said.noise is None else type(said.noise).__name__,
            )
        )
    return GroupTerms(
        name=name,
        shape=tuple(shape) if cfg.concatenate_terms else (),
        terms=tuple(terms),
        concatenated=bool(cfg.concatenate_terms),
        corrupted=bool(cfg.enable_corruption),
        nan_policy=getattr(cfg, "nan_policy", "disabled"),
    )


def _numbers(scale: Any) -> float | tuple[float, ...]:
    values = torch.as_tensor(scale).tolist()
    return tuple(values) if isinstance(values, list) else values
