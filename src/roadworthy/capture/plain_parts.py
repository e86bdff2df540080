"""Submodules that torch.export cannot enter, in a form that it can, while a graph is captured.

A module that `torch.jit.script` compiled in this process still knows its Python class; what it
holds is put into an instance of that class. The parameters of a `TensorDictParams` have names that
lead nowhere: a plain module takes its place, and whoever reads the attribute gets a TensorDict of
that module's parameters. The original that the artifact is compared with stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from roadworthy.errors import UsageError
from roadworthy.inspection.walking import is_tensordict


@contextmanager
def plain_parts(module: torch.nn.Module) -> Iterator[None]:
    """No submodule of `module` is scripted or a TensorDict, until the block ends."""
    paths = {id(each): path for path, each in module.named_modules()}
    owners = [each for each in module.modules() if not _is_foreign(each)]
    made: dict[int, torch.nn.Module] = {}
    with ExitStack() as undo:
        for owner in owners:
            undo.callback(_restored(owner))
            for name, child in list(owner._modules.items()):
                if child is None or not _is_foreign(child):
                    continue
                if id(child) not in made:
                    made[id(child)] = _plain(child, f"{type(module).__name__}.{paths[id(child)]}")
                if is_tensordict(child):
                    # Under a name of its own: what is read under the old one is a TensorDict.
                    del owner._modules[name]
                    owner._modules[f"{name}_held"] = made[id(child)]
                    _read_as(owner, name, child)
                else:
                    owner._modules[name] = made[id(child)]
        yield


def _restored(owner: torch.nn.Module) -> Callable[[], None]:
    """What gives a module its submodules and its class back."""
    children, kind = dict(owner._modules), type(owner)

    def restore() -> None:
        owner.__class__ = kind
        if list(owner._modules.values()) != list(children.values()):
            owner._modules.clear()
            owner._modules.update(children)

    return restore


def _is_foreign(module: torch.nn.Module) -> bool:
    return isinstance(module, torch.jit.ScriptModule) or is_tensordict(module)


def _plain(child: torch.nn.Module, path: str) -> torch.nn.Module:
    if isinstance(child, torch.jit.ScriptModule):
        return _python_module(child, path)
    holder = torch.nn.Module()
    for key, value in _leaves(child).items():
        holder.register_buffer(_flat(key), value)
    return holder


def _leaves(held: Any) -> dict[Any, torch.Tensor]:
    return dict(held.data.items(include_nested=True, leaves_only=True))


def _flat(key: Any) -> str:
    """`0_weight` for the nested key ("0", "weight")."""
    return key.replace(".", "_") if isinstance(key, str) else "_".join(map(_flat, key))


def _read_as(owner: torch.nn.Module, name: str, held: Any) -> None:
    """Changes the class of `owner`: the attribute is a TensorDict of what stands in its place."""
    layout, kind = held.data, type(owner)

    def read(self: torch.nn.Module) -> Any:
        now = self._modules[f"{name}_held"]
        return layout.named_apply(lambda key, _: getattr(now, _flat(key)), nested_keys=True)

    # Under the names of the class itself, so that its source is found.
    said = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, name: property(read)}
    owner.__class__ = type(kind.__name__, (kind,), said)


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
        if isinstance(child, torch.jit.ScriptModule):
            child = _python_module(child, f"{path}.{name}")
        made.add_module(name, child)
    held = {*made._parameters, *made._buffers, *made._modules, "training"}
    for name in known.get_attributes():
        if name not in held:
            setattr(made, name, getattr(scripted, name))
    for name, value in known.get_constants().items():
        setattr(made, name, value)
    if isinstance(made, torch.nn.RNNBase):
        made._init_flat_weights()  # what the script keeps of the class leaves these lists out
    return made
