"""LSTM, GRU and RNN: one product for the gates of a step, and elementwise trees over them.

NaN goes through them as it does in PyTorch; onnxruntime's own cells swallow it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from roadworthy.spec.onnx_graph import Node
from roadworthy.spec.port import Array
from roadworthy.targets.c.elementwise import elementwise
from roadworthy.targets.c.lowering import Lower, Lowering, Result, Unsupported
from roadworthy.targets.c.operators.products import product
from roadworthy.targets.c.operators.reading import given, integer, known, needed, text
from roadworthy.targets.c.operators.views import joined, taken, view
from roadworthy.targets.c.values import Value, const, scalar

Inputs = Sequence[Result | None]
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def _cell(walk: Lowering, node: Node, inputs: Inputs) -> list[Value]:
    x = needed(inputs, 0)
    weights, recurrent = known(inputs, 1, "weights"), known(inputs, 2, "weights")
    gates, hidden = _GATES[node.op], recurrent.shape[-1]
    _refuse_unusual(node, inputs, gates)
    biases = (
        known(inputs, 3, "a bias")
        if given(inputs, 3) is not None
        else np.zeros((len(weights), 2 * gates * hidden), x.dtype)
    )
    steps, rows = x.shape[:2]
    x = walk.stored(x)
    zero = const(np.zeros((len(weights), rows, hidden), x.dtype))
    starts = [walk.stored(given(inputs, place) or zero) for place in (5, 6)]
    over: list[Value] = []
    ends: list[list[Value]] = [[], []]
    for direction in range(len(weights)):
        own = [taken(walk, each, direction) for each in starts]
        backward = text(node, "direction", "forward") == "reverse" or direction == 1
        outputs: list[Value] = []
        for step in range(steps)[:: -1 if backward else 1]:
            now = taken(walk, x, step)
            arrays = (weights[direction], recurrent[direction], biases[direction])
            own = [walk.stored(each) for each in _STEPS[node.op](walk, now, own, arrays, hidden)]
            outputs.append(view(walk, own[0], lambda index: index[None, None]))
        over.append(joined(walk, outputs[:: -1 if backward else 1], 0))
        for side, each in zip(ends, own, strict=False):
            side.append(view(walk, each, lambda index: index[None]))
    results = [joined(walk, over, 1)]
    return [*results, *(joined(walk, side, 0) for side in ends if side)]


def _refuse_unusual(node: Node, inputs: Inputs, gates: int) -> None:
    usual = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
    directions = 2 if text(node, "direction", "forward") == "bidirectional" else 1
    wanted = usual[node.op] * directions
    named = node.attributes.get("activations") or wanted
    if list(named) != wanted:  # type: ignore[call-overload]
        raise Unsupported(f"activations={named}")
    for name in ("clip", "layout", "input_forget"):
        if node.attributes.get(name):
            raise Unsupported(f"{name}={node.attributes[name]}")
    if node.op == "GRU" and not integer(node, "linear_before_reset", 0):
        raise Unsupported("linear_before_reset=0")
    if given(inputs, 7) is not None:
        raise Unsupported("peepholes")
    if given(inputs, 4) is not None:
        lengths = known(inputs, 4, "lengths of sequences")
        if (lengths != needed(inputs, 0).shape[0]).any():
            raise Unsupported("sequences of different lengths")


def _parts(walk: Lowering, gates: Value, hidden: int) -> list[Value]:
    count = gates.shape[1] // hidden
    return [
        taken(walk, gates, slice(None), slice(place * hidden, (place + 1) * hidden))
        for place in range(count)
    ]


Arrays = tuple[Array, Array, Array]


def _lstm(walk: Lowering, x: Value, own: list[Value], arrays: Arrays, hidden: int) -> list[Value]:
    weights, recurrent, bias = arrays
    h, c = own
    both = np.concatenate([weights, recurrent], axis=1).T
    halves = bias.reshape(2, -1)
    gates = walk.stored(product(walk, joined(walk, [x, h], 1), const(both), halves[0] + halves[1]))
    i, o, f, g = _parts(walk, gates, hidden)
    kept = elementwise("Mul", elementwise("Sigmoid", f), c)
    fresh = elementwise("Mul", elementwise("Sigmoid", i), elementwise("Tanh", g))
    cell = walk.stored(elementwise("Add", kept, fresh))
    return [elementwise("Mul", elementwise("Sigmoid", o), elementwise("Tanh", cell)), cell]


def _gru(walk: Lowering, x: Value, own: list[Value], arrays: Arrays, hidden: int) -> list[Value]:
    weights, recurrent, bias = arrays
    h = own[0]
    first, second = bias.reshape(2, -1)
    zx, rx, nx = _parts(walk, walk.stored(product(walk, x, const(weights.T), first)), hidden)
    zh, rh, nh = _parts(walk, walk.stored(product(walk, h, const(recurrent.T), second)), hidden)
    z = walk.stored(elementwise("Sigmoid", elementwise("Add", zx, zh)))
    r = elementwise("Sigmoid", elementwise("Add", rx, rh))
    n = elementwise("Tanh", elementwise("Add", nx, elementwise("Mul", r, nh)))
    rest = elementwise("Sub", scalar(1, z.dtype), z)
    return [elementwise("Add", elementwise("Mul", rest, n), elementwise("Mul", z, h))]


def _rnn(walk: Lowering, x: Value, own: list[Value], arrays: Arrays, hidden: int) -> list[Value]:
    weights, recurrent, bias = arrays
    both = np.concatenate([weights, recurrent], axis=1).T
    halves = bias.reshape(2, -1)
    return [
        elementwise(
            "Tanh", product(walk, joined(walk, [x, own[0]], 1), const(both), halves[0] + halves[1])
        )
    ]


_STEPS = {"LSTM": _lstm, "GRU": _gru, "RNN": _rnn}
OPERATORS: dict[str, Lower] = dict.fromkeys(_GATES, _cell)
