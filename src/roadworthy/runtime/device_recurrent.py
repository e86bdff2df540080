"""LSTM and GRU on a device, by PyTorch's own kernels.

cuDNN's GRU was 27 times as far from the exact policy as PyTorch on the CPU, in one policy of the
tests: too far for a certificate. A policy takes one step at a time, for which cells are as quick.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roadworthy.errors import need


def lstm(
    features: Any, state: Sequence[Any], weights: Sequence[Any], biases: bool, layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """What `aten.lstm.input` gives: the features, and both states."""
    torch: Any = need("torch", extra="export")
    rest = (biases, layers, dropout, train, bidirectional, batch_first)
    each = _by_layer(features, state[0], weights, rest)
    if each is None:
        found: tuple[Any, Any, Any] = _without_cudnn(
            torch.ops.aten.lstm.input, features, state, weights, *rest
        )
        return found
    axis = int(batch_first)
    value, hidden, cells = features.squeeze(axis), [], []
    for layer, own in enumerate(each):
        value, cell = torch.lstm_cell(value, (state[0][layer], state[1][layer]), *own)
        hidden.append(value)
        cells.append(cell)
    return value.unsqueeze(axis), _stacked(torch, hidden), _stacked(torch, cells)


def gru(
    features: Any, state: Any, weights: Sequence[Any], biases: bool, layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Any, Any]:  # fmt: skip
    """What `aten.gru.input` gives: the features, and the state."""
    torch: Any = need("torch", extra="export")
    rest = (biases, layers, dropout, train, bidirectional, batch_first)
    each = _by_layer(features, state, weights, rest)
    if each is None:
        found: tuple[Any, Any] = _without_cudnn(
            torch.ops.aten.gru.input, features, state, weights, *rest
        )
        return found
    axis = int(batch_first)
    value, hidden = features.squeeze(axis), []
    for layer, own in enumerate(each):
        value = torch.gru_cell(value, state[layer], *own)
        hidden.append(value)
    return value.unsqueeze(axis), _stacked(torch, hidden)


def _by_layer(
    features: Any, state: Any, weights: Sequence[Any], rest: tuple[Any, ...]
) -> list[Sequence[Any]] | None:
    """The weights of each layer, if this is one step of plain layers, one above the other."""
    biases, layers, _, train, bidirectional, batch_first = rest
    count = 4 if biases else 2
    one_step = features.ndim == 3 and features.shape[int(batch_first)] == 1
    plain = len(weights) == count * layers and not bidirectional and not train
    if not (one_step and plain and weights[1].shape[1] == state.shape[2]):
        return None
    return [weights[count * layer : count * (layer + 1)] for layer in range(layers)]


def _stacked(torch: Any, states: list[Any]) -> Any:
    return states[0].unsqueeze(0) if len(states) == 1 else torch.stack(states)


def _without_cudnn(operator: Any, *args: Any) -> Any:
    torch: Any = need("torch", extra="export")
    cudnn = torch.backends.cudnn
    before, cudnn.enabled = cudnn.enabled, False
    try:
        return operator(*args)
    finally:
        cudnn.enabled = before
