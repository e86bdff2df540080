"""The numbers behind a choice: an argmax hides every error that does not turn it."""

from __future__ import annotations

import dataclasses
from typing import Any

import onnx

from roadworthy.capture.source import Source
from roadworthy.spec.port import BATCH, Port
from roadworthy.spec.signature import Signature
from roadworthy.spec.transforms import Argmax, MultiDiscrete


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Undecided:
    """The artifact with its logits as outputs, and the source that ends before the choice."""

    model: bytes
    signature: Signature
    logits: tuple[str, ...]
    source: Source


def undecided(source: Source, signature: Signature, model: bytes) -> Undecided | None:
    """Both sides before the choice; None where the policy chooses nothing, or inside the module."""
    if not source.steps or not isinstance(source.steps[-1], (Argmax, MultiDiscrete)):
        return None
    sizes = signature.action.sizes if signature.action else ()
    if not sizes:
        return None
    graph = onnx.load_from_string(model)
    names = [node.input[0] for node in graph.graph.node if node.op_type == "ArgMax"][-len(sizes) :]
    typed = {port.name: port.dtype for port in signature.inputs}
    dtype = next((each for each in typed.values() if each in ("float16", "float64")), "float32")
    if len(names) != len(sizes) or len(set(names)) != len(sizes):
        return None
    kind = {"float16": onnx.TensorProto.FLOAT16, "float64": onnx.TensorProto.DOUBLE}.get(
        dtype, onnx.TensorProto.FLOAT
    )
    for name, size in zip(names, sizes, strict=True):
        value: Any = onnx.helper.make_tensor_value_info(name, kind, [BATCH, size])
        graph.graph.output.append(value)
    rows = signature.fixed_rows or BATCH
    ports = [
        Port(name=name, dtype=dtype, shape=(rows, size))
        for name, size in zip(names, sizes, strict=True)
    ]
    return Undecided(
        model=graph.SerializeToString(),
        signature=dataclasses.replace(signature, outputs=(*signature.outputs, *ports)),
        logits=tuple(names),
        source=dataclasses.replace(source, action=source.steps[:-1]),
    )
