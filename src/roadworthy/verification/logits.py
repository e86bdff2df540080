"""The check of the numbers behind a choice: an argmax hides every error that does not turn it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from roadworthy.errors import BundleError, need
from roadworthy.runtime.engine import OnnxEngine
from roadworthy.runtime.policy import Policy
from roadworthy.spec.bundle import POLICY, Bundle
from roadworthy.spec.certificate import Check
from roadworthy.spec.port import BATCH, Array, Port
from roadworthy.spec.run import Key, Run, Values, numbered, record_choosing, record_free, retrace
from roadworthy.spec.signature import Signature
from roadworthy.verification.close_logits import chooses, forbidden
from roadworthy.verification.comparison import Comparison
from roadworthy.verification.fresh_steps import FreshSteps
from roadworthy.verification.judging import Judge

STEPS = 64
ROWS = 2


@dataclass(frozen=True, slots=True, eq=False)
class Undecided:
    """The artifact with its logits as further outputs."""

    model: bytes
    signature: Signature
    logits: tuple[str, ...]


def logits(bundle: Bundle, fresh: FreshSteps) -> list[Check]:
    """The logits of the artifact beside those of the original; empty where none can be had."""
    if not chooses(bundle.signature):
        return []
    behind = _undecided(bundle.signature, bundle.files[POLICY])
    if behind is None:
        return []
    try:
        check = _compared(behind, fresh)
    except BundleError:  # the graph keeps its logits in another type or shape: not readable
        return []
    return [check] if check else []


def _compared(behind: Undecided, fresh: FreshSteps) -> Check | None:
    original, signature = fresh.original, fresh.signature
    policy = Policy(behind.signature, OnnxEngine(behind.model))
    rows = original.rows or signature.fixed_rows or ROWS
    rng = np.random.default_rng(fresh.seed + 31)
    inputs = original.draw(signature, rng, steps=STEPS, rows=rows, sampling=fresh.sampling)
    resets = np.zeros((STEPS, rows), dtype=bool)
    resets[:: STEPS // 2] = True
    script = Run(inputs=inputs, resets=resets)
    with original.open_choosing(signature, rows=rows) as live:
        run = record_choosing(live, script)
    alone = replace(script, resets=np.zeros_like(resets))
    again = record_free(policy, alone) if signature.clock else retrace(policy, run)
    got = dict(again.outputs)
    # A choice may be made among what is remembered: the graph shows that under its own name.
    got |= {each.output: again.next_memory[each.name] for each in signature.memory}
    theirs, ours = numbered(run.logits), numbered([got[each] for each in behind.logits])
    if _shapes(theirs) != _shapes(ours):
        return None  # the two sides choose in other ways, such as by a folded maximum
    comparison = Comparison()
    claim = "the logits behind each discrete action agree"
    name = f"{signature.action_output} logits"
    judge = _judge(fresh, run, theirs)
    if judge is None:
        one, other = (np.concatenate(list(each.values()), axis=-1) for each in (theirs, ours))
        comparison.add_steps({name: _counted(one, other)}, {name: _counted(other, one)})
        return comparison.check("logits", claim, {"measured": False})
    together = fresh.layout.flat(ours)
    for number, (key, each) in enumerate(judge.judged(together).items()):
        masked = forbidden(judge.original[key]) & forbidden(together[key])
        seen = replace(each, gap=np.where(masked, 0.0, each.gap))
        locate = fresh.layout.locator([script])
        steps = 0 if number else STEPS
        comparison.add_judged({name: seen}, {name: together[key]}, locate, count=steps)
    return comparison.check("logits", claim, judge.facts(comparison.worst, comparison.ties))


def _judge(fresh: FreshSteps, run: Run, logits: Values) -> Judge | None:
    """What rounding does to the logits; None where the graph does not show the same ones."""
    if fresh.yardstick is None or fresh.judge is None:
        return None
    states = fresh.layout.states(run)
    original = fresh.layout.flat(logits)
    judge = Judge.at(fresh.yardstick, fresh.layout, states, original, fresh.seed)
    shown = {key: value.shape for key, value in judge.budget.truth.items()}
    same = all(shown.get(key) == value.shape for key, value in original.items())
    return judge if same else None


def _shapes(values: Values) -> dict[Key, tuple[int, ...]]:
    return {name: value.shape for name, value in values.items()}


def _counted(values: Array, others: Array) -> Array:
    """Zeros for what a mask forbids on both sides: there it is the smallest number of all."""
    masked = forbidden(values) & forbidden(others)
    return np.where(masked, 0, values).astype(values.dtype)


def _undecided(signature: Signature, model: bytes) -> Undecided | None:
    """The artifact with what enters its choices as outputs; None where it makes none."""
    onnx: Any = need("onnx", extra="export")
    graph = onnx.shape_inference.infer_shapes(onnx.load_from_string(model))
    shown = {value.name for value in graph.graph.output}
    values = (*graph.graph.value_info, *graph.graph.output)
    typed = {value.name: value.type.tensor_type for value in values}
    names = list(dict.fromkeys(_entering(graph.graph)))
    if not names or any(name not in typed for name in names):
        return None
    rows = signature.fixed_rows or BATCH
    ports = []
    for name in names:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(typed[name].elem_type)
        sizes = [each.dim_value for each in typed[name].shape.dim][1:]
        if dtype.kind != "f" or not sizes or not all(sizes):
            return None
        if name in shown:
            continue
        ports.append(Port(name=name, dtype=str(dtype), shape=(rows, *sizes)))
        graph.graph.output.append(
            onnx.helper.make_tensor_value_info(name, typed[name].elem_type, [rows, *sizes])
        )
    return Undecided(
        model=graph.SerializeToString(),
        signature=replace(signature, outputs=(*signature.outputs, *ports)),
        logits=tuple(names),
    )


def _entering(graph: Any) -> Iterator[str]:
    """The names of the values that enter a choice along their last axis, in order.

    A choice is the place of the largest, or the largest that all are compared with (one-hot).
    """
    constants = {each.name: each for each in graph.initializer}
    values = (*graph.value_info, *graph.output)
    ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in values}
    compared = {name for node in graph.node if node.op_type == "Equal" for name in node.input}
    for node in graph.node:
        # The largest of a log-sum-exp is taken out, not chosen: nothing is compared with it.
        chooses = node.op_type == "ArgMax" or (
            node.op_type == "ReduceMax" and node.output[0] in compared
        )
        if chooses and _axes(node, constants) in ([-1], [ranks.get(node.input[0], 0) - 1]):
            yield node.input[0]


def _axes(node: Any, constants: Any) -> Sequence[int]:
    """The axes over which a node takes the maximum: an attribute, or its second input."""
    import onnx

    for attribute in node.attribute:
        if attribute.name == "axis":
            return [attribute.i]
        if attribute.name == "axes":
            return list(attribute.ints)
    if len(node.input) > 1 and node.input[1] in constants:
        return [int(each) for each in onnx.numpy_helper.to_array(constants[node.input[1]]).ravel()]
    return []
