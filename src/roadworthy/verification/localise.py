"""Where a difference begins: the first value inside the graph that departs from PyTorch's."""

from __future__ import annotations

from roadworthy.capture.source import Source
from roadworthy.errors import Finding, RoadworthyError
from roadworthy.spec.bundle import POLICY, Bundle
from roadworthy.verification.compare import Comparison
from roadworthy.verification.live import Moment
from roadworthy.verification.nodes import NodeValue, TorchValue, artifact_values, torch_values


def localise(bundle: Bundle, source: Source, moment: Moment) -> Finding | None:
    """The finding that names the node and the line; None where the graphs cannot be compared."""
    signature = bundle.signature
    if signature.clock or POLICY not in bundle.files:
        return None
    try:
        truth = torch_values(source, signature, moment.inputs, moment.memory)
    except RoadworthyError:  # the original cannot be captured: there is nothing to lay beside
        return None
    agreed: list[str] = []
    model = bundle.files[POLICY]
    for node in artifact_values(model, signature, moment.inputs, moment.memory):
        expected = truth.get(node.name)
        if expected is None or expected.value.shape != node.value.shape:
            continue
        comparison = Comparison()
        comparison.add(moment.step, {node.name: expected.value}, {node.name: node.value})
        if not comparison.passed:
            return _finding(node, expected, comparison, agreed)
        agreed.append(node.name)
    return None


def _finding(
    node: NodeValue, expected: TorchValue, comparison: Comparison, agreed: list[str]
) -> Finding:
    before = f"; {len(agreed)} values before it agree, {agreed[-1]!r} last" if agreed else ""
    weights = f"its weights are {' and '.join(map(repr, node.weights))}" if node.weights else ""
    return Finding(
        code="RW301",
        severity="note",
        where=expected.where or node.name,
        what=f"the difference begins at {node.name!r} ({node.operator}): "
        f"{comparison.first_failure}{before}",
        hint=weights or "compare this operation, and what enters it, on both sides",
    )
