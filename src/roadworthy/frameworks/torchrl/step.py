"""One step of a policy: named tensors in, named tensors out, a TensorDict in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from tensordict import TensorDict
from tensordict.nn import InteractionType, set_interaction_type
from torch import Tensor, nn
from torchrl.modules import set_recurrent_mode

from roadworthy.frameworks.torchrl.draws import Draws, Noise
from roadworthy.frameworks.torchrl.keys import NestedKey, is_within
from roadworthy.frameworks.torchrl.stage import Stage, run_stages


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """Which key is which port.

    `memory` maps a name to the key that is read and the key that is written for the next step;
    `flags` are the keys that say where an episode begins, and `begins` those of them that are
    memory, true until the first step; `groups` are nested TensorDicts with
    batch axes behind the rows, such as agents, and how many.
    """

    inputs: Mapping[str, NestedKey]
    outputs: Mapping[str, NestedKey]
    memory: Mapping[str, tuple[NestedKey, NestedKey]]
    flags: Sequence[NestedKey] = ()
    begins: Mapping[str, NestedKey] = field(default_factory=dict)
    groups: Mapping[NestedKey, int] = field(default_factory=dict)
    noise: Sequence[Noise] = ()

    def with_noise(self, noise: Sequence[Noise]) -> Wiring:
        """The same with noise ports, none of which has the name of another port."""
        taken = {*self.inputs, *self.outputs, *self.memory, *self.begins}
        free = [replace(each, name=f"policy_{each.name}" if each.name in taken else each.name)
                for each in noise]  # fmt: skip
        return replace(self, noise=tuple(free))


class Step(nn.Module):
    """The whole policy as one module: stages in order, whose arguments are the ports, by name."""

    def __init__(
        self, stages: Sequence[Stage], wiring: Wiring, interaction_type: InteractionType | None
    ) -> None:
        super().__init__()
        # The names of initializers in ONNX files contain the name of this attribute.
        self.parts = nn.ModuleList(stages)
        self.wiring = wiring
        self.interaction_type = interaction_type
        self.starting: Tensor | None = None

    def begin(self, rows: Tensor) -> None:
        """These rows begin an episode at the next step; TorchRL's modules are told so."""
        self.starting = rows if self.starting is None else self.starting | rows

    def forward(self, **tensors: Tensor) -> dict[str, Tensor]:
        values = self._filled(tensors)
        noise = [tensors[each.name] for each in self.wiring.noise]
        with ExitStack() as modes:
            modes.enter_context(set_interaction_type(self.interaction_type))
            modes.enter_context(set_recurrent_mode(False))
            if self.wiring.noise:
                modes.enter_context(Draws(noise))
            values = run_stages(self.parts, values)
        self.starting = None
        return {
            **{name: values.get(key) for name, key in self.wiring.outputs.items()},
            **{name: values.get(after) for name, (_, after) in self.wiring.memory.items()},
            **{name: torch.zeros_like(tensors[name]) for name in self.wiring.begins},
        }

    def draws(self, tensors: Mapping[str, Tensor]) -> Draws:
        """The draws that a step makes."""
        listed = Draws()
        with set_interaction_type(self.interaction_type), set_recurrent_mode(False), listed:
            run_stages(self.parts, self._filled(tensors))
        return listed

    def _filled(self, tensors: Mapping[str, Tensor]) -> TensorDict:
        rows = next(iter(tensors.values())).shape[0]
        values = TensorDict(batch_size=[rows])
        for key, axes in self.wiring.groups.items():
            # The sizes are those of this very step: an axis may be dynamic.
            inside = next(n for n, each in self.wiring.inputs.items() if is_within(each, key))
            values.set(key, TensorDict(batch_size=tensors[inside].shape[: 1 + axes]))
        for name, key in self.wiring.inputs.items():
            values.set(key, tensors[name])
        for name, (before, _) in self.wiring.memory.items():
            values.set(before, tensors[name])
        for name, key in self.wiring.begins.items():
            values.set(key, tensors[name])
        for key in self.wiring.flags:
            values.set(key, self._flags(rows))
        return values

    def _flags(self, rows: Any) -> Tensor:
        if self.starting is None:
            return torch.zeros(rows, 1, dtype=torch.bool)
        return self.starting.reshape(-1, 1)
