"""Exploy: a whole environment under the names, and with the metadata, that its controller reads.

The controller counts before it asks, so its first tick after a reset is number one: the file counts
from one as well, and decides at once. It wants three targets of every joint; those that the policy
does not give are zeros. Memory that begins with something else than zeros has it in the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import onnx

from roadworthy.deploy.emit.emission import Arrays, Emission, refuse, robot_of
from roadworthy.deploy.emit.exploy_names import Names, names_of, needs_gains, zeros
from roadworthy.deploy.emit.graph import Graph, inside, properties
from roadworthy.spec.bundle import Bundle
from roadworthy.spec.port import Array
from roadworthy.spec.robot import Robot
from roadworthy.spec.signature import Signature

VERSION = "0.1.0"
CLOCK = "ctx.step_count"
# What the controller's step count is at the first tick after a reset.
FIRST = 1
# What its buffers may hold.
_DTYPES = {
    "float32": onnx.TensorProto.FLOAT,
    "int32": onnx.TensorProto.INT32,
    "bool": onnx.TensorProto.BOOL,
}


def emission(bundle: Bundle) -> Emission:
    """policy.onnx with Exploy's ports and metadata."""
    robot, signature, said = robot_of(bundle, "exploy"), bundle.signature, properties(bundle)
    names = names_of(signature, robot, said)
    refuse("exploy", _problems(robot, signature, names))
    graph = Graph(bundle)
    _add_inputs(graph, signature, names)
    _add_outputs(graph, signature, names)
    begins = _add_memory(graph, signature)
    assert signature.period_s is not None
    own = {
        "exploy_version": json.dumps(VERSION),
        "model_source": json.dumps({"roadworthy": bundle.manifest["provenance"]["source"]}),
        "update_rate": str(_hertz(signature.period_s)),
        "decimation": str(signature.decimation),
        "first_step_count": str(FIRST),
        **{name: json.dumps(each) for name, each in names.metadata.items()},
    }
    # What the environment itself registered stays as it said it.
    graph.metadata |= own | said

    def feeds(values: Arrays) -> dict[str, Array]:
        found: dict[str, Array] = {}
        for port, (name, part) in names.inputs.items():
            found.setdefault(name, np.zeros((1, names.sizes[name]), values[port].dtype))
            found[name][:, part] = values[port].reshape(1, -1)
        shapes = {port.name: port.shape for port in signature.inputs}
        whole = {n: p for p, (n, _) in names.inputs.items() if names.sizes[n] == _size(shapes[p])}
        return {
            name: value.reshape([int(dim) for dim in shapes[whole[name]]])
            if name in whole
            else value
            for name, value in found.items()
        }

    given = {port: names.outputs.get(port, port) for port in _outputs(signature)}
    return Emission(
        files={"policy.onnx": graph.bytes()},
        model="policy.onnx",
        feeds=feeds,
        given=lambda outputs: {port: outputs[name] for port, name in given.items()},
        memory={each.output: each.input for each in signature.memory},
        begins=begins,
        clock=(CLOCK, FIRST),
    )


def _problems(robot: Robot, signature: Signature, names: Names) -> list[tuple[str, str]]:
    if signature.clock != CLOCK or not names.outputs:
        lost = "ctx.step_count, output.joint_targets.NAME.pos"
        what = f"the controller runs whole environments, and the policy has no ports of one: {lost}"
        return [(what, "rw.export_environment(env, actor, …): of mjlab, or with these names")]
    problems = [
        (f"the controller has no name for {name}, and refuses a file that has one", _hint(name))
        for name in names.unknown
    ]
    if needs_gains(names) and not (robot.stiffness and robot.damping):
        problems.append(("the metadata has no stiffness or damping", "add both to robot.yaml"))
    if signature.fixed_rows != 1:
        what = f"the policy takes {signature.fixed_rows} rows, and the controller gives one"
        problems.append((what, "export an environment of one row"))
    held = {port.name: port.dtype for port in signature.inputs}
    held |= {each.name: each.dtype for each in signature.memory}
    problems += [
        (f"{name} is {dtype}, and the controller knows {', '.join(_DTYPES)}", "convert it inside")
        for name, dtype in held.items()
        if dtype not in _DTYPES and name not in names.unknown
    ]
    if not signature.period_s:
        problems.append(("the policy has no period", "add period_s: 0.005 to the metadata"))
    elif abs(round(1000 / _hertz(signature.period_s)) - 1000 * signature.period_s) > 1e-6:
        what = f"the period is {signature.period_s} s, and the controller counts whole milliseconds"
        problems.append((what, "train with a simulation step of whole milliseconds"))
    return problems


def _hint(name: str) -> str:
    if name.endswith(".ctrl"):
        return "outputs='targets' at the export: the controller's motors follow targets"
    return "run the bundle itself, or register the port under a name of the controller's"


def _hertz(period_s: float) -> int:
    """Ticks in a second, as the controller reads them: a whole number."""
    return max(1, round(1 / period_s))


def _add_inputs(graph: Graph, signature: Signature, names: Names) -> None:
    graph.input(CLOCK, [], onnx.TensorProto.INT32)
    first = graph.constant("first_count", FIRST, np.int32)
    graph.before("Sub", [CLOCK, first], inside(CLOCK))
    added: set[str] = set()
    for port in signature.inputs:
        name, part = names.inputs[port.name]
        whole = names.sizes[name] == _size(port.shape)
        if name not in added:
            added.add(name)
            shape = port.shape if whole else [1, names.sizes[name]]
            graph.input(name, shape, _DTYPES[port.dtype])
        if whole:
            graph.before("Identity", [name], inside(port.name))
            continue
        bounds = [
            graph.constant(f"{port.name}/{word}", [value])
            for word, value in (("start", part.start), ("stop", part.stop), ("axis", 1))
        ]
        graph.before("Slice", [name, *bounds], inside(port.name))


def _add_outputs(graph: Graph, signature: Signature, names: Names) -> None:
    for port in signature.outputs:
        name = names.outputs.get(port.name, port.name)
        graph.behind("Identity", [inside(port.name)], name)
        graph.output(name, port.shape, _DTYPES.get(port.dtype, onnx.TensorProto.FLOAT))
    for name, size in zeros(names):
        graph.number(name, np.zeros((1, size), np.float32))


def _add_memory(graph: Graph, signature: Signature) -> Mapping[str, Array]:
    """What each memory begins with; where that is not zeros, the file says it too."""
    begins = {}
    for each in signature.memory:
        begins[each.input] = each.fresh(1)
        graph.input(each.input, each.shape, _DTYPES[each.dtype])
        if begins[each.input].any():
            # An input with a value of its own: the controller leaves it out at the first tick.
            graph.constant(each.input, begins[each.input], begins[each.input].dtype.type)
        graph.before("Identity", [each.input], inside(each.input))
        graph.behind("Identity", [inside(each.output)], each.output)
        graph.output(each.output, each.shape, _DTYPES[each.dtype])
    return begins


def _outputs(signature: Signature) -> list[str]:
    return [port.name for port in signature.outputs]


def _size(shape: tuple[int | str, ...]) -> int:
    return int(np.prod([int(dim) for dim in shape[1:]], dtype=int))
