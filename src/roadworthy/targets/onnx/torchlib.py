"""torch.onnx with its table of operators kept: it reads 500 functions anew at every export.

No public name takes such a table, so this goes one step inside `torch.onnx.export`, to the function
that it calls itself. Nothing is patched; where torch has changed inside, the public call is made.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from roadworthy.targets.onnx.bounded import keep_tanh_bounded
from roadworthy.targets.onnx.near_constants import keep_near_constants
from roadworthy.targets.onnx.rewriting import optimize
from roadworthy.targets.onnx.settled import settled

if TYPE_CHECKING:
    from torch.onnx._internal.exporter._registration import ONNXRegistry

_lock = threading.Lock()
# By opset: the table, and how many operators and functions there were when it was made.
_kept: dict[int, tuple[ONNXRegistry, tuple[int, int]]] = {}


def onnx_program(
    graph: torch.export.ExportedProgram,
    opset: int,
    translations: Mapping[Any, Callable[..., Any]],
) -> torch.onnx.ONNXProgram:
    """What `torch.onnx.export` gives for the graph; the operators are read once, and numbers that
    are nearly 0 or 1 are not taken for those."""
    export: Callable[..., torch.onnx.ONNXProgram | None]
    try:
        export = _with_kept_table(opset, translations)
    except Exception:  # what is private may change in any way; a user's mistake is met again below
        export = functools.partial(
            torch.onnx.export, dynamo=True, custom_translation_table=dict(translations)
        )
    program = export(graph, opset_version=opset, verbose=False, optimize=False)
    assert program is not None
    keep_near_constants(program.model)
    keep_tanh_bounded(program.model)
    optimize(program)
    return program


def _with_kept_table(
    opset: int, translations: Mapping[Any, Callable[..., Any]]
) -> Callable[..., torch.onnx.ONNXProgram]:
    """torch's exporter with a table of its own; raises if torch is not as it is known here."""
    from torch.onnx._internal.exporter import _constants, _core

    given = inspect.signature(_core.export).parameters
    if not {"registry", "opset_version", "verbose"} <= set(given):
        raise TypeError("torch's exporter takes no table")
    table = _table(max(opset, _constants.TORCHLIB_OPSET))
    for operator, function in translations.items():
        table.register_op(operator, function)
    written = {each[0].fx_target for each in table.functions.values()}

    def export(graph: torch.export.ExportedProgram, **said: Any) -> torch.onnx.ONNXProgram:
        return _core.export(settled(graph, written), registry=table, **said)

    return export


def _table(opset: int) -> ONNXRegistry:
    """A copy of the table of an opset, so that translations stay with the export they are for."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    with _lock:
        if opset not in _kept or _kept[opset][1] != _counted():
            # Counted afterwards: reading torchlib is what registers most of it.
            _kept[opset] = ONNXRegistry.from_torchlib(opset_version=opset), _counted()
        kept = _kept[opset][0]
    own = {name: list(functions) for name, functions in kept.functions.items()}
    table = ONNXRegistry()
    vars(table).update(vars(kept), functions=own)
    return table


def _counted() -> tuple[int, int]:
    """How many operators torch knows, and how many functions torchlib has for them.

    Both only grow, and the table with them: torchvision's operators are in it once it is imported.
    """
    from onnxscript.function_libs.torch_lib.registration import default_registry

    functions = sum(len(each.overloads) + len(each.complex) for each in default_registry.values())
    return len(torch._C._dispatch_get_all_op_names()), functions
