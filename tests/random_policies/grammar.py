"""Random small policies as plain data: a seed gives the same policy always.

A policy is a list of nodes, each an operator of the table over earlier values. What fits is found
by trying: a node that cannot run, or whose values explode on ordinary inputs, is drawn again.
"""

from __future__ import annotations

from random import Random

import torch

from tests.random_policies import trying
from tests.random_policies.operators import OPERATORS, Number, Operator
from tests.random_policies.policy import Input, Node, Policy, Step, pruned

STYLES = ("argument", "argument", "attribute", "buffer", "in place")
LARGEST = 1e3
TRIES = 40


def generate(seed: int) -> Policy:
    """The policy of a seed."""
    rng = Random(seed)
    precision = rng.choices(("float32", "float64"), (12, 1))[0]
    inputs = _inputs(rng, precision)
    values = {each.name: trying.example(each, rng.randrange(1 << 30)) for each in inputs}
    nodes: list[Node] = []
    for _ in range(rng.randint(1, 12)):
        _grow(rng, precision, nodes, values, tuple(OPERATORS))
    for each in inputs:
        if not any(each.name in node.operands for node in nodes):
            _grow(rng, precision, nodes, values, _ENTRANCE, start=each.name)
    outputs = _outputs(rng, precision, nodes, values, [each.name for each in inputs])
    first = values[outputs[0]]
    policy = Policy(
        seed=seed,
        precision=precision,
        inputs=inputs,
        nodes=tuple(nodes),
        outputs=outputs,
        rows=rng.choice((1, 1, 2, 4)),
        mapping=rng.random() < 0.3,
        normalizers=_normalizers(rng, inputs),
        action=_action(rng, first) if first.is_floating_point() and first.ndim == 2 else (),
        period_s=rng.choice((None, 0.02)),
    )
    return pruned(policy)


# What makes something of an input that nothing has used yet, whatever its kind is.
_ENTRANCE = (
    "linear", "embedding", "one_hot", "conv", "pooled", "linear_each", "pixels", "to_float",
    "flags_as_float",
)  # fmt: skip


def _inputs(rng: Random, precision: str) -> tuple[Input, ...]:
    def limited() -> tuple[Number | None, Number | None]:
        return rng.choice(((None, None), (None, None), (-1, 1), (-3.14, 3.14), (200, 400), (0, 5)))

    low, high = limited()
    found = [Input("obs", precision, (rng.randint(1, 9),), low, high)]
    others = (
        lambda: Input("goal", precision, (rng.randint(1, 4),), *limited()),
        lambda: Input("window", precision, (rng.randint(2, 5), rng.choice((1, 2, 4, 6)))),
        lambda: Input("task", "int64", rng.choice(((), (1,), (2,))), 0, rng.choice((1, 4, 8))),
        lambda: Input("tick", "int32", (1,), 0, 1000),
        lambda: Input("contacts", "bool", (rng.randint(1, 4),)),
        lambda: Input("command", rng.choice(("float16", "float64", "float32")), (3,), -2, 2),
        lambda: Input("camera", rng.choice(("uint8", precision)), (rng.choice((1, 3)), 6, 8)),
    )
    count = rng.choices((0, 1, 2, 3), (5, 4, 2, 1))[0]
    found += [make() for make in rng.sample(others, count)]
    if len(found) > 1 and rng.random() < 0.15:
        found.pop(0)
    return tuple(found)


def _grow(
    rng: Random,
    precision: str,
    nodes: list[Node],
    values: dict[str, torch.Tensor],
    among: tuple[str, ...],
    start: str | None = None,
) -> str | None:
    """Changes `nodes` and `values`: one node more, if one was found; its name comes back."""
    weights = [OPERATORS[name].weight for name in among]
    # Memory in every second policy or so, not several in each.
    remembers = rng.random() < 0.15
    for _ in range(TRIES):
        operator = OPERATORS[rng.choices(among, weights)[0]]
        if bool(operator.state) != remembers and start is None:
            continue
        operands = _operands(rng, precision, operator, values, start)
        if operands is None:
            continue
        style = rng.choice(STYLES) if operator.state else ""
        node = Node(
            name=f"v{len(nodes)}",
            operator=operator.name,
            operands=operands,
            parameters=tuple((k, rng.choice(each)) for k, each in operator.parameters.items()),
            weights=rng.randrange(1000) if operator.init else 0,
            style=style,
            initial=rng.choice((0, 0, 0.25)) if style not in ("", "attribute") else 0,
        )
        result = trying.result(node, precision, values)
        if result is not None and trying.is_ordinary(result, LARGEST):
            nodes.append(node)
            values[node.name] = result
            return node.name
    return None


def _operands(
    rng: Random,
    precision: str,
    operator: Operator,
    values: dict[str, torch.Tensor],
    start: str | None,
) -> tuple[str, ...] | None:
    """Values of the right kinds, recent ones first; None where there are none."""
    chosen: list[str] = []
    for letter in operator.takes:
        fitting = [
            name
            for name, value in values.items()
            if (
                value.shape == values[chosen[0]].shape and value.dtype == values[chosen[0]].dtype
                if letter == "="
                else letter in trying.letters(value, precision)
            )
        ]
        if start is not None and not chosen:
            fitting = [name for name in fitting if name == start]
        if len(fitting) > 1:
            # Two operands that are one tell little.
            fitting = [name for name in fitting if name not in chosen] or fitting
        if not fitting or (fitting == chosen and rng.random() < 0.8):
            return None
        chosen.append(rng.choices(fitting, range(1, len(fitting) + 1))[0])
    return tuple(chosen)


def _outputs(
    rng: Random,
    precision: str,
    nodes: list[Node],
    values: dict[str, torch.Tensor],
    inputs: list[str],
) -> tuple[str, ...]:
    """The unused ends, joined where they are vectors, and a head in front of most of them."""
    used = {operand for node in nodes for operand in node.operands}
    ends = [node.name for node in nodes if node.name not in used]
    vectors = [name for name in ends if "v" in trying.letters(values[name], precision)]
    while len(vectors) > 1 and rng.random() < 0.8:
        node = Node(f"v{len(nodes)}", "cat", (vectors[0], vectors[1]))
        result = trying.result(node, precision, values)
        if result is None:  # such as two of other rows
            break
        vectors = vectors[2:]
        nodes.append(node)
        values[node.name] = result
        vectors.append(node.name)
        ends = [name for name in ends if name not in node.operands] + [node.name]
    if vectors and rng.random() < 0.7:
        head = _grow(rng, precision, nodes, values, ("linear", "mlp"), start=vectors[-1])
        ends = [name for name in ends if name != vectors[-1]] + ([head] if head else [])
    ends = ends[::-1][:3]
    if not ends:
        head = _grow(rng, precision, nodes, values, _ENTRANCE, start=inputs[0])
        assert head is not None, "an input that nothing takes"
        ends = [head]
    if rng.random() < 0.1 and len(nodes) > 1:
        inner = rng.choice(nodes).name
        ends += [inner] if inner not in ends else []
    return tuple(ends)


def _normalizers(rng: Random, inputs: tuple[Input, ...]) -> tuple[Step, ...]:
    candidates = [i for i in inputs if i.dtype.startswith("float3") and len(i.shape) == 1]
    if not candidates or rng.random() < 0.75:
        return ()
    kind = rng.choice(("inside", "outside"))
    clip = rng.choice((0, 5, 10))
    return (Step(kind, (rng.randrange(1000), clip), candidates[0].name),)


def _action(rng: Random, first: torch.Tensor) -> tuple[Step, ...]:
    width = first.shape[-1]
    steps: list[Step] = []
    draw = rng.random()
    if draw < 0.55:
        return ()
    if draw < 0.7 and width > 1:
        return (Step("argmax", (), rng.choice(("", "", "action_mask"))),)
    if draw < 0.75 and width > 3:
        return (Step("multi", (2, width - 2)),)
    if rng.random() < 0.5:
        steps.append(Step("tanh"))
    if rng.random() < 0.5:
        steps.append(Step("scale", (rng.choice((0.25, 2.0, 100.0)), rng.choice((0.0, -0.7)))))
    if rng.random() < 0.4:
        steps.append(Step("bounds", (-2.0, 5.0)))
    if rng.random() < 0.4:
        steps.append(Step("clip", (-1.0, 1.5)))
    return tuple(steps)
