"""A device that the code names, such as cuda: the export runs on the CPU, and so does the code."""

from __future__ import annotations

import dis
import functools
import inspect
import linecache
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from roadworthy.capture.moving import KINDS, compares_idly, only_moves
from roadworthy.errors.lines import LIBRARIES

CPU = torch.device("cpu")
# What stays as it is: the processor, and tensors that have no values anywhere.
_KEPT = ("cpu", "meta")


@contextmanager
def named_devices_are_here(modules: Iterable[torch.nn.Module]) -> Iterator[None]:
    """Whatever device the code of the modules names, the CPU is meant; until the block ends.

    Where no code names one nothing is in the way of the operators.
    """
    if not any(_names_one(module) for module in modules):
        yield
        return
    with _OnCpu():
        yield


@contextmanager
def new_tensors_are_here() -> Iterator[None]:
    """What is made without a device is made on the CPU, whatever `set_default_device` said."""
    if torch.get_default_device() == CPU:
        yield
        return
    with CPU:
        yield


@contextmanager
def whole_float32() -> Iterator[None]:
    """Float32 on a GPU with all its digits: TF32 keeps ten bits, and would not be the policy's."""
    products, networks = torch.backends.cuda.matmul, torch.backends.cudnn
    before = products.allow_tf32, networks.allow_tf32
    products.allow_tf32 = networks.allow_tf32 = False
    try:
        yield
    finally:
        products.allow_tf32, networks.allow_tf32 = before


class AsksForDevice(RuntimeError):
    """Code that computes one thing on a GPU and another elsewhere: which of them is the policy?"""

    def __init__(self, asked: str) -> None:
        super().__init__(f"forward asks whether a tensor is on a GPU ({asked})")


class _OnCpu(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.Tensor.cuda:
            return args[0]
        if func == _IS_CUDA:
            asking = _asking(sys._getframe(1))
            if asking is not None and not only_moves(asking.f_code, asking.f_lineno):
                raise AsksForDevice("is_cuda")
        if func == _DEVICE:
            asking = _asking(sys._getframe(1))
            if asking is not None and _compares_device(asking.f_code):
                raise AsksForDevice("device.type")
        if kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": _here(kwargs["device"])}
        if func is torch.Tensor.to:
            args = (args[0], *(_here(each) for each in args[1:]))
        return func(*args, **kwargs)


_IS_CUDA = torch.Tensor.is_cuda.__get__  # type: ignore[attr-defined]
_DEVICE = torch.Tensor.device.__get__


def _here(device: Any) -> Any:
    """The CPU for a device that is another one; anything else as it is."""
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device) and device.type not in _KEPT:
        return CPU
    if isinstance(device, int) and not isinstance(device, bool):
        return CPU
    return device


def _asking(frame: FrameType | None) -> FrameType | None:
    """The code that asks; None where it is a library's. Modes of ours only hand it on."""
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package != "roadworthy":
            return None if package in LIBRARIES else frame
        frame = frame.f_back
    return None


@functools.cache
def _compares_device(code: CodeType) -> bool:
    """Whether a function compares the kind of a device with a name: `x.device.type == "cuda"`.

    That the kind is passed on, as to `torch.autocast`, is no question; nor is a branch that moves.
    """
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    compared = any(
        one.opname == "LOAD_ATTR"
        and one.argval == "type"
        and two.opname == "LOAD_CONST"
        and not KINDS.isdisjoint(two.argval if isinstance(two.argval, tuple) else (two.argval,))
        and three.opname in ("COMPARE_OP", "CONTAINS_OP")
        for one, two, three in zip(steps, steps[1:], steps[2:], strict=False)
    )
    return compared and not compares_idly(code)


def _names_one(module: torch.nn.Module) -> bool:
    """Whether the files of the classes of its parts speak of devices; unknown files may."""
    classes = {type(each) for each in module.modules()}
    return any("cuda" in text or "device" in text for text in map(_text, classes))


def _text(kind: type) -> str:
    if kind.__module__.partition(".")[0] == "torch":
        return ""
    try:
        return "".join(linecache.getlines(inspect.getsourcefile(kind) or ""))
    except (TypeError, OSError):  # a class that no file holds may name anything
        return "device"
