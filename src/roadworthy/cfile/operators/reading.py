"""What operators read from their nodes: attributes with defaults, and inputs that must be known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from roadworthy.cfile.graph import Node
from roadworthy.cfile.lowering import Result, Unsupported
from roadworthy.cfile.values import Value
from roadworthy.spec.port import Array


def integer(node: Node, name: str, default: int) -> int:
    value = node.attributes.get(name, default)
    if not isinstance(value, int):
        raise Unsupported(f"{name}={value!r}")
    return value


def number(node: Node, name: str, default: float) -> float:
    value = node.attributes.get(name, default)
    if not isinstance(value, (int, float)):
        raise Unsupported(f"{name}={value!r}")
    # As a float32: that is what the file holds.
    return float(np.float32(value))


def integers(node: Node, name: str, default: Sequence[int]) -> list[int]:
    value = node.attributes.get(name, default)
    if not isinstance(value, (tuple, list)):
        raise Unsupported(f"{name}={value!r}")
    return [int(each) for each in value]


def text(node: Node, name: str, default: str) -> str:
    value = node.attributes.get(name, default)
    if not isinstance(value, str):
        raise Unsupported(f"{name}={value!r}")
    return value


def given(inputs: Sequence[Result | None], position: int) -> Value | None:
    value = inputs[position] if position < len(inputs) else None
    if isinstance(value, list):
        raise Unsupported("a sequence where a value should be")
    return value


def needed(inputs: Sequence[Result | None], position: int) -> Value:
    value = given(inputs, position)
    if value is None:
        raise Unsupported(f"input {position} is missing")
    return value


def known(inputs: Sequence[Result | None], position: int, what: str) -> Array:
    """An input that must not depend on the inputs of the policy: a size, an axis."""
    found = needed(inputs, position).known
    if found is None:
        raise Unsupported(f"{what} that depends on the inputs")
    return found


def numbers(inputs: Sequence[Result | None], position: int, what: str) -> list[int] | None:
    """Known whole numbers, or None where the input is left out."""
    if given(inputs, position) is None:
        return None
    return [int(each) for each in known(inputs, position, what).ravel()]
