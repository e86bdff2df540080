"""Ways to damage `policy.onnx` that leave a file which loads and runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import roadworthy as rw
from roadworthy.spec import sealing
from roadworthy.spec.samples import draw

Mutation = Callable[[onnx.ModelProto, rw.Bundle], None]


def damaged(bundle: rw.Bundle, folder: Path, mutate: Mutation) -> Path:
    """A copy of the bundle with another `policy.onnx`, whose sums fit."""
    model = onnx.load_from_string(bundle.files["policy.onnx"])
    mutate(model, bundle)
    onnx.checker.check_model(model, full_check=True)
    with sealing.new_bundle(folder) as partial:
        for name in bundle.files:
            (partial / name).parent.mkdir(exist_ok=True)
            shutil.copy(bundle.folder / name, partial / name)
        (partial / "policy.onnx").write_bytes(model.SerializeToString())
    return folder


def weight_moved(model: onnx.ModelProto, bundle: rw.Bundle) -> None:
    """The weight of the last layer through which the most flows grows by a thousandth."""
    matrices = [each for each in _initializers(model) if _is_float(each) and len(each.dims) > 1]
    named = [each for each in matrices if each.name.endswith("weight")]
    tensor = (named or matrices)[-1]
    values = numpy_helper.to_array(tensor).copy()
    values.flat[np.abs(values * _activations(model, bundle, tensor.name)).argmax()] *= 1.001
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def _activations(model: onnx.ModelProto, bundle: rw.Bundle, weight: str) -> np.ndarray:
    """What enters the layer of `weight` at an ordinary step: a unit may be silent."""
    layers = [n for n in model.graph.node if n.op_type == "Gemm" and weight in n.input]
    if not layers:
        return np.ones(1)
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    name = layers[-1].input[0]
    probe.graph.output.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    inputs = draw(bundle.signature, np.random.default_rng(99), steps=1, rows=1)
    feeds = {port: values[0] for port, values in inputs.items()}
    feeds |= {memory.input: memory.fresh(1) for memory in bundle.signature.memory}
    session = onnxruntime.InferenceSession(
        probe.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run([name], feeds)[0]


def outputs_exchanged(model: onnx.ModelProto, bundle: rw.Bundle) -> None:
    """The first two elements of the action change places, or the first two choices."""
    port = next(p for p in bundle.signature.outputs if p.name == bundle.signature.action_output)
    before = _detached(model, port.name)
    if len(port.shape) == 1:
        sizes = bundle.signature.action.sizes[0]
        order = [1, 0, *range(2, sizes)]
        node = helper.make_node("Gather", ["exchange", before], [port.name])
    else:
        order = [1, 0, *range(2, int(port.shape[-1]))]
        axis = len(port.shape) - 1
        node = helper.make_node("Gather", [before, "exchange"], [port.name], axis=axis)
    _constant(model, "exchange", np.array(order, dtype=np.int64))
    model.graph.node.append(node)


def memory_not_written(model: onnx.ModelProto, bundle: rw.Bundle) -> None:
    """The first memory goes out as it came in."""
    memory = bundle.signature.memory[0]
    _detached(model, memory.output)
    model.graph.node.append(helper.make_node("Identity", [memory.input], [memory.output]))


def bias_dropped(model: onnx.ModelProto, bundle: rw.Bundle) -> None:
    """Zeros for the bias of the last layer."""
    tensor = [each for each in _initializers(model) if _is_float(each) and len(each.dims) == 1][-1]
    tensor.CopyFrom(
        numpy_helper.from_array(np.zeros_like(numpy_helper.to_array(tensor)), tensor.name)
    )


def input_frozen(model: onnx.ModelProto, bundle: rw.Bundle) -> None:
    """The first input is zero, whatever is passed."""
    name = bundle.signature.inputs[0].name
    for graph in _graphs(model.graph):
        for node in graph.node:
            for index, each in enumerate(node.input):
                if each == name:
                    node.input[index] = "frozen"
    model.graph.node.insert(0, helper.make_node("Sub", [name, name], ["frozen"]))


def _detached(model: onnx.ModelProto, output: str) -> str:
    """The value that was called `output`, under another name."""
    for node in model.graph.node:
        for index, each in enumerate(node.output):
            if each == output:
                node.output[index] = f"{output}_before"
        for index, each in enumerate(node.input):
            if each == output:
                node.input[index] = f"{output}_before"
    return f"{output}_before"


def _constant(model: onnx.ModelProto, name: str, values: np.ndarray) -> None:
    model.graph.initializer.append(numpy_helper.from_array(values, name))


def _initializers(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    return [tensor for graph in _graphs(model.graph) for tensor in graph.initializer]


def _is_float(tensor: onnx.TensorProto) -> bool:
    return tensor.data_type == onnx.TensorProto.FLOAT


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _graphs(attribute.g)
