"""mjlab's simulation, for an environment whose managers have the usual names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from roadworthy.errors import Finding
from roadworthy.frameworks.managers.dialect import Candidate, Ring
from roadworthy.frameworks.managers.named import NamedManagers
from roadworthy.frameworks.managers.rings import of_groups
from roadworthy.frameworks.mjlab import buffers, facts, outputs, problems, robot, state
from roadworthy.inspection.unwatched import unwatched
from roadworthy.spec.robot import Robot

Written = Literal["targets", "ctrl"]
# What of the simulation runs in mujoco_warp alone.
_SIMULATES = ("step", "forward", "sense")


class MjlabDialect(NamedManagers):
    """A `ManagerBasedRlEnv`; `written` says whether the file ends at the targets of the joints or
    goes on through the actuators' delays and laws to the simulator's controls."""

    def __init__(self, env: Any, written: Written = "targets") -> None:
        super().__init__(env)
        self.written = written
        self.apply_ends_tick = written == "targets"

    @contextmanager
    def routed(
        self, observe: Callable[[Callable[[], object]], object], apply: Callable[[], None]
    ) -> Iterator[None]:
        held = vars(self.env.sim)
        before = dict(held)
        held |= {name: unwatched(getattr(self.env.sim, name)) for name in _SIMULATES}
        try:
            with super().routed(observe, apply):
                yield
        finally:
            for name in _SIMULATES:
                held.pop(name)
                held |= {name: before[name]} if name in before else {}

    def settle(self) -> None:
        for entity in self.env.scene.entities.values():
            entity.data.encoder_bias.zero_()

    def left_out(self, names: Sequence[str]) -> list[str]:
        # Set to zero, as `settle` says.
        biased = [n for n, e in self.env.scene.entities.items() if e.data.encoder_bias.any()]
        return [*super().left_out(names), *(f"encoder_bias of {name}" for name in biased)]

    def inputs(self) -> list[Candidate]:
        return state.inputs(self.env)

    def rings(self, names: Sequence[str]) -> list[Ring]:
        found = [*of_groups(self.env, names)]
        return [*found, *buffers.of_actuators(self.env)] if self.written == "ctrl" else found

    def outputs(self) -> list[Candidate]:
        if self.written == "ctrl":
            return outputs.controls(self.env)
        return outputs.targets(self.env)

    def problems(self, names: Sequence[str]) -> list[Finding]:
        return problems.problems(self, names)

    def metadata(self, names: Sequence[str]) -> dict[str, str]:
        return facts.metadata(self.env, self.groups(), names)

    def robot(self, names: Sequence[str], outputs: Mapping[str, Sequence[str]]) -> Robot | None:
        return robot.robot(self.env, self.groups(), names, outputs)

    def randomised(self) -> list[Candidate]:
        return state.randomised(self.env)
