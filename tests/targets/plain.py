"""A fourth target, as a stranger would add one: a plan in JSON, its weights in a folder beside it.

It knows three operators, and computes with NumPy alone.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from roadworthy.capture.program import Program
from roadworthy.runtime.engine import Artifact
from roadworthy.spec.port import Array
from roadworthy.spec.targets import Target
from roadworthy.targets.backend import Settings

ROW = Target(
    name="plain",
    files=("plain.json", "plain/weights.npz"),
    backend="tests.targets.plain:PlainBackend",
    engines={
        "cpu": "tests.targets.plain:PlainEngine",
        "abacus": "tests.targets.plain:PlainEngine",
    },
    about="a plan that NumPy follows",
    stage="writing the plan",
)
OPERATORS: Mapping[str, Callable[..., Array]] = {
    "aten.clone.default": np.copy,
    "aten.linear.default": lambda x, weight, bias: x @ weight.T + bias,
    "aten.tanh.default": np.tanh,
}


class PlainBackend:
    """Writes linear layers and tanh as a plan, and the weights that it names."""

    @classmethod
    def configured(cls, settings: Settings) -> PlainBackend:
        return cls()

    def lower(self, program: Program, folder: Path) -> Sequence[Path]:
        known = program.graph.graph_signature
        held = known.inputs_to_parameters.items()
        weights = {key: program.graph.state_dict[name] for key, name in held}
        nodes = [node for node in program.graph.graph.nodes if node.op == "call_function"]
        steps = [(node.name, str(node.target), [each.name for each in node.args]) for node in nodes]
        plan = {"input": known.user_inputs[0], "steps": steps}
        paths = [folder / name for name in ROW.files]
        paths[0].write_text(json.dumps(plan))
        paths[1].parent.mkdir()
        with paths[1].open("wb") as file:
            np.savez(file, **{key: value.detach().numpy() for key, value in weights.items()})
        return paths


class PlainEngine:
    """Follows the plan. On the abacus every value is rounded: a device with another precision."""

    def __init__(self, artifact: Artifact, device: str) -> None:
        plan, weights = artifact.files.values()
        self.plan = json.loads(plan)
        self.weights = dict(np.load(io.BytesIO(weights)))
        self.round = device == "abacus"

    @classmethod
    def open(cls, artifact: Artifact, *, threads: int, device: str) -> PlainEngine:
        return cls(artifact, device)

    def bind(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> Callable[[], None]:
        (given,), (result,) = inputs.values(), outputs.values()

        def step() -> None:
            values = {self.plan["input"]: given, **self.weights}
            for name, operator, arguments in self.plan["steps"]:
                values[name] = OPERATORS[operator](*(values[each] for each in arguments))
            result[...] = values[name].round(2) if self.round else values[name]

        return step
