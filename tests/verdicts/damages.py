"""More ways to damage a graph: each changes what few rows, few steps or one sign would show."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

import roadworthy as rw
from tests.verdicts.mutations import _constant, _detached, _initializers, _is_float


def rows_turned(model: onnx.ModelProto, bundle: rw.Bundle) -> None:
    """The rows of the action come in the reverse order."""
    name = bundle.signature.action_output
    before = _detached(model, name)
    _constant(model, "from_last", np.array([-1], np.int64))
    _constant(model, "to_first", np.array([np.iinfo(np.int64).min], np.int64))
    _constant(model, "row_axis", np.array([0], np.int64))
    _constant(model, "backwards", np.array([-1], np.int64))
    inputs = [before, "from_last", "to_first", "row_axis", "backwards"]
    model.graph.node.append(helper.make_node("Slice", inputs, [name]))


def rows_averaged_far_out(model: onnx.ModelProto, bundle: rw.Bundle) -> None:
    """Beyond ±150 an input is the mean of all rows."""
    name = bundle.signature.inputs[0].name
    for node in model.graph.node:
        for index, each in enumerate(node.input):
            if each == name:
                node.input[index] = "mixed"
    _constant(model, "far", np.array(150.0, np.float32))
    _constant(model, "over_rows", np.array([0], np.int64))
    nodes = [
        helper.make_node("Abs", [name], ["size"]),
        helper.make_node("Greater", ["size", "far"], ["is_far"]),
        helper.make_node("ReduceMean", [name, "over_rows"], ["mean_row"], keepdims=1),
        helper.make_node("Where", ["is_far", "mean_row", name], ["mixed"]),
    ]
    for node in reversed(nodes):
        model.graph.node.insert(0, node)


def sign_at_zero(model: onnx.ModelProto, bundle: rw.Bundle) -> None:
    """Where an element of the first input is zero, the action has the other sign."""
    entering = bundle.signature.inputs[0].name
    name = bundle.signature.action_output
    before = _detached(model, name)
    _constant(model, "nothing", np.array(0.0, np.float32))
    _constant(model, "last_axis", np.array([-1], np.int64))
    model.graph.node.extend(
        [
            helper.make_node("Equal", [entering, "nothing"], ["is_zero"]),
            helper.make_node("Cast", ["is_zero"], ["zeros"], to=onnx.TensorProto.FLOAT),
            helper.make_node("ReduceMin", ["zeros", "last_axis"], ["all_zero"], keepdims=1),
            helper.make_node("Greater", ["all_zero", "nothing"], ["turned"]),
            helper.make_node("Neg", [before], ["negative"]),
            helper.make_node("Where", ["turned", "negative", before], [name]),
        ]
    )


def capped_far_out(model: onnx.ModelProto, bundle: rw.Bundle) -> None:
    """Inputs beyond ±1000 are cut off."""
    name = bundle.signature.inputs[0].name
    for node in model.graph.node:
        for index, each in enumerate(node.input):
            if each == name:
                node.input[index] = "capped"
    _constant(model, "least", np.array(-1e3, np.float32))
    _constant(model, "most", np.array(1e3, np.float32))
    node = helper.make_node("Clip", [name, "least", "most"], ["capped"])
    model.graph.node.insert(0, node)


def bias_moved(model: onnx.ModelProto, bundle: rw.Bundle) -> None:
    """One bias of the last layer moves by a thousandth of a typical one."""
    tensor = [each for each in _initializers(model) if _is_float(each) and len(each.dims) == 1][-1]
    values = numpy_helper.to_array(tensor).copy()
    values.flat[0] += 1e-3 * np.abs(values).mean()
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def quantised(model: onnx.ModelProto, bundle: rw.Bundle) -> None:
    """Every matrix went through bfloat16: the low half of each number is gone."""
    for tensor in _initializers(model):
        if _is_float(tensor) and len(tensor.dims) > 1:
            bits = numpy_helper.to_array(tensor).copy().view(np.uint32) & np.uint32(0xFFFF0000)
            tensor.CopyFrom(numpy_helper.from_array(bits.view(np.float32), tensor.name))


def activation_changed(model: onnx.ModelProto, bundle: rw.Bundle) -> None:
    """The slope of the first activation below zero is one percent less."""
    kinds = ("Elu", "LeakyRelu", "Relu", "Tanh", "Sigmoid")
    node = next(each for each in model.graph.node if each.op_type in kinds)
    inside, outside = node.output[0], f"{node.output[0]}_outside"
    for other in model.graph.node:
        for index, each in enumerate(other.input):
            if each == inside:
                other.input[index] = outside
    place = list(model.graph.node).index(node) + 1
    node.output[0] = inside
    _constant(model, "ninety_nine", np.array(0.99, np.float32))
    _constant(model, "zero_here", np.array(0.0, np.float32))
    nodes = [
        helper.make_node("Less", [inside, "zero_here"], ["below"]),
        helper.make_node("Mul", [inside, "ninety_nine"], ["flatter"]),
        helper.make_node("Where", ["below", "flatter", inside], [outside]),
    ]
    for each in reversed(nodes):
        model.graph.node.insert(place, each)
