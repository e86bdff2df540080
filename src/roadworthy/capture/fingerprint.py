"""Whether the weights of a module are in a file, whatever the order in which the file has them."""

from __future__ import annotations

import hashlib

import numpy as np
import torch

from roadworthy.spec.port import Array

# Shorter vectors are often folded into their neighbours when a graph is optimised.
FEWEST_VALUES = 8


def absent_weights(module: torch.nn.Module, model: bytes) -> tuple[list[str], int]:
    """The weight matrices of `module` whose values are not in the file, and how many it has."""
    import onnx

    graph = onnx.load_from_string(model).graph
    held = {_print(onnx.numpy_helper.to_array(each)) for each in graph.initializer}
    weights = {
        name: value.detach().cpu().double().numpy()
        for name, value in module.named_parameters()
        if value.ndim > 1 and value.numel() >= FEWEST_VALUES
    }
    return [name for name, value in weights.items() if _print(value) not in held], len(weights)


def _print(values: Array) -> str:
    # Transposed, or with gates in another order, the values are still the same ones.
    return hashlib.sha256(np.sort(values.astype(np.float64), axis=None).tobytes()).hexdigest()
