"""skrl's expressions for what goes into a network and what comes out: read, never evaluated."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from torch import nn

from roadworthy.frameworks.network.layers import ACTIVATIONS
from roadworthy.frameworks.questions import Head
from roadworthy.spec.transforms import ActionStep, ScaleOffset, Tanh

_LONGEST = 500
_OBSERVED = ("OBSERVATIONS", "STATES")


@dataclass(frozen=True, slots=True)
class Scaled:
    """`x * scale + offset`."""

    scale: float = 1.0
    offset: float = 0.0


# From the inside to the outside: a function by its name, a number, or an order of axes.
Operation = str | Scaled | tuple[int, ...]


def operations(text: str, names: tuple[str, ...]) -> tuple[Operation, ...]:
    """What is done to one of the names; ValueError for anything but functions and numbers."""
    if len(text) > _LONGEST:
        raise ValueError(text)
    try:
        return tuple(_operations(ast.parse(text.strip(), mode="eval").body, names))
    except (SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise ValueError(text) from error


def _operations(node: ast.expr, names: tuple[str, ...]) -> list[Operation]:
    match node:
        case ast.Name(id=name) if name in names:
            return []
        case ast.Call(func=ast.Name(id="permute"), args=[inner, order], keywords=[]):
            return [
                *_operations(inner, names),
                tuple(int(each) for each in ast.literal_eval(order)),
            ]
        case ast.Call(func=ast.Name(id=name), args=[inner], keywords=[]) if name in ACTIVATIONS:
            return [*_operations(inner, names), name]
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return [*_operations(inner, names), Scaled(-1.0)]
        case ast.BinOp(left=left, op=op, right=right):
            number = _number(right)
            if number is not None:
                return [*_operations(left, names), _behind(op, number)]
            number = _number(left)
            if number is not None:
                return [*_operations(right, names), _before(op, number)]
    raise ValueError(ast.unparse(node))


def _number(node: ast.expr) -> float | None:
    try:
        found = ast.literal_eval(node)
    except ValueError:
        return None
    return float(found) if isinstance(found, (int, float)) else None


def _behind(op: ast.operator, number: float) -> Scaled:
    match op:
        case ast.Mult():
            return Scaled(number)
        case ast.Div() if number:
            return Scaled(1.0 / number)
        case ast.Add():
            return Scaled(offset=number)
        case ast.Sub():
            return Scaled(offset=-number)
    raise ValueError(type(op).__name__)


def _before(op: ast.operator, number: float) -> Scaled:
    match op:
        case ast.Mult():
            return Scaled(number)
        case ast.Add():
            return Scaled(offset=number)
        case ast.Sub():
            return Scaled(-1.0, number)
    raise ValueError(type(op).__name__)


def head_of(text: str) -> Head:
    """What an output expression such as `2 * tanh(ACTIONS)` does behind the last layer."""
    found = operations(text, ("ACTIONS",))
    inside: list[nn.Module] = []
    steps: list[ActionStep] = []
    for each in found:
        if isinstance(each, tuple):
            raise ValueError(text)
        if isinstance(each, Scaled):
            steps.append(ScaleOffset(scale=each.scale, offset=each.offset))
        elif each == "tanh":
            steps.append(Tanh())
        elif steps:  # the policy's steps know tanh alone; another function must come before them
            raise ValueError(text)
        else:
            inside.append(ACTIVATIONS[each]())
    return Head(steps=tuple(steps), last=nn.Sequential(*inside) if inside else None)


@dataclass(frozen=True, slots=True)
class Input:
    """What an input expression does to images: the order of axes, and what they are divided by."""

    channels: str
    divisor: float
    shift: float


def input_of(text: str) -> Input:
    """What `permute(OBSERVATIONS, (0, 3, 1, 2)) / 255.0` does; ValueError for anything else."""
    channels, scale, offset = "first", 1.0, 0.0
    for each in operations(text, _OBSERVED):
        if each == (0, 3, 1, 2):
            channels = "last"
        elif isinstance(each, Scaled):
            scale, offset = scale * each.scale, offset * each.scale + each.offset
        else:
            raise ValueError(text)
    # (x - shift) / divisor; numbers as they were written where a division was.
    divisor = 1.0 / scale
    whole = round(divisor)
    divisor = float(whole) if abs(divisor - whole) < 1e-6 else divisor
    return Input(channels, divisor, -offset * divisor)
