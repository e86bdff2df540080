"""Graphs of a few nodes, and C of a few lines, compiled and run."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from roadworthy.runtime import compiler, trust
from roadworthy.spec.onnx_graph import read
from roadworthy.targets.c import kernels, library
from roadworthy.targets.c.constants import HANDED
from roadworthy.targets.c.kernels.panels import PANELS, Panels, Storage
from roadworthy.targets.c.source import HEAD, VECTORS, Code, code, widths

STRICT = (
    "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Wcast-qual", "-Wshadow",
    "-Wundef", "-Wstrict-prototypes", "-Wmissing-prototypes", "-Werror",
)  # fmt: skip


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, np.ndarray],
    outputs: Mapping[str, tuple[Any, Sequence[int]]],
    constants: Mapping[str, np.ndarray] | None = None,
) -> bytes:
    """An ONNX file of some nodes; inputs have the type and shape of examples."""
    graph = helper.make_graph(
        list(nodes), "graph",
        [_declared(name, array.dtype, array.shape) for name, array in inputs.items()],
        [_declared(name, np.dtype(kind), shape) for name, (kind, shape) in outputs.items()],
        [numpy_helper.from_array(a, n) for n, a in (constants or {}).items()],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    return bytes(made.SerializeToString())


def _declared(name: str, dtype: np.dtype, shape: Sequence[int]) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(dtype)
    return helper.make_tensor_value_info(name, kind, shape)


def run(
    given: bytes,
    feeds: Mapping[str, np.ndarray],
    dims: Mapping[str, int] | None = None,
    weights: Storage = "float32",
) -> dict[str, np.ndarray]:
    """What the C of an ONNX file makes of its inputs."""
    graph = read(given)
    written: Code = code(graph, dims or {}, weights)
    made = compiler.library(trust.written(written))
    made.policy_work_size.restype = ctypes.c_size_t
    outputs = {
        declared.name: np.zeros([int(size) for size in declared.shape], declared.dtype)
        for declared in graph.outputs
    }
    work = np.zeros(made.policy_work_size() + 64, np.uint8)
    held = [
        np.ascontiguousarray(array) for kind, array in written.constants.items() if kind in HANDED
    ]
    ins = [np.ascontiguousarray(feeds[each.name]) for each in graph.inputs]
    arrays = [*ins, *outputs.values(), work, *held]
    places = (ctypes.c_void_p * len(arrays))(*(each.ctypes.data for each in arrays))
    made.policy_run(places, 1)
    return outputs


def kernel(text: str, panels: Panels = PANELS) -> ctypes.CDLL:
    """A library with the functions of some C, and the kernels that they call."""
    known = {**library.functions("math.c"), **kernels.functions()}
    parts = [HEAD, widths(panels), VECTORS, *library.called(text, known), text]
    return compiler.library(trust.written_here({"policy.c": "\n\n".join(parts)}))


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def built(folder: Path, *flags: str, compiler_name: str = "gcc", main: str = "selftest.c") -> Path:
    """The program that a folder of C becomes; the compiler's words where it refuses."""
    made = folder / f"program{abs(hash((flags, compiler_name, main)))}"
    words = [compiler_name, *flags, "policy.c", main, "-o", str(made), "-lm"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    return made
