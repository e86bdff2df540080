"""Submodules that torch.export cannot enter, in a form that it can, while a graph is captured.

A module that `torch.jit.script` compiled in this process still knows its Python class; what it
holds is put into an instance of that class. A `TensorDictParams`, whose parameters have names that
lead nowhere, becomes a TensorDict of the same tensors. The original that the artifact is compared
with stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from roadworthy.capture.snapshot import is_tensordict
from roadworthy.errors import UsageError


@contextmanager
def plain_parts(module: torch.nn.Module) -> Iterator[None]:
    """No submodule of `module` is scripted or a TensorDict, until the block ends."""
    owners = [each for each in module.modules() if not _is_foreign(each)]
    before = [(owner, dict(owner._modules)) for owner in owners]
    paths = {id(each): path for path, each in module.named_modules()}
    made: dict[int, Any] = {}
    put: list[tuple[torch.nn.Module, str]] = []
    try:
        for owner, children in before:
            for name, child in children.items():
                if child is None or not _is_foreign(child):
                    continue
                path = f"{type(module).__name__}.{paths[id(child)]}"
                plain = made.setdefault(id(child), _plain(child, path))
                if isinstance(plain, torch.nn.Module):
                    owner._modules[name] = plain
                else:
                    del owner._modules[name]
                    vars(owner)[name] = plain
                    put.append((owner, name))
        yield
    finally:
        for owner, name in put:
            vars(owner).pop(name, None)
        for owner, children in before:
            if owner._modules != children:
                owner._modules.clear()
                owner._modules.update(children)


def _is_foreign(module: torch.nn.Module) -> bool:
    return isinstance(module, torch.jit.ScriptModule) or is_tensordict(module)


def _plain(child: torch.nn.Module, path: str) -> Any:
    if isinstance(child, torch.jit.ScriptModule):
        return _python_module(child, path)
    return child.data  # a TensorDict of tensors


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
