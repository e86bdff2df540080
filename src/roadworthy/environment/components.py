"""The vocabulary: what of an environment enters the graph, leaves it, or persists in it.

A component names a tensor of the environment by a callback that returns it: the stored tensor
itself or a view of it, or a Python number that an attribute holds. The callback is asked anew at
each use, so tensors may be rebound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from roadworthy.spec.port import Array

GetTensor = Callable[[], torch.Tensor]
# What a user's callback may return: a number of the environment stands for a tensor without axes.
Callback = Callable[[], Any]
# 32 bits: Exploy's controller has no others, and ONNX graphs round Python's floats to them.
_NUMBERS = {bool: torch.bool, int: torch.int32, float: torch.float32}


def is_number(value: object) -> bool:
    return isinstance(value, (bool, int, float, np.generic))


def as_tensor(value: Any) -> torch.Tensor:
    """The value of a callback: a tensor as it is, a number as a tensor without axes."""
    if isinstance(value, np.generic):
        value = value.item()
    dtype = _NUMBERS.get(type(value))
    return value if dtype is None else torch.tensor(value, dtype=dtype)


class _Component:
    """A name, a way to find the tensor, and whatever is to be known about it."""

    def __init__(self, name: str, get_from_env_cb: Callback, metadata: Any = None) -> None:
        self._name = name
        self._get_from_env_cb = get_from_env_cb
        self._metadata = metadata
        self._group = ""

    @property
    def name(self) -> str:
        return f"{self._group}.{self._name}" if self._group else self._name

    @property
    def metadata(self) -> Any:
        return self._metadata

    @property
    def get_from_env_cb(self) -> Callback:
        return self._get_from_env_cb

    def belongs_to(self, group: str) -> None:
        self._group = f"{group}.{self._group}" if self._group else group


class Input(_Component):
    """Raw state that is read from the robot or the simulator."""

    def __init__(self, name: str, get_from_env_cb: Callback, metadata: Any = None) -> None:
        super().__init__(name, get_from_env_cb, metadata)
        self._data: torch.Tensor | None = None

    @property
    def input_name(self) -> str:
        return self.name

    @property
    def input_data(self) -> torch.Tensor:
        """The value at the last `read`, or the present one."""
        return as_tensor(self._get_from_env_cb()) if self._data is None else self._data

    @property
    def input_data_numpy(self) -> Array:
        array: Array = self.input_data.detach().cpu().numpy()
        return array

    def read(self) -> None:
        """Keep the present value."""
        self._data = as_tensor(self._get_from_env_cb()).detach().clone()


class Output(_Component):
    """A computed value that is sent to the robot or the simulator."""

    @property
    def output_name(self) -> str:
        return self.name

    @property
    def value(self) -> torch.Tensor:
        return as_tensor(self._get_from_env_cb())

    @property
    def value_numpy(self) -> Array:
        array: Array = self.value.detach().cpu().numpy()
        return array


class Memory(Input, Output):
    """A value that one step leaves for the next."""

    @property
    def input_name(self) -> str:
        return f"memory.{self.name}.in"

    @property
    def output_name(self) -> str:
        return f"memory.{self.name}.out"

    def io_name_to_name(self, io_name: str) -> str:
        """The memory's name, of the name of one of its ports."""
        return io_name.removeprefix("memory.").removesuffix(".in").removesuffix(".out")

    def io_name_to_output_name(self, io_name: str) -> str:
        """The name of the port that leaves, of the name of the one that enters."""
        return f"{io_name.removesuffix('.in')}.out"


class Group:
    """Components that belong together: `item` becomes `group.item`."""

    def __init__(
        self, name: str, items: list[Input | Output | Group], metadata: Any = None
    ) -> None:
        self.name = name
        self.items = list(items)
        self.metadata = metadata
        for item in self.items:
            item.belongs_to(name)

    def belongs_to(self, group: str) -> None:
        self.name = f"{group}.{self.name}"
        for item in self.items:
            item.belongs_to(group)


class Connection:
    """A value that is copied from one place to another before each step."""

    def __init__(
        self, name: str, getter: GetTensor, setter: Callable[[torch.Tensor], None]
    ) -> None:
        self.name = name
        self._getter = getter
        self._setter = setter

    def write(self) -> None:
        self._setter(self._getter())
