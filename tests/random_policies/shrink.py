"""From a policy that fails to a smallest one that fails the same way: delta debugging on data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.random_policies import build
from tests.random_policies.policy import Input, Policy, Step, pruned

Fails = Callable[[Policy], bool]


def shrunk(policy: Policy, fails: Fails, most: int = 150) -> Policy:
    """A policy that `fails` too, of which nothing can be left out; `most` are tried."""
    seen = {policy}
    tried = 0
    smaller = True
    while smaller:
        smaller = False
        for candidate in candidates(policy):
            if candidate in seen:
                continue
            seen.add(candidate)
            if not is_policy(candidate):
                continue
            tried += 1
            if tried > most:
                return policy
            if fails(candidate):
                policy, smaller = candidate, True
                break
    return policy


def is_policy(policy: Policy) -> bool:
    """Whether the data runs, and every step behind it still fits."""
    if not policy.nodes or not policy.inputs:
        return False
    try:
        sizes = build.shapes(policy)
    except build.Unfit:
        return False
    multi = [step for step in policy.action if step.kind == "multi"]
    return not multi or sizes[policy.outputs[0]] == (sum(multi[0].values),)


def candidates(policy: Policy) -> Iterator[Policy]:
    """Every policy that is one step smaller, those that lose most first."""
    for place in range(len(policy.outputs)):
        if len(policy.outputs) > 1:
            left = (*policy.outputs[:place], *policy.outputs[place + 1 :])
            yield pruned(replace(policy, outputs=left, action=() if place == 0 else policy.action))
    yield from _earlier_ends(policy)
    yield from _cut(policy)
    yield from _bypassed(policy)
    for field in ("action", "normalizers"):
        steps: tuple[Step, ...] = getattr(policy, field)
        for place in range(len(steps)):
            left_steps = (*steps[:place], *steps[place + 1 :])
            yield replace(policy, **{field: left_steps})  # type: ignore[arg-type]
    yield from _plainer(policy)


def _earlier_ends(policy: Policy) -> Iterator[Policy]:
    """The result of an inner node alone as the output, the first nodes first."""
    for node in policy.nodes:
        if policy.outputs != (node.name,):
            yield pruned(replace(policy, outputs=(node.name,), action=()))


def _cut(policy: Policy) -> Iterator[Policy]:
    """An input in the place of a node and of all that it needs."""
    sizes = build.shapes(policy)
    for node in reversed(policy.nodes):
        if policy.outputs == (node.name,) or node.kind.takes in ("", "k", "b", "u", "o"):
            continue
        port = Input(node.name, policy.precision, sizes[node.name])
        nodes = tuple(each for each in policy.nodes if each.name != node.name)
        if node.name not in policy.outputs:
            yield pruned(replace(policy, inputs=(*policy.inputs, port), nodes=nodes))


def _bypassed(policy: Policy) -> Iterator[Policy]:
    """An operand in the place of a node."""
    for node in reversed(policy.nodes):
        for operand in dict.fromkeys(node.operands):
            names = {node.name: operand}
            nodes = tuple(
                replace(each, operands=tuple(names.get(name, name) for name in each.operands))
                for each in policy.nodes
                if each.name != node.name
            )
            outputs = tuple(names.get(name, name) for name in policy.outputs)
            made = {each.name for each in nodes}
            if all(name in made for name in outputs) and len(set(outputs)) == len(outputs):
                yield pruned(replace(policy, nodes=nodes, outputs=outputs))


def _plainer(policy: Policy) -> Iterator[Policy]:
    """Smaller sizes, no limits, memory as an argument."""
    if policy.rows > 1 or policy.mapping or policy.period_s is not None:
        yield replace(policy, rows=1)
        yield replace(policy, mapping=False)
        yield replace(policy, period_s=None)
    for place, port in enumerate(policy.inputs):
        smaller = [
            replace(port, shape=(*port.shape[:-1], n)) for n in (1, 2) if port.shape[-1:] > (n,)
        ]
        if port.dtype.startswith("float") and port.low is not None:
            smaller.append(replace(port, low=None, high=None))
        for each in smaller:
            inputs = (*policy.inputs[:place], each, *policy.inputs[place + 1 :])
            yield replace(policy, inputs=inputs)
    for place, node in enumerate(policy.nodes):
        others = []
        if node.style not in ("", "argument"):
            others.append(replace(node, style="argument"))
        if node.initial:
            others.append(replace(node, initial=0))
        for index, (name, value) in enumerate(node.parameters):
            least = min(node.kind.parameters[name])
            if name in ("width", "layers", "count", "lag", "size") and value != least:
                parameters = list(node.parameters)
                parameters[index] = (name, least)
                others.append(replace(node, parameters=tuple(parameters)))
        for changed in others:
            nodes = (*policy.nodes[:place], changed, *policy.nodes[place + 1 :])
            yield replace(policy, nodes=nodes)
