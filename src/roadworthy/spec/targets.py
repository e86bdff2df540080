"""The table of targets: the forms that a policy takes, one row each.

Everything that lists targets reads it: backends, engines, bundles, the command line, the tests.
A new target is a backend, an engine and a row here. Classes and functions are named as
"module:name" and imported when they are used, so that reading the table costs nothing.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from roadworthy.errors import UsageError, did_you_mean

DEFAULT = "onnx"
# What an ONNX file may be written as.
OPSETS = range(18, 24)
IR_VERSIONS = range(8, 12)
# Where a target is not named: what runs best on a device comes first.
PREFERRED = {"cuda": ("torch_export", "aoti", "onnx"), "wasm": ("c",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One form of a policy.

    files    what it writes, relative to the bundle; engines open the first, which has the others
             beside it ("c/policy.c" is fine)
    backend  the class that writes it
    engines  device → the class that runs it there
    about    what it is for, as a phrase
    stage    what is said while it is written
    code     why opening it runs what its author put into it; empty where it is data
    graph    the function that shows its graph as lines; empty where there is none to show
    made_from  the target from whose data its engine can make it again, so that no trust is needed
    """

    name: str
    files: tuple[str, ...]
    backend: str
    engines: Mapping[str, str]
    about: str
    stage: str
    code: str = ""
    graph: str = ""
    made_from: str = ""


_ROWS = (
    Target(
        name="onnx",
        files=("policy.onnx",),
        backend="roadworthy.targets.onnx.backend:OnnxBackend",
        engines={
            "cpu": "roadworthy.runtime.engine:OnnxEngine",
            "cuda": "roadworthy.runtime.engine:OnnxEngine",
            "tensorrt": "roadworthy.runtime.engine:OnnxEngine",
        },
        about="one file that runs anywhere, without PyTorch",
        stage="writing ONNX",
        graph="roadworthy.cli.graph:onnx_lines",
    ),
    Target(
        name="torch_export",
        files=("policy.pt2",),
        backend="roadworthy.targets.torch_export:TorchExportBackend",
        engines={
            "cpu": "roadworthy.runtime.torch_engines:TorchExportEngine",
            "cuda": "roadworthy.runtime.cuda_engines:CudaEngine",
        },
        about="the captured graph, for PyTorch",
        stage="writing torch.export",
        code="reading it may unpickle objects of its author's choice",
        graph="roadworthy.cli.graph:torch_export_lines",
    ),
    Target(
        name="aoti",
        files=("policy.aoti.pt2",),
        backend="roadworthy.targets.aoti:AotiBackend",
        engines={
            "cpu": "roadworthy.runtime.torch_engines:AotiEngine",
            "cuda": "roadworthy.runtime.cuda_engines:CudaEngine",
        },
        about="a library compiled for this kind of processor, for PyTorch",
        stage="compiling with g++ (takes tens of seconds)",
        code="it holds a compiled library that is loaded into this process",
    ),
    Target(
        name="c",
        files=("c/policy.c", "c/policy.h", "c/selftest.c", "c/CMakeLists.txt"),
        backend="roadworthy.targets.c_backend:CBackend",
        engines={
            "cpu": "roadworthy.runtime.c_engine:CEngine",
            "wasm": "roadworthy.runtime.wasm_engine:WasmEngine",
        },
        about="C99 without dependencies, for a robot, a microcontroller or a browser",
        stage="writing C",
        code="it is compiled as its author wrote it, and loaded into this process",
        made_from="onnx",
    ),
)
TARGETS: Mapping[str, Target] = {row.name: row for row in _ROWS}


def names() -> tuple[str, ...]:
    """Every target, in the order of the table."""
    return tuple(TARGETS)


def get(name: str, others: Iterable[str] = ()) -> Target:
    """The row of a target, or an error that names the nearest, of `others` too."""
    if name not in TARGETS:
        writer = next((row.name for row in _ROWS if name in row.engines), None)
        raise UsageError(
            f"there is no target {name!r}",
            hint=f"{name!r} is where a policy runs, and targets=[{writer!r}] what is written for "
            f"it: rw.load(folder, device={name!r})"
            if writer
            else did_you_mean(str(name), (*TARGETS, *others)),
        )
    return TARGETS[name]


def placed(engine: str | None, device: str) -> tuple[str | None, str]:
    """The target and the device that are meant: "wasm" is the name of both."""
    return ("c", "wasm") if engine == "wasm" and device in ("cpu", "wasm") else (engine, device)


def refuse_other_versions(opset: int, ir_version: int) -> None:
    """An error for an ONNX file that is not written: torch.onnx would silently write another."""
    for name, value, known in (("opset", opset, OPSETS), ("ir_version", ir_version, IR_VERSIONS)):
        if value not in known:
            raise UsageError(
                f"{name} {value} is not supported", hint=f"choose {known[0]} to {known[-1]}"
            )


def preferred(device: str, present: tuple[str, ...]) -> str:
    """The target that is taken for a device where none is named, of those that are there."""
    order = PREFERRED.get(kind(device), (DEFAULT,))
    return next((name for name in order if name in present), order[0])


def kind(device: str) -> str:
    """The kind of a device: "cuda" for "cuda:1"."""
    return device.partition(":")[0]


def imported(place: str) -> object:
    """What "module:name" names."""
    module, _, name = place.partition(":")
    found: object = getattr(importlib.import_module(module), name)
    return found
