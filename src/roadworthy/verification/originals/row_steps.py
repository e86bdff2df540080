"""A module that keeps the state of one row, stepped for many: each row is called alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from roadworthy.capture import memory as remembered
from roadworthy.capture.forms import copied
from roadworthy.capture.memory import Tensors
from roadworthy.capture.source import Source
from roadworthy.spec.port import BATCH, Array, Memory, Port
from roadworthy.spec.run import Arrays
from roadworthy.spec.signature import Signature
from roadworthy.verification.originals.module import ModuleSteps


class RowSteps(ModuleSteps):
    """The caller's module as it is: its counters are numbers, its first call finds no state.

    A group is a row with a state of its own; where the number of rows is fixed, all of them.
    """

    def __init__(
        self,
        source: Source,
        signature: Signature,
        rows: int,
        slots: tuple[remembered.Slot, ...] | None = None,
    ) -> None:
        self._states: list[dict[str, Any]] = []
        self._fed: list[Tensors] = []
        self._begun: list[bool] = []
        super().__init__(source, signature, rows, slots)

    def reset(self, mask: Array | None = None) -> None:
        together = bool(self._signature.fixed_rows)
        groups = 1 if together else self.rows
        if mask is None or mask.all():
            self._states = [{} for _ in range(groups)]
            self._fed = [{} for _ in range(groups)]
            self._begun = [False] * groups
            begun = list(range(groups))
        else:
            begun = [0] if together else [int(row) for row in np.flatnonzero(mask)]
        for group in begun:
            self._states[group] = {str(s.path): self._start(s) for s in self._attributes}
            inside = {port for slot in self._attributes for port in slot.ports}
            self._fed[group] = {
                memory.name: torch.from_numpy(memory.fresh(self._group_rows))
                for memory in self._signature.memory
                if memory.name not in inside and memory.name != self._composed.started
            }
            self._begun[group] = False

    @property
    def _group_rows(self) -> int:
        return self.rows if self._signature.fixed_rows else 1

    def _start(self, slot: remembered.Slot) -> Any:
        start = self._starts[str(slot.path)]
        if slot.start is not None or not remembered.alike(start, slot.form.template):
            return copied(start)
        fresh = {
            memory.name: torch.from_numpy(memory.fresh(self._group_rows))
            for memory in self._signature.memory
        }
        return slot.form.pack_alone(fresh)

    def step(self, inputs: Mapping[str, Array]) -> Arrays:
        results = []
        for group in range(len(self._states)):
            given = {
                port.name: torch.from_numpy(np.array(self._rows_of(port, inputs[port.name], group)))
                for port in self._signature.inputs
            }
            results.append(self._step_group(group, given))
        if len(results) == 1:
            return results[0]
        return {
            port.name: np.concatenate([each[port.name] for each in results], _axis(port))
            for port in self._signature.outputs
        }

    def _step_group(self, group: int, given: Tensors) -> Arrays:
        module = self._composed.module
        for path, value in self._states[group].items():
            remembered.set_attribute(module, path, value)
        outputs, after = self._called(given, self._fed[group])
        self._fed[group] = {name: after[name] for name in self._fed[group]}
        # Buffers are written in place: what one row left there is not for the next.
        self._states[group] = {
            path: copied(remembered.attribute(module, path)) for path in self._states[group]
        }
        self._begun[group] = True
        return {name: value.numpy().copy() for name, value in outputs.items()}

    def _rows_of(self, port: Port, array: Array, group: int) -> Array:
        if self._signature.fixed_rows or BATCH not in port.shape:
            return array
        return np.take(array, [group], axis=_axis(port))

    def memory_tensors(self) -> Tensors:
        groups = [self._group_memory(group) for group in range(len(self._states))]
        return {
            memory.name: torch.cat([each[memory.name] for each in groups], _axis(memory))
            if len(groups) > 1
            else groups[0][memory.name]
            for memory in self._signature.memory
        }

    def _group_memory(self, group: int) -> Tensors:
        found = dict(self._fed[group])
        for slot in self._attributes:
            held = self._states[group][str(slot.path)]
            if remembered.alike(held, slot.form.template):
                values = slot.form.unpack(held, str(slot.path))
                found |= {port: remembered.as_tensor(value) for port, value in values.items()}
        if self._composed.started:
            found[self._composed.started] = torch.tensor(self._begun[group])
        laid = {}
        for memory in self._signature.memory:
            fresh = torch.from_numpy(memory.fresh(self._group_rows))
            began = self._begun[group] or memory.name not in self._made_first()
            value = found.get(memory.name) if began else None
            laid[memory.name] = (
                fresh if value is None else value.detach().to(fresh.dtype).reshape(fresh.shape)
            )
        return laid

    def _made_first(self) -> set[str]:
        """The ports that have no value before the first call of an episode."""
        return {port for slot in self._attributes if slot.start for port in slot.ports}


def _axis(port: Port | Memory) -> int:
    return port.shape.index(BATCH) if BATCH in port.shape else 0
