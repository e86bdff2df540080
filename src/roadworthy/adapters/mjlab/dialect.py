"""mjlab's names for what a manager-based environment has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch

from roadworthy.adapters.managers.dialect import Candidate, GroupTerms, Ring, Tensors, Term
from roadworthy.adapters.mjlab import buffers, outputs, problems, robot, state
from roadworthy.errors import Finding

Written = Literal["targets", "ctrl"]


class MjlabDialect:
    """A `ManagerBasedRlEnv`; `written` says whether the file ends at the targets of the joints or
    goes on through the actuators' delays and laws to the simulator's controls."""

    def __init__(self, env: Any, written: Written = "targets") -> None:
        self.env = env
        self.written = written

    @property
    def title(self) -> str:
        return f"mjlab's {type(self.env).__name__}"

    @property
    def rows(self) -> int:
        return int(self.env.num_envs)

    @property
    def decimation(self) -> int:
        return int(self.env.cfg.decimation)

    @property
    def action_width(self) -> int:
        return int(self.env.action_manager.total_action_dim)

    def groups(self) -> Mapping[str, GroupTerms]:
        manager = self.env.observation_manager
        return {name: _group(manager, name) for name in manager.active_terms}

    def observe(self, names: Sequence[str]) -> Tensors:
        manager = self.env.observation_manager
        return {name: manager.compute_group(name, update_history=True) for name in names}

    def process(self, actions: torch.Tensor) -> None:
        self.env.action_manager.process_action(actions)

    def apply(self) -> None:
        self.env.action_manager.apply_action()
        if self.written == "ctrl":
            self.env.scene.write_data_to_sim()

    def step(self, actions: torch.Tensor) -> bool:
        _, _, terminated, timed_out, _ = self.env.step(actions)
        return bool((terminated | timed_out).any())

    def reset(self) -> None:
        self.env.reset()

    @contextmanager
    def routed(
        self, observe: Callable[[Callable[[], object]], object], apply: Callable[[], None]
    ) -> Iterator[None]:
        manager, actions = self.env.observation_manager, self.env.action_manager
        scene = self.env.scene
        compute, written = manager.compute, scene.write_data_to_sim
        waiting = False

        def observing(*args: Any, **kwargs: Any) -> object:
            return observe(lambda: compute(*args, **kwargs))

        def applying() -> None:
            nonlocal waiting
            if self.written == "ctrl":  # then a tick ends where the actuators have been asked
                waiting = True
            else:
                through()

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

    def settle(self) -> None:
        for entity in self.env.scene.entities.values():
            entity.data.encoder_bias.zero_()

    def inputs(self) -> list[Candidate]:
        return state.inputs(self.env)

    def memory(self) -> list[Candidate]:
        manager = self.env.action_manager
        found = [
            Candidate("last_action", lambda: manager._action),
            Candidate("last_action_1", lambda: manager._prev_action),
            Candidate("last_action_2", lambda: manager._prev_prev_action),
        ]
        for name in manager.active_terms:
            term = manager.get_term(name)
            found.append(Candidate(f"last_action.{name}", lambda term=term: term.raw_action))
        return found

    def rings(self, names: Sequence[str]) -> list[Ring]:
        found = [*buffers.of_groups(self.env, names)]
        return [*found, *buffers.of_actuators(self.env)] if self.written == "ctrl" else found

    def outputs(self) -> list[Candidate]:
        if self.written == "ctrl":
            return outputs.controls(self.env)
        return outputs.targets(self.env)

    def problems(self, names: Sequence[str]) -> list[Finding]:
        return problems.problems(self, names)

    def metadata(self, names: Sequence[str]) -> dict[str, str]:
        return robot.metadata(self.env, self.groups(), names)

    def randomised(self) -> list[Candidate]:
        return state.randomised(self.env)

    @property
    def tick_s(self) -> float:
        return float(self.env.physics_dt)


def _group(manager: Any, name: str) -> GroupTerms:
    cfg = manager.cfg[name]
    shape = manager.group_obs_dim[name]
    terms = []
    for term, size in zip(
        manager.active_terms[name], manager.group_obs_term_dim[name], strict=True
    ):
        said = manager.get_term_cfg(name, term)
        terms.append(
            Term(
                name=term,
                shape=tuple(size),
                scale=None if said.scale is None else _numbers(said.scale),
                clip=said.clip,
                history=said.history_length,
                delay=(said.delay_min_lag, said.delay_max_lag),
                noise="" if said.noise is None else type(said.noise).__name__,
            )
        )
    return GroupTerms(
        name=name,
        shape=tuple(shape) if cfg.concatenate_terms else (),
        terms=tuple(terms),
        concatenated=bool(cfg.concatenate_terms),
        corrupted=bool(cfg.enable_corruption),
        nan_policy=cfg.nan_policy,
    )


def _numbers(scale: Any) -> float | tuple[float, ...]:
    values = torch.as_tensor(scale).tolist()
    return tuple(values) if isinstance(values, list) else values
