"""The check of the numbers behind a choice: an argmax hides every error that does not turn it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from roadworthy.errors import BundleError, need
from roadworthy.originals.original import Original
from roadworthy.runtime.engine import OnnxEngine
from roadworthy.runtime.policy import Policy
from roadworthy.spec.bundle import POLICY, Bundle
from roadworthy.spec.certificate import Check
from roadworthy.spec.port import BATCH, Array, Port
from roadworthy.spec.signature import Signature
from roadworthy.spec.stepping import Script, follow
from roadworthy.verification.compare import Comparison

STEPS = 64
ROWS = 2
# The place of the largest number, or the largest number that all are compared with (one-hot).
_CHOICES = ("ArgMax", "ReduceMax")


@dataclass(frozen=True, slots=True, eq=False)
class Undecided:
    """The artifact with its logits as further outputs."""

    model: bytes
    signature: Signature
    logits: tuple[str, ...]


def logits(bundle: Bundle, original: Original, seed: int) -> list[Check]:
    """The logits of the artifact beside those of the original; empty where none can be had."""
    if not chooses(bundle.signature):
        return []
    behind = _undecided(bundle.signature, bundle.files[POLICY])
    if behind is None:
        return []
    try:
        check = _compared(bundle, behind, original, seed)
    except BundleError:  # the graph keeps its logits in another type or shape: not readable
        return []
    return [check] if check else []


def chooses(signature: Signature) -> bool:
    """Whether the action is a choice: whole numbers, which hide what is behind them."""
    port = next(each for each in signature.outputs if each.name == signature.action_output)
    return np.dtype(port.dtype).kind in "iub"


def _compared(bundle: Bundle, behind: Undecided, original: Original, seed: int) -> Check | None:
    signature = bundle.signature
    policy = Policy(behind.signature, OnnxEngine(behind.model))
    rows = original.rows or signature.fixed_rows or ROWS
    rng = np.random.default_rng(seed + 31)
    inputs = original.draw(signature, rng, steps=STEPS, rows=rows, sampling=bundle.sampling)
    resets = np.zeros((STEPS, rows), dtype=bool)
    resets[:: STEPS // 2] = True
    script = Script(inputs=inputs, resets=resets)
    comparison = Comparison()
    name = f"{signature.action_output} logits"
    with original.open_choosing(signature, rows=rows) as live:
        both = zip(follow(live, script), follow(policy, script), strict=True)
        for step, (_, got) in enumerate(both):
            artifact = [got[each] for each in behind.logits]
            if [each.shape for each in live.logits] != [each.shape for each in artifact]:
                return None  # the two sides choose in other ways, such as by a folded maximum
            ours = np.concatenate(artifact, axis=-1)
            theirs = np.concatenate(live.logits, axis=-1)
            comparison.add(step, {name: _allowed(theirs, ours)}, {name: _allowed(ours, ours)})
    return comparison.check("logits", "the logits behind each discrete action agree")


def _allowed(values: Array, masked: Array) -> Array:
    """Zeros for what a mask forbids: there both sides hold the smallest number of all."""
    return np.where(forbidden(masked), 0, values).astype(values.dtype)


def forbidden(logits: Array) -> Array:
    """Where a mask has put the smallest number of all, so that it is never chosen."""
    return np.asarray(logits <= np.finfo(logits.dtype).min / 2)


def _undecided(signature: Signature, model: bytes) -> Undecided | None:
    """The artifact with what enters its choices as outputs; None where it makes none."""
    onnx: Any = need("onnx", extra="export")
    graph = onnx.shape_inference.infer_shapes(onnx.load_from_string(model))
    shown = {value.name for value in graph.graph.output}
    values = (*graph.graph.value_info, *graph.graph.output)
    typed = {value.name: value.type.tensor_type for value in values}
    names = list(dict.fromkeys(_entering(graph.graph)))
    if not names or any(name not in typed for name in names):
        return None
    rows = signature.fixed_rows or BATCH
    ports = []
    for name in names:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(typed[name].elem_type)
        sizes = [each.dim_value for each in typed[name].shape.dim][1:]
        if dtype.kind != "f" or not sizes or not all(sizes):
            return None
        if name in shown:
            continue
        ports.append(Port(name=name, dtype=str(dtype), shape=(rows, *sizes)))
        graph.graph.output.append(
            onnx.helper.make_tensor_value_info(name, typed[name].elem_type, [rows, *sizes])
        )
    return Undecided(
        model=graph.SerializeToString(),
        signature=replace(signature, outputs=(*signature.outputs, *ports)),
        logits=tuple(names),
    )


def _entering(graph: Any) -> Iterator[str]:
    """The names of the values that enter a choice along their last axis, in order."""
    constants = {each.name: each for each in graph.initializer}
    values = (*graph.value_info, *graph.output)
    ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in values}
    for node in graph.node:
        if node.op_type in _CHOICES and _axes(node, constants) in (
            [-1],
            [ranks.get(node.input[0], 0) - 1],
        ):
            yield node.input[0]


def _axes(node: Any, constants: Any) -> Sequence[int]:
    """The axes over which a node takes the maximum: an attribute, or its second input."""
    import onnx

    for attribute in node.attribute:
        if attribute.name == "axis":
            return [attribute.i]
        if attribute.name == "axes":
            return list(attribute.ints)
    if len(node.input) > 1 and node.input[1] in constants:
        return [int(each) for each in onnx.numpy_helper.to_array(constants[node.input[1]]).ravel()]
    return []
