"""What operators read from their nodes: attributes with defaults, and inputs that must be known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from roadworthy.spec.onnx_graph import Node
from roadworthy.spec.port import Array
from roadworthy.targets.c.lowering import Inputs, Unsupported
from roadworthy.targets.c.values import Value


def _attribute(node: Node, name: str, default: object, *kinds: type) -> object:
    value = node.attributes.get(name, default)
    if not isinstance(value, kinds):
        raise Unsupported(f"{name}={value!r}")
    return value


def integer(node: Node, name: str, default: int) -> int:
    return cast("int", _attribute(node, name, default, int))


def number(node: Node, name: str, default: float) -> float:
    # As a float32: that is what the file holds.
    return float(np.float32(cast("float", _attribute(node, name, default, int, float))))


def integers(node: Node, name: str, default: Sequence[int]) -> list[int]:
    return list(cast("Sequence[int]", _attribute(node, name, default, tuple, list)))


def text(node: Node, name: str, default: str) -> str:
    return cast("str", _attribute(node, name, default, str))


def given(inputs: Inputs, position: int) -> Value | None:
    value = inputs[position] if position < len(inputs) else None
    if isinstance(value, list):
        raise Unsupported("a sequence where a value should be")
    return value


def needed(inputs: Inputs, position: int) -> Value:
    value = given(inputs, position)
    if value is None:
        raise Unsupported(f"input {position} is missing")
    return value


def every(inputs: Inputs) -> list[Value]:
    return [needed(inputs, position) for position in range(len(inputs))]


def known(inputs: Inputs, position: int, what: str) -> Array:
    """An input that must not depend on the inputs of the policy: a size, an axis."""
    found = needed(inputs, position).known
    if found is None:
        raise Unsupported(f"{what} that depends on the inputs")
    return found


def listed(node: Node, inputs: Inputs, name: str) -> list[int] | None:
    """Whole numbers that are an input today, and were an attribute in older opsets."""
    return numbers(inputs, 1, name) or integers(node, name, ()) or None


def numbers(inputs: Inputs, position: int, what: str) -> list[int] | None:
    """Known whole numbers, or None where the input is left out."""
    if given(inputs, position) is None:
        return None
    return [int(each) for each in known(inputs, position, what).ravel()]
