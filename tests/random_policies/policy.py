"""A random policy as plain, printable data."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.random_policies.operators import OPERATORS, Number, Operator


@dataclass(frozen=True)
class Input:
    """A port: `shape` is that of one row."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    low: Number | None = None
    high: Number | None = None


@dataclass(frozen=True)
class Node:
    """`name = operator(operands)`; `style` says how it keeps its memory, if it has any."""

    name: str
    operator: str
    operands: tuple[str, ...]
    parameters: tuple[tuple[str, Number], ...] = ()
    weights: int = 0
    style: str = ""
    initial: Number = 0

    @property
    def kind(self) -> Operator:
        return OPERATORS[self.operator]


@dataclass(frozen=True)
class Step:
    """An action step behind the first output, or a normaliser of an input."""

    kind: str
    values: tuple[Number, ...] = ()
    name: str = ""


@dataclass(frozen=True)
class Policy:
    """Everything about a policy; its weights follow from the nodes."""

    seed: int
    precision: str
    inputs: tuple[Input, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    rows: int = 1
    mapping: bool = False
    normalizers: tuple[Step, ...] = ()
    action: tuple[Step, ...] = ()
    period_s: float | None = None

    @property
    def operators(self) -> frozenset[str]:
        return frozenset(node.operator for node in self.nodes)


def pruned(policy: Policy) -> Policy:
    """The policy without what no output needs."""
    needed = set(policy.outputs)
    for node in reversed(policy.nodes):
        if node.name in needed:
            needed |= set(node.operands)
    inputs = tuple(each for each in policy.inputs if each.name in needed)
    return replace(
        policy,
        inputs=inputs,
        nodes=tuple(node for node in policy.nodes if node.name in needed),
        normalizers=tuple(s for s in policy.normalizers if s.name in {i.name for i in inputs}),
    )
