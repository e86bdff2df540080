"""Whether the weights of an original are in a file, whatever the order in which it has them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from roadworthy.errors import need
from roadworthy.spec.port import Array


def absent_weights(weights: Mapping[str, Array], model: bytes) -> list[str]:
    """The names of the matrices whose values are not in the file."""
    onnx: Any = need("onnx", extra="export")
    graph = onnx.load_from_string(model).graph
    held = {_print(onnx.numpy_helper.to_array(each)) for each in graph.initializer}
    return [name for name, value in weights.items() if _print(value) not in held]


def holds_half(model: bytes | None) -> bool:
    """Whether a file computes anything in float16 or bfloat16."""
    if model is None:
        return False
    onnx: Any = need("onnx", extra="export")
    graph = onnx.load_from_string(model).graph
    kinds = {each.data_type for each in graph.initializer}
    kinds |= {a.i for node in graph.node for a in node.attribute if a.name in ("to", "dtype")}
    kinds |= {each.type.tensor_type.elem_type for each in (*graph.input, *graph.output)}
    return bool(kinds & {onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16})


def _print(values: Array) -> str:
    # Transposed, or with gates in another order, the values are still the same ones.
    return hashlib.sha256(np.sort(values.astype(np.float64), axis=None).tobytes()).hexdigest()
