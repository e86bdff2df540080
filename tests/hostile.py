"""Bundles written by hand, without PyTorch, so that a test can change any byte and seal it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from roadworthy.spec.bundle import SIGNATURE_KEY
from roadworthy.spec.port import Memory, Port
from roadworthy.spec.sealing import new_bundle
from roadworthy.spec.signature import Signature
from roadworthy.spec.trace import Trace

STEPS, ROWS, WIDTH = 12, 2, 3
SHAPE = ("batch", WIDTH)
SIGNATURE = Signature(
    inputs=(Port(name="obs", dtype="float32", shape=SHAPE),),
    outputs=(Port(name="actions", dtype="float32", shape=SHAPE),),
    memory=(Memory(name="last", dtype="float32", shape=SHAPE),),
)


def smooth(signature: Signature | None = SIGNATURE, extra: Sequence[Any] = ()) -> bytes:
    """`last = 0.9 last + 0.1 obs`, and the action is `last`."""
    half = [helper.make_tensor(n, TensorProto.FLOAT, [], [v]) for n, v in (("a", 0.9), ("b", 0.1))]
    nodes = [
        helper.make_node("Mul", ["last_in", "a"], ["x"]),
        helper.make_node("Mul", ["obs", "b"], ["y"]),
        helper.make_node("Add", ["x", "y"], ["last_out"]),
        helper.make_node("Identity", ["last_out"], ["actions"]),
    ]
    return model([*nodes, *extra], half, signature=signature)


def model(
    nodes: Sequence[Any], weights: Sequence[Any] = (), *, signature: Signature | None = SIGNATURE
) -> bytes:
    """An ONNX file with the ports of `SIGNATURE`."""
    sides = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in names]
        for names in (("obs", "last_in"), ("actions", "last_out"))
    ]
    graph = helper.make_graph(list(nodes), "g", *sides, initializer=list(weights))
    opset = [helper.make_opsetid("", 20)]
    made = helper.make_model(graph, opset_imports=opset, ir_version=10, producer_name="somebody")
    if signature is not None:
        entry = made.metadata_props.add()
        entry.key, entry.value = SIGNATURE_KEY, json.dumps(signature.to_json())
    return bytes(made.SerializeToString())


def trace() -> Trace:
    rng = np.random.default_rng(0)
    obs = rng.standard_normal((STEPS, ROWS, WIDTH)).astype(np.float32)
    resets = np.zeros((STEPS, ROWS), dtype=bool)
    resets[0] = True
    last, actions = np.zeros((ROWS, WIDTH), np.float32), []
    for now in obs:
        last = last * np.float32(0.9) + now * np.float32(0.1)
        actions.append(last)
    return Trace(inputs={"obs": obs}, outputs={"actions": np.stack(actions)}, resets=resets)


def manifest() -> dict[str, Any]:
    versions = ("source", "python", "roadworthy", "torch", "onnx", "onnxruntime")
    recipe = {
        "inputs": {"obs": "obs"}, "outputs": None, "memory": {"last": "last"}, "attributes": {},
        "normalizers": {}, "action": [], "batch": None,
    }  # fmt: skip
    return {
        "format": "roadworthy-bundle", "version": 2, "signature": SIGNATURE.to_json(),
        "recipe": recipe, "targets": {"onnx": ["policy.onnx"]}, "opset": 20, "ir_version": 10,
        "sampling": {
            "thresholds": [0.5], "horizon": 0, "left_out": {},
            "typical": {"obs": {"mean": [0.0] * WIDTH, "spread": [1.0] * WIDTH}},
        },
        "waivers": [], "fixes": [], "translations": {}, "decompositions": {},
        "provenance": dict.fromkeys(versions, "1"),
    }  # fmt: skip


def files() -> dict[str, bytes]:
    certificate = {"version": 4, "passed": False, "seed": 0, "checks": [], "findings": []}
    return {
        "policy.onnx": smooth(),
        "trace.npz": trace().to_bytes(),
        "manifest.json": json.dumps(manifest()).encode(),
        "certificate.json": json.dumps(certificate).encode(),
    }


def sealed(folder: Path, changes: Mapping[str, bytes] | None = None) -> Path:
    """A bundle in `folder` whose sums are right, with some of its files replaced."""
    with new_bundle(folder) as partial:
        for name, data in {**files(), **(changes or {})}.items():
            (partial / name).parent.mkdir(parents=True, exist_ok=True)
            (partial / name).write_bytes(data)
    return folder


def loop(times: int) -> bytes:
    """A policy that goes round `times` times at its first step."""
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Sin", ["v"], ["w"])],
        "body",
        [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []),
         value("v", TensorProto.FLOAT, None)],
        [value("d", TensorProto.BOOL, []), value("w", TensorProto.FLOAT, None)],
    )  # fmt: skip
    nodes = [
        helper.make_node("Loop", ["n", "t", "obs"], ["actions"], body=body),
        helper.make_node("Identity", ["last_in"], ["last_out"]),
    ]
    count = helper.make_tensor("n", TensorProto.INT64, [], [times])
    return model(nodes, [count, helper.make_tensor("t", TensorProto.BOOL, [], [True])])


def huge_constant(numbers: int) -> bytes:
    """A policy that adds up so many zeros, which the file does not hold but asks for."""
    nodes = [
        helper.make_node("ConstantOfShape", ["n"], ["c"]),
        helper.make_node("ReduceSum", ["c"], ["r"], keepdims=0),
        helper.make_node("Add", ["obs", "r"], ["actions"]),
        helper.make_node("Identity", ["last_in"], ["last_out"]),
    ]
    return model(nodes, [helper.make_tensor("n", TensorProto.INT64, [1], [numbers])])


def elsewhere(name: str) -> Any:
    """A tensor whose values are in the file `secret.bin`."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[WIDTH])
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "secret.bin"
    return tensor


def _weight() -> onnx.ModelProto:
    made = onnx.load_from_string(smooth())
    made.graph.initializer.append(elsewhere("w"))
    return made


def _constant() -> onnx.ModelProto:
    return onnx.load_from_string(
        smooth(extra=[helper.make_node("Constant", [], ["w"], value=elsewhere("w"))])
    )


def _in_a_branch() -> onnx.ModelProto:
    out = helper.make_tensor_value_info("w", TensorProto.FLOAT, [WIDTH])
    branch = helper.make_graph([], "b", [], [out], initializer=[elsewhere("w")])
    true = helper.make_tensor("yes", TensorProto.BOOL, [], [True])
    node = helper.make_node("If", ["yes"], ["z"], then_branch=branch, else_branch=branch)
    made = onnx.load_from_string(smooth(extra=[node]))
    made.graph.initializer.append(true)
    return made


def _sparse() -> onnx.ModelProto:
    made = onnx.load_from_string(smooth())
    sparse = made.graph.sparse_initializer.add()
    sparse.values.CopyFrom(elsewhere("w"))
    sparse.indices.CopyFrom(helper.make_tensor("i", TensorProto.INT64, [WIDTH], [0, 1, 2]))
    sparse.dims.append(9)
    return made


def _in_a_function() -> onnx.ModelProto:
    made = onnx.load_from_string(smooth())
    node = helper.make_node("Constant", [], ["w"], value=elsewhere("w"))
    opset = [helper.make_opsetid("", 20)]
    made.functions.append(helper.make_function("own", "F", [], ["w"], [node], opset))
    return made


# Every place in an ONNX file at which a tensor may stand.
EXTERNAL: dict[str, Callable[[], onnx.ModelProto]] = {
    "weight": _weight,
    "constant": _constant,
    "branch": _in_a_branch,
    "sparse": _sparse,
    "function": _in_a_function,
}
