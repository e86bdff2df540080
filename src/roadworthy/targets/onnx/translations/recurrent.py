"""LSTM and GRU, step by step: onnxruntime's own answer NaN with a number and know no projection."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from onnxscript.function_libs.torch_lib.ops import core as torchlib

from roadworthy.targets.onnx.translations.writing import op

_aten = torch.ops.aten
# Longer sequences are left to onnxruntime's own loop: a graph of so many nodes would be slower.
MOST_CELLS = 8
Cell = Callable[[Any, tuple[Any, ...], Sequence[Any]], tuple[Any, ...]]


def lstm_input(
    value: Any,
    hx: Sequence[Any],
    params: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    directions = 2 if bidirectional else 1
    each = len(params) // (num_layers * directions)
    projected = each > (4 if has_biases else 2)
    steps = value.shape[1 if batch_first else 0]
    if not projected and _too_long(steps, num_layers * directions):
        return torchlib.aten_lstm(
            value, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first
        )
    weights = [params[i : i + each] for i in range(0, len(params), each)]
    cell = _LstmCell(has_biases)
    return _unrolled(cell, value, tuple(hx), weights, directions, steps, batch_first)


def gru_input(
    value: Any,
    hx: Any,
    params: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    directions = 2 if bidirectional else 1
    steps = value.shape[1 if batch_first else 0]
    if _too_long(steps, num_layers * directions):
        return torchlib.aten_gru(
            value, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first
        )
    each = 4 if has_biases else 2
    weights = [params[i : i + each] for i in range(0, len(params), each)]
    return _unrolled(_gru_cell, value, (hx,), weights, directions, steps, batch_first)


def left_to_onnxruntime(node: torch.fx.Node) -> bool:
    """Whether an LSTM or a GRU of a graph is too long to be written step by step."""
    values, _, params, has_biases, layers, _, _, bidirectional, batch_first = node.args
    assert isinstance(values, torch.fx.Node)
    assert isinstance(layers, int)
    assert isinstance(params, (list, tuple))
    steps = values.meta["val"].shape[1 if batch_first else 0]
    cells = layers * (2 if bidirectional else 1)
    projected = len(params) // cells > (4 if has_biases else 2)
    return not projected and _too_long(steps, cells)


def _too_long(steps: object, cells: int) -> bool:
    return not isinstance(steps, int) or steps * cells > MOST_CELLS


def _unrolled(
    cell: Cell,
    value: Any,
    state: tuple[Any, ...],
    weights: Sequence[Sequence[Any]],
    directions: int,
    steps: int,
    batch_first: bool,
) -> tuple[Any, ...]:
    """The outputs of all steps, then the last state of every layer and direction."""
    time = 1 if batch_first else 0
    values = _apart(value, steps, time)
    starts = list(zip(*(_apart(each, len(weights), 0) for each in state), strict=True))
    ends: list[tuple[Any, ...]] = []
    for layer in range(len(weights) // directions):
        sides = []
        for direction in range(directions):
            index = layer * directions + direction
            order = values if direction == 0 else values[::-1]
            outputs = list(_steps(cell, order, starts[index], weights[index]))
            ends.append(outputs[-1])
            heard = [each[0] for each in outputs]
            sides.append(heard if direction == 0 else heard[::-1])
        values = [
            each[0] if directions == 1 else op.Concat(*each, axis=-1)
            for each in zip(*sides, strict=True)
        ]
    return (
        _joined(values, time),
        *(_joined(list(each), 0) for each in zip(*ends, strict=True)),
    )


def _steps(
    cell: Cell, values: Sequence[Any], state: tuple[Any, ...], weights: Sequence[Any]
) -> Iterator[tuple[Any, ...]]:
    for value in values:
        state = cell(value, state, weights)
        yield state


class _LstmCell:
    """One step of an LSTM, with a projection where there is one."""

    def __init__(self, has_biases: bool) -> None:
        self.has_biases = has_biases

    def __call__(self, x: Any, state: tuple[Any, ...], weights: Sequence[Any]) -> tuple[Any, ...]:
        h, c = state
        bias = op.Add(*weights[2:4]) if self.has_biases else None
        gates = _affine(h, weights[1], _affine(x, weights[0], bias))
        into, forget, new, out = op.Split(gates, axis=-1, num_outputs=4)
        c = op.Add(op.Mul(op.Sigmoid(forget), c), op.Mul(op.Sigmoid(into), op.Tanh(new)))
        h = op.Mul(op.Sigmoid(out), op.Tanh(c))
        projection = weights[4 if self.has_biases else 2 :]
        return (_affine(h, projection[0]) if projection else h), c


def _gru_cell(x: Any, state: tuple[Any, ...], weights: Sequence[Any]) -> tuple[Any, ...]:
    """One step of a GRU."""
    (h,) = state
    # Both gates at once; the third block of the hidden state is not simply added to that of x.
    (x_gates, h_gates, *gate_biases), (x_new, h_new, *new_biases) = zip(
        *(_two_and_one(each) for each in weights), strict=True
    )
    bias = op.Add(*gate_biases) if gate_biases else None
    gates = op.Sigmoid(_affine(h, h_gates, _affine(x, x_gates, bias)))
    reset, update = op.Split(gates, axis=-1, num_outputs=2)
    of_x, of_h = new_biases or (None, None)
    new = op.Tanh(op.Add(_affine(x, x_new, of_x), op.Mul(reset, _affine(h, h_new, of_h))))
    return (op.Add(new, op.Mul(update, op.Sub(h, new))),)


def _two_and_one(weight: Any) -> tuple[Any, Any]:
    """The rows of a constant for the two gates, and those for the new state."""
    size = weight.shape[0]
    border = size // 3 * 2
    return op.Slice(weight, [0], [border], [0]), op.Slice(weight, [border], [size], [0])


def _affine(x: Any, weight: Any, added: Any = None) -> Any:
    """x · weightᵀ, and what is added to it."""
    terms = (x, weight) if added is None else (x, weight, added)
    return op.Gemm(*terms, transB=1)


def _apart(value: Any, count: int, axis: int) -> list[Any]:
    """The slices along an axis, which is gone from them."""
    if count == 1:
        return [op.Squeeze(value, [axis])]
    slices = op.Split(value, axis=axis, num_outputs=count)
    return [op.Squeeze(each, [axis]) for each in slices]


def _joined(values: list[Any], axis: int) -> Any:
    whole = [op.Unsqueeze(each, [axis]) for each in values]
    return whole[0] if len(whole) == 1 else op.Concat(*whole, axis=axis)
