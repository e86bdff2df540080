"""Recurrent cells as other formats define them: other gate orders, another reset gate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

# How PyTorch stacks the gates in the rows of its weights.
GATES: dict[type[nn.Module], str] = {
    nn.LSTM: "ifgo", nn.LSTMCell: "ifgo", nn.GRU: "rzn", nn.GRUCell: "rzn",
}  # fmt: skip


def reordered(part: nn.Module, gates: Sequence[str], order: Sequence[str]) -> None:
    """The weights of `part` as a reader sees them who takes their gates to come in `order`."""
    for parameter in part.parameters():
        if parameter.shape[0] % len(gates) == 0:
            blocks = parameter.data.chunk(len(gates))
            parameter.data.copy_(torch.cat([blocks[order.index(gate)] for gate in gates]))


def reset_gate_first(part: nn.Module, given: tuple[Any, ...], out: Any) -> Any:
    """What a GRU returns that multiplies the reset gate into the state before the weights."""
    if isinstance(part, nn.GRUCell):
        held = given[1] if len(given) > 1 and given[1] is not None else torch.zeros_like(out)
        return _cell(given[0], held, part.weight_ih, part.weight_hh, part.bias_ih, part.bias_hh)
    assert isinstance(part, nn.GRU)
    if part.bidirectional or given[0].ndim != 3:
        return out
    sequence = given[0].transpose(0, 1) if part.batch_first else given[0]
    start = given[1] if len(given) > 1 and given[1] is not None else torch.zeros_like(out[1])
    ends = []
    for layer in range(part.num_layers):
        weights = [
            getattr(part, f"{name}_l{layer}", None)
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        ]
        held, outputs = start[layer], []
        for value in sequence:
            held = _cell(value, held, *weights)
            outputs.append(held)
        sequence = torch.stack(outputs)
        ends.append(held)
    features = sequence.transpose(0, 1) if part.batch_first else sequence
    return features, torch.stack(ends)


def _cell(x: Tensor, h: Tensor, *weights: Any) -> Tensor:
    weight_ih, weight_hh, bias_ih, bias_hh = weights
    reset_x, update_x, new_x = nn.functional.linear(x, weight_ih, bias_ih).chunk(3, -1)
    reset_w, update_w, new_w = weight_hh.chunk(3)
    reset_b, update_b, new_b = (None,) * 3 if bias_hh is None else bias_hh.chunk(3)
    reset = torch.sigmoid(reset_x + nn.functional.linear(h, reset_w, reset_b))
    update = torch.sigmoid(update_x + nn.functional.linear(h, update_w, update_b))
    new = torch.tanh(new_x + nn.functional.linear(reset * h, new_w, new_b))
    return (1 - update) * new + update * h
