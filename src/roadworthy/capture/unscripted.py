"""Scripted submodules as the Python modules that they were made from, while a graph is captured.

torch.export cannot enter TorchScript. A module that `torch.jit.script` compiled in this process
still knows its Python class; what it holds is put into an instance of that class. The original that
the artifact is compared with stays scripted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from roadworthy.errors import UsageError


@contextmanager
def unscripted(module: torch.nn.Module) -> Iterator[None]:
    """No submodule of `module` is scripted until the block ends."""
    scripted = [
        (owner, name, child)
        for owner in _python_modules(module)
        for name, child in owner._modules.items()
        if isinstance(child, torch.jit.ScriptModule)
    ]
    made: dict[int, torch.nn.Module] = {}
    paths = {id(each): path for path, each in module.named_modules()}
    try:
        for owner, name, child in scripted:
            if id(child) not in made:
                made[id(child)] = _python_module(
                    child, f"{type(module).__name__}.{paths[id(child)]}"
                )
            owner._modules[name] = made[id(child)]
        yield
    finally:
        for owner, name, child in scripted:
            owner._modules[name] = child


def _python_modules(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """The module and those below it, each once, without those that are scripted."""
    for each in list(module.modules()):
        if not isinstance(each, torch.jit.ScriptModule):
            yield each


def _python_module(scripted: torch.jit.ScriptModule, path: str) -> torch.nn.Module:
    """An instance of the class that was scripted, which holds the same tensors and values."""
    known: Any = getattr(scripted, "_concrete_type", None)
    kind = getattr(known, "py_class", None)
    if kind is None or issubclass(kind, torch.jit.ScriptModule):
        raise UsageError(
            "the submodule is TorchScript without its Python class, as torch.jit.load gives it",
            where=path,
            hint="put the Python module there, with its weights: "
            "new.load_state_dict(scripted.state_dict())",
        )
    made: torch.nn.Module = kind.__new__(kind)
    torch.nn.Module.__init__(made)
    made.training = scripted.training
    for name, parameter in scripted.named_parameters(recurse=False):
        made.register_parameter(name, torch.nn.Parameter(parameter.detach(), requires_grad=False))
    for name, buffer in scripted.named_buffers(recurse=False):
        made.register_buffer(name, buffer)
    for name, child in scripted.named_children():
        inner = isinstance(child, torch.jit.ScriptModule)
        made.add_module(name, _python_module(child, f"{path}.{name}") if inner else child)
    held = {*made._parameters, *made._buffers, *made._modules, "training"}
    for name in known.get_attributes():
        if name not in held:
            setattr(made, name, getattr(scripted, name))
    for name, value in known.get_constants().items():
        setattr(made, name, value)
    return made
