"""A policy as the Python that a person would have written: what is run, and what is shown."""

from __future__ import annotations

from collections.abc import Mapping

from tests.random_policies.policy import Node, Policy

Shapes = Mapping[str, tuple[int, ...]]


def node_init(node: Node, precision: str, shapes: Shapes) -> list[str]:
    """The lines of `__init__` for a node."""
    if not node.kind.init:
        return []
    words = _words(node, precision, shapes)
    made = node.kind.init.format(**words)
    return [f"torch.manual_seed({node.weights})", f"self.{node.name} = {made}"]


def node_lines(node: Node, precision: str, shapes: Shapes) -> list[str]:
    """The lines of `forward` for a node."""
    words = _words(node, precision, shapes)
    lines = (line.format(*node.operands, **words) for line in node.kind.lines)
    return [line for line in lines if line]


def memories(node: Node, precision: str, shapes: Shapes) -> dict[str, str]:
    """Memory name → the expression of its initial value, with B for the batch."""
    words = _words(node, precision, shapes)
    return {
        f"{node.name}_{index}": f"torch.full({state.shape.format(**words)}, "
        f"{_literal(node.initial, state.dtype)}, dtype={state.dtype.format(**words)})"
        for index, state in enumerate(node.kind.state)
    }


def code(policy: Policy, shapes: Shapes) -> str:
    """A class called `Net`, with everything that the nodes of the policy say."""
    init, kept, lines, written = [], [], [], []
    arguments = [each.name for each in policy.inputs]
    returned = list(policy.outputs)
    batch, rows = f"{policy.inputs[0].name}.shape[0]", str(policy.rows)
    for node in policy.nodes:
        init += node_init(node, policy.precision, shapes)
        lines += node_lines(node, policy.precision, shapes)
        for name, start in memories(node, policy.precision, shapes).items():
            if node.style == "argument":
                arguments.append(name)
                returned.append(name)
            elif node.style == "attribute":
                init.append(f"self.{name} = None")
                kept += [f"{name} = self.{name}", f"if {name} is None:"]
                kept.append(f"    {name} = {_sized(start, batch)}")
                written.append(f"self.{name} = {name}")
            else:
                init.append(f"self.register_buffer({name!r}, {_sized(start, rows)})")
                kept.append(f"{name} = self.{name}")
                in_place = f"self.{name}.copy_({name})"
                written.append(in_place if node.style == "in place" else f"self.{name} = {name}")
    if policy.mapping:
        result = "{" + ", ".join(f"{_key(policy, name)!r}: {name}" for name in returned) + "}"
    else:
        result = ", ".join(returned)
    body = [*kept, *lines, *written, f"return {result}"]
    return "\n".join(
        [
            "class Net(nn.Module):",
            "    def __init__(self):",
            "        super().__init__()",
            *(f"        {line}" for line in init),
            "",
            f"    def forward(self, {', '.join(arguments)}):",
            *(f"        {line}" for line in body),
            "",
        ]
    )


def output_names(policy: Policy) -> tuple[str, ...]:
    """The name of each output port: the first is what the policy is for."""
    return ("actions", *policy.outputs[1:])


def _key(policy: Policy, value: str) -> str:
    return "actions" if value == policy.outputs[0] else value


def _sized(start: str, batch: str) -> str:
    return start.replace("(B,", f"({batch},").replace(" B,", f" {batch},")


def _literal(value: float, dtype: str) -> str:
    if dtype == "torch.bool":
        return "False"
    return "0" if dtype == "torch.int64" else repr(float(value))


def _words(node: Node, precision: str, shapes: Shapes) -> dict[str, object]:
    shape = shapes[node.operands[0]]
    sizes = {"n": shape[-1] if shape else 1}
    sizes |= {"c": shape[0]} if len(shape) > 1 else {}
    sizes |= {"h": shape[1]} if len(shape) > 2 else {}
    names = {f"m{index}": f"{node.name}_{index}" for index in range(len(node.kind.state))}
    return {
        **sizes,
        **dict(node.parameters),
        **names,
        "float": f"torch.{precision}",
        "me": f"self.{node.name}",
        "out": node.name,
    }
