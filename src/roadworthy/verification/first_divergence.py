"""Where a difference begins: the first value inside the graph that departs from PyTorch's."""

from __future__ import annotations

from roadworthy.errors import Finding
from roadworthy.spec.bundle import POLICY, Bundle
from roadworthy.verification.artifact_values import NodeValue, artifact_values
from roadworthy.verification.comparison import Comparison
from roadworthy.verification.originals.original import Original, TorchValue
from roadworthy.verification.visited import FailingStep


def first_divergence(bundle: Bundle, original: Original, failing: FailingStep) -> Finding | None:
    """The finding that names the node and the line; None where the graphs cannot be compared."""
    signature = bundle.signature
    if POLICY not in bundle.files:
        return None
    truth = original.graph_values(signature, failing.inputs, failing.memory)
    if not truth:
        return None
    agreed: list[str] = []
    for node in artifact_values(bundle.files[POLICY], signature, failing.inputs, failing.memory):
        expected = truth.get(node.name)
        if expected is None or expected.value.shape != node.value.shape:
            continue
        comparison = Comparison()
        comparison.add(failing.step, {node.name: expected.value}, {node.name: node.value})
        if not comparison.passed:
            return _finding(node, expected, comparison, agreed)
        agreed.append(node.name)
    return None


def _finding(
    node: NodeValue, expected: TorchValue, comparison: Comparison, agreed: list[str]
) -> Finding:
    before = f"; {len(agreed)} values before it agree, {agreed[-1]!r} last" if agreed else ""
    named = " and ".join(map(repr, node.weights))
    weights = f"compare the weights {named} with those of the original" if named else ""
    return Finding(
        code="RW301",
        severity="note",
        where=expected.where or node.name,
        what=f"the difference begins at {node.name!r} ({node.operator}): "
        f"{comparison.first_failure}{before}",
        hint=weights
        or "where RW340 names this line, give the inputs the limits that they have: about={…: "
        "rw.About(low=…, high=…)}; else compare the line with the code that was exported",
    )
