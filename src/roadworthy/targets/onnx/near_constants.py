"""Numbers that are nearly 0 or 1, kept: onnxscript takes `x + 1e-8` and `x * 1.000005` for `x`.

Its rules compare with a tolerance, and only numbers without axes. So before they are applied such a
number gets an axis of one element, which changes nothing else.
"""

from __future__ import annotations

import math
from collections import Counter

import onnx_ir as ir
import onnxscript.optimizer
from onnx_ir.passes.common import InlinePass

from roadworthy.targets.onnx.constant_values import constant

# Operator → the number that leaves a value as it is.
_IDLE = {"Add": 0.0, "Sub": 0.0, "Mul": 1.0, "Div": 1.0}
# Wider than onnxscript's own 1e-5 and 1e-8: that a number is kept costs nothing.
_NEAR = 1e-3


def keep_near_constants(model: ir.Model) -> None:
    """Changes the model: its rewriting leaves every sum and product that does anything."""
    InlinePass()(model)
    # Numbers come as float64 and are cast: what enters the operator is known when that is done.
    onnxscript.optimizer.fold_constants(model)
    times: Counter[str] = Counter()
    for node in list(model.graph.all_nodes()):
        if node.op_type not in _IDLE or node.domain:
            continue
        for place, value in enumerate(node.inputs):
            other = node.inputs[1 - place]
            if value is None or other is None or not other.shape:
                continue  # beside a number without axes the result would get one
            number = ir.convenience.get_const_tensor(value)
            if number is not None and _is_nearly(number, _IDLE[node.op_type]):
                times[str(value.name)] += 1
                # Folded numbers share a name where they share their value.
                name = f"{value.name}_kept{times[str(value.name)]}"
                kept, owner = constant(name, number.numpy().reshape(1)), node.graph
                assert owner is not None
                owner.insert_before(node, kept.producer())  # type: ignore[arg-type]
                node.replace_input_with(place, kept)


def _is_nearly(number: ir.TensorProtocol, idle: float) -> bool:
    if len(number.shape) or not number.dtype.is_floating_point():
        return False
    found = float(number.numpy())
    return found != idle and math.isclose(found, idle, rel_tol=_NEAR, abs_tol=_NEAR)
