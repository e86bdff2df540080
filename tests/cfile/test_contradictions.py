"""Sizes that contradict each other are refused before there is C: it looks at none when it runs.

onnxruntime looks at them when a step comes there. A branch that the first steps do not take hides
them from it, and from the canary.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

import roadworthy as rw
from roadworthy.spec.onnx_graph import read
from roadworthy.targets.c.lowering import Unsupported
from roadworthy.targets.c.source import code, engine_source
from tests import hostile

node, FLOAT, INT64, BOOL = helper.make_node, TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Ports = dict[str, tuple[int, tuple[int, ...]]]


def model(
    nodes: Sequence[NodeProto], inputs: Ports, output: tuple[int, ...], **constants: Any
) -> bytes:
    def listed(ports: Ports) -> list[Any]:
        return [helper.make_tensor_value_info(name, *port) for name, port in ports.items()]

    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", listed(inputs), listed({"o": (FLOAT, output)}), held)
    opset = [helper.make_opsetid("", 20)]
    return bytes(helper.make_model(graph, opset_imports=opset, ir_version=10).SerializeToString())


def indexed(
    op: str, data: tuple[int, ...], index: tuple[int, ...], output: tuple[int, ...], **how: int
) -> bytes:
    """`op` of data and an index that a step is given, and for a scatter its updates."""
    inputs: Ports = {"d": (FLOAT, data), "i": (INT64, index)}
    if op.startswith("Scatter"):
        inputs["u"] = (FLOAT, index if op == "ScatterElements" else (*index[:-1], *data[1:]))
    return model([node(op, [*inputs], ["o"], **how)], inputs, output)


def branches(then: Sequence[NodeProto], then_shape: tuple[int, ...], name: str) -> NodeProto:
    """An If, of which the first branch is of any nodes; the second gives `zero`."""
    bodies = [
        helper.make_graph(
            nodes, "body", [], [helper.make_tensor_value_info(end, FLOAT, then_shape)]
        )
        for nodes, end in ((then, "t"), ([node("Identity", ["zero"], ["e"])], "e"))
    ]
    return node("If", ["c"], [name], then_branch=bodies[0], else_branch=bodies[1])


def convolution(weights: tuple[int, ...], output: tuple[int, ...], **how: object) -> bytes:
    nodes = [node("Conv", ["d", "w"], ["o"], **how)]
    filters = np.ones(weights, np.float32)
    return model(nodes, {"d": (FLOAT, (1, 3, 6, 6))}, output, w=filters)


CONTRADICTIONS = {
    "more rows of an index than of the data": indexed(
        "GatherElements", (2, 4), (500, 2), (500, 2), axis=1
    ),
    "more rows to write than there are": indexed(
        "ScatterElements", (2, 4), (500, 2), (2, 4), axis=1
    ),
    "more known rows to write than there are": model(
        [node("ScatterElements", ["d", "i", "u"], ["o"], axis=1)],
        {"d": (FLOAT, (2, 4)), "u": (FLOAT, (500, 2))},
        (2, 4),
        i=np.zeros((500, 2), np.int64),
    ),
    "a batch of indices beyond that of the data": indexed(
        "GatherND", (3, 4), (700, 1), (700,), batch_dims=1
    ),
    "more axes than there are": indexed("GatherND", (3, 4), (5, 3), (5,)),
    "a batch before the first axis": indexed("GatherND", (3, 4), (5, 1), (5,), batch_dims=-1),
    "an element of nothing": indexed("Gather", (0, 4), (2,), (2, 4)),
    "elements of nothing": indexed("GatherElements", (0, 4), (2, 4), (2, 4)),
    "slices of nothing": indexed("GatherND", (0, 4), (5, 1), (5, 4)),
    "elements to write into nothing": indexed("ScatterElements", (0, 4), (2, 4), (0, 4)),
    "slices to write into nothing": indexed("ScatterND", (0, 4), (2, 1), (0, 4)),
    "fewer channels of a filter than of an image": convolution((2, 1, 3, 3), (1, 2, 4, 4)),
    "a window that goes backwards": convolution((2, 3, 3, 3), (1, 2, 8, 4), dilations=[-1, 1]),
    "a window that stands still": convolution((2, 3, 3, 3), (1, 2, 4, 4), strides=[0, 0]),
    "no groups": convolution((2, 3, 3, 3), (1, 2, 4, 4), group=0),
    "fewer weights than inputs": model(
        [node("MatMul", ["d", "w"], ["o"])],
        {"d": (FLOAT, (1, 4))},
        (1, 3),
        w=np.ones((2, 3), np.float32),
    ),
    "fewer rows of a computed matrix than inputs": model(
        [node("MatMul", ["d", "w"], ["o"])],
        {"d": (FLOAT, (1, 4)), "w": (FLOAT, (2, 3))},
        (1, 3),
    ),
    "a condition of three": model(
        [branches([node("Identity", ["d"], ["t"])], (1, 4), "o")],
        {"c": (BOOL, (3,)), "d": (FLOAT, (1, 4))},
        (1, 4),
        zero=np.zeros((1, 4), np.float32),
    ),
    "no condition": model(
        [branches([node("Identity", ["d"], ["t"])], (1, 4), "o")],
        {"c": (BOOL, (0,)), "d": (FLOAT, (1, 4))},
        (1, 4),
        zero=np.zeros((1, 4), np.float32),
    ),
    "sizes that do not broadcast": model(
        [node("Add", ["d", "w"], ["o"])], {"d": (FLOAT, (1, 4))}, (1, 4), w=np.ones(3, np.float32)
    ),
    "an axis that is not there": model(
        [node("Squeeze", ["d", "w"], ["o"])], {"d": (FLOAT, (1, 4))}, (4,), w=np.asarray([900])
    ),
    "a value that nothing gives": model(
        [node("Add", ["d", "nothing"], ["o"])], {"d": (FLOAT, (1, 4))}, (1, 4)
    ),
    "an output that nothing gives": model(
        [node("Neg", ["d"], ["x"])], {"d": (FLOAT, (1, 4))}, (1, 4)
    ),
    "sizes below zero": model([node("Neg", ["d"], ["o"])], {"d": (FLOAT, (-2, -2))}, (-2, -2)),
}


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_sizes_that_contradict_each_other_have_no_c(what: str) -> None:
    with pytest.raises(Unsupported) as caught:
        code(read(CONTRADICTIONS[what]), {})
    assert caught.value.findings[0].code == "RW131"


def test_attack_a_branch_does_not_write_beyond_the_output_whose_name_its_value_has() -> None:
    inner = branches([node("Identity", ["big"], ["t"])], (1, 4000), "o")
    body = [inner, node("ReduceSum", ["o"], ["w"])]
    graph = model(
        [*body, node("Add", ["d", "w"], ["o"])],
        {"c": (BOOL, ()), "d": (FLOAT, (1, 4))},
        (1, 4),
        big=np.ones((1, 4000), np.float32),
        zero=np.zeros((1, 4000), np.float32),
    )
    made = code(read(graph), {})
    assert "out_o[i0] =" in engine_source(made)
    assert made.work["float"] >= 4000  # the value has a buffer of its own, and not the caller's


def test_attack_an_untaken_branch_hides_no_write_beyond_its_buffer(tmp_path: Path) -> None:
    """The canary steps over zeros, where the branch is not taken; a user's observation takes it."""
    body = [
        node("Expand", ["obs", "tall"], ["rows"]),
        node("Cast", ["rows"], ["index"], to=INT64),
        node("ScatterElements", ["obs", "index", "rows"], ["t"], axis=1),
    ]
    nodes = [
        node("ReduceMax", ["obs"], ["m"], keepdims=0),
        node("Greater", ["m", "limit"], ["c"]),
        node("Identity", ["obs"], ["zero"]),
        branches(body, (1, 3), "actions"),
        node("Identity", ["last_in"], ["last_out"]),
    ]
    weights = [
        helper.make_tensor("limit", FLOAT, [], [100.0]),
        helper.make_tensor("tall", INT64, [2], [4000, 3]),
    ]
    bundle = hostile.sealed(tmp_path / "bundle", {"policy.onnx": hostile.model(nodes, weights)})
    with pytest.raises(rw.RoadworthyError) as caught:
        rw.load(bundle, engine="c").step({"obs": np.full((1, 3), 200, np.float32)})
    assert caught.value.findings[0].code == "RW131"
    assert "an index of shape (4000, 3) into (1, 3)" in str(caught.value)
