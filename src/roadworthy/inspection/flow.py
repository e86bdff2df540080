"""Where the values of some tensors go during a call: into a result, or into a Python decision."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from roadworthy.inspection.standins import Ledger
from roadworthy.operators.captured import row_of

# Methods that hand the numbers to Python without an operator.
_LEAVING = ("numpy", "tolist", "__array__", "data_ptr", "untyped_storage", "storage", "__dlpack__")


class Flow(TorchDispatchMode):
    """Follows tensors through every operator. What it has marked it keeps alive."""

    def __init__(self, ledger: Ledger, untouched: Iterable[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._ledger = ledger
        self._marked: dict[int, torch.Tensor] = {}
        self._storages: set[int] = set()
        # Views of weights are nobody's state, whoever holds one.
        shared = {_storage(each) for each in untouched}
        for tensor in ledger.tensors:
            self._marked[id(tensor)] = tensor
            if _storage(tensor) not in shared:
                self._storages.add(_storage(tensor))
        self._shared = shared

    def reaches(self, results: Iterable[object]) -> bool:
        return any(isinstance(each, torch.Tensor) and self.marks(each) for each in results)

    def marks(self, tensor: torch.Tensor) -> bool:
        return id(tensor) in self._marked or _storage(tensor) in self._storages

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # Looking at storages must not look like the user's looking at them.
        with torch._C.DisableTorchFunction():
            return self._followed(func, args, kwargs or {})

    def _followed(self, func: Any, args: Any, named: dict[str, Any]) -> Any:
        arguments = func._schema.arguments
        given = [*zip(arguments, args, strict=False)]
        given += [(each, named[each.name]) for each in arguments if each.name in named]
        written = [
            each
            for argument, value in given
            if argument.alias_info is not None and argument.alias_info.is_write
            for each in _tensors(value)
        ]
        overwrites = row_of(func).overwrites or "out" in named
        read = [
            each
            for _, value in given
            for each in _tensors(value)
            if not (overwrites and any(each is other for other in written))
        ]
        marked = any(self.marks(each) for each in read)
        result = func(*args, **named)
        made = list(_tensors(result))
        if marked and not made:
            self._ledger.note()
        for each in (*made, *written):
            if marked:
                self._mark(each)
            elif any(each is other for other in written) and overwrites and _is_whole(each):
                self._unmark(each)
        return result

    def _mark(self, tensor: torch.Tensor) -> None:
        self._marked[id(tensor)] = tensor
        if _storage(tensor) not in self._shared:
            self._storages.add(_storage(tensor))

    def _unmark(self, tensor: torch.Tensor) -> None:
        self._marked.pop(id(tensor), None)
        self._storages.discard(_storage(tensor))


class Leaving(TorchFunctionMode):
    """Notes marked tensors that are handed to NumPy or to lists."""

    def __init__(self, flow: Flow, ledger: Ledger) -> None:
        super().__init__()
        self._flow = flow
        self._ledger = ledger

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in _LEAVING and self._flow.reaches(args[:1]):
            self._ledger.note()
        return func(*args, **(kwargs or {}))


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [each for item in value for each in _tensors(item)]
    return []


def _storage(tensor: torch.Tensor) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except NotImplementedError:  # sparse, quantised: these have no storage of their own
        return id(tensor)


def _is_whole(tensor: torch.Tensor) -> bool:
    """Whether a tensor covers all of its storage."""
    return tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes()
