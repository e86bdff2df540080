"""The context manager: everything that was registered, by kind and by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from roadworthy.environment.components import Connection, Group, Input, Memory, Output
from roadworthy.errors import UsageError
from roadworthy.spec.port import Array

Component = Input | Output | Connection


class ContextManager:
    """Holds the components of one environment. Mistakes are reported together, at export."""

    def __init__(self) -> None:
        self._components: list[Component] = []
        self._groups: list[Group] = []
        self._modules: list[torch.nn.Module] = []

    def add_component(self, component: Component) -> None:
        """Register an `Input`, an `Output`, a `Memory` or a `Connection`."""
        if not isinstance(component, (Input, Output, Connection)):
            raise UsageError(
                f"expected an Input, Output, Memory or Connection, got {type(component).__name__}",
                hint="groups are added with add_group, modules with add_module",
            )
        self._components.append(component)

    def add_components(self, components: Sequence[Component]) -> None:
        """Register several at once."""
        for component in components:
            self.add_component(component)

    def add_group(self, group: Group) -> None:
        """Register everything in a group, groups inside of it included."""
        self._groups.append(group)
        for item in group.items:
            if isinstance(item, Group):
                self.add_group(item)
            else:
                self.add_component(item)

    def add_module(self, module: torch.nn.Module) -> None:
        """Say that a module belongs to the environment. Harmless where it is found anyway."""
        if all(module is not known for known in self._modules):
            self._modules.append(module)

    @property
    def modules(self) -> tuple[torch.nn.Module, ...]:
        return tuple(self._modules)

    @property
    def groups(self) -> tuple[Group, ...]:
        return tuple(self._groups)

    def get_input_components(self) -> list[Input]:
        return [each for each in self._components if isinstance(each, Input)]

    def get_output_components(self) -> list[Output]:
        return [each for each in self._components if isinstance(each, Output)]

    def get_memory_components(self) -> list[Memory]:
        return [each for each in self._components if isinstance(each, Memory)]

    def get_connection_components(self) -> list[Connection]:
        return [each for each in self._components if isinstance(each, Connection)]

    def get_component_by_name(self, name: str) -> Input | Output | None:
        for each in self._components:
            if isinstance(each, Output) and each.output_name == name:
                return each
            if isinstance(each, Input) and each.input_name == name:
                return each
        return None

    def read_inputs(self) -> None:
        for each in self.get_input_components():
            each.read()

    def write_connections(self) -> None:
        for each in self.get_connection_components():
            each.write()

    def get_inputs(self, to_numpy: bool = False) -> dict[str, torch.Tensor] | dict[str, Array]:
        found = self.get_input_components()
        if to_numpy:
            return {each.input_name: each.input_data_numpy for each in found}
        return {each.input_name: each.input_data for each in found}

    def get_outputs(self, to_numpy: bool = False) -> dict[str, torch.Tensor] | dict[str, Array]:
        found = self.get_output_components()
        if to_numpy:
            return {each.output_name: each.value_numpy for each in found}
        return {each.output_name: each.value for each in found}

    def get_input_names(self) -> list[str]:
        return [each.input_name for each in self.get_input_components()]

    def get_output_names(self) -> list[str]:
        return [each.output_name for each in self.get_output_components()]

    @property
    def metadata(self) -> dict[str, Any]:
        """Name of a tensor or group → what was said about it."""
        found: dict[str, Any] = {}
        for each in self._components:
            if isinstance(each, (Input, Output)) and each.metadata is not None:
                if isinstance(each, Input):
                    found[each.input_name] = each.metadata
                if isinstance(each, Output):
                    found[each.output_name] = each.metadata
        return found | {g.name: g.metadata for g in self._groups if g.metadata is not None}
