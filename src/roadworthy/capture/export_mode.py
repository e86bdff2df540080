"""Export mode: a module on the CPU, evaluating, on one thread; handed back as it was."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import torch

from roadworthy.capture.devices import named_devices_are_here, new_tensors_are_here
from roadworthy.capture.plain_parts import plain_parts
from roadworthy.capture.source import Source
from roadworthy.errors import UsageError
from roadworthy.inspection.putting_back import ignoring
from roadworthy.inspection.snapshot import preserved
from roadworthy.inspection.walking import walk

# New objects after which Python may look for cycles; usually 700.
SELDOM = 50_000
# Rounds among the younger objects after which it may look at all of them; usually 10.
SELDOM_ALL = 100


@contextmanager
def export_mode(source: Source) -> Iterator[None]:
    """The module and its normalisers on the CPU and in evaluation mode, until the block ends."""
    original = [] if source.rewritten is None else [source.rewritten.module]
    modules = [source.module, *original, *_modules(source)]
    _refuse_lazy(source.module)
    for module in modules:
        _refuse_sparse(module)
    with (
        uncompiled(),
        ignoring(source.ignore),
        preserved(*modules),
        one_thread(),
        _not_training(modules),
        named_devices_are_here(modules),
        new_tensors_are_here(),
    ):
        for module in modules:
            module.eval()
            for _, value in walk(module):
                if isinstance(value, torch.Tensor) and value.device.type not in ("cpu", "meta"):
                    value.data = value.data.cpu()
        yield


@contextmanager
def analysis_mode(source: Source) -> Iterator[None]:
    """Export mode for what is to be analysed and captured: in Python from top to bottom."""
    with export_mode(source), plain_parts(source.module):
        yield


@contextmanager
def _not_training(modules: Sequence[torch.nn.Module]) -> Iterator[None]:
    """No parameter asks for gradients: torch.export writes down which do, and it means nothing."""
    training = [each for module in modules for each in module.parameters() if each.requires_grad]
    for parameter in training:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in training:
            parameter.requires_grad_(True)


@contextmanager
def one_thread() -> Iterator[None]:
    """Policies are small: on a busy machine a second thread makes a step 100 times slower."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def uncompiled() -> AbstractContextManager[object]:
    """What `torch.compile` made is called as it was written: the same function, and no wait."""
    stance: AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
    return stance


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Python seldom looks for cycles among its objects, until the block ends.

    Around a simulator there are a million of them, all in use, and a snapshot makes thousands more:
    to look through them again and again was a tenth of an export.
    """
    before = gc.get_threshold()
    if before[0]:  # zero is never
        gc.set_threshold(max(before[0], SELDOM), before[1], max(before[2], SELDOM_ALL))
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _refuse_lazy(module: torch.nn.Module) -> None:
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if torch.nn.parameter.is_lazy(tensor):
            raise UsageError(
                "the parameter has no size yet: its lazy module has never run",
                where=f"{type(module).__name__}.{name}",
                hint="load the trained weights, or call the module once",
            )


def _refuse_sparse(module: torch.nn.Module) -> None:
    for name, tensor in walk(module):
        if isinstance(tensor, torch.Tensor) and tensor.layout is not torch.strided:
            raise UsageError(
                f"the tensor is {tensor.layout}, and an artifact has dense ones",
                where=f"{type(module).__name__}.{name}",
                hint=f"make it dense before the export: {name}.to_dense(); multiply with @",
            )


def _modules(source: Source) -> list[torch.nn.Module]:
    return [n for n in source.normalizers().values() if isinstance(n, torch.nn.Module)]
