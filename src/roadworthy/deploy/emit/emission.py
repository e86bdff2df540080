"""What a layout gives: files, and how the ONNX file among them is stepped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from roadworthy.errors import Finding, UsageError
from roadworthy.spec.bundle import POLICY, Bundle
from roadworthy.spec.port import Array, Port
from roadworthy.spec.robot import Robot
from roadworthy.spec.signature import Signature

CODE = "RW027"
Arrays = Mapping[str, Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Emission:
    """The files of a layout, by their paths in its folder.

    model   the ONNX file among them
    feeds   what it is given at a step, from the inputs of the policy and what that gave
    given   outputs of the policy by their names, from what the file gives
    memory  its outputs → the inputs that they are at the next step
    begins  what such an input is at the first step, where that is not zeros
    clock   the input that counts steps, and what it is at the first one
    every   of so many steps of the policy the file makes the first alone
    """

    files: Mapping[str, bytes]
    model: str
    feeds: Callable[[Arrays], dict[str, Array]]
    given: Callable[[Arrays], dict[str, Array]]
    memory: Mapping[str, str] = field(default_factory=dict)
    begins: Arrays = field(default_factory=dict)
    clock: tuple[str, int] | None = None
    every: int = 1


def model_of(bundle: Bundle) -> bytes:
    """The ONNX file of a bundle."""
    if POLICY not in bundle.files:
        raise UsageError(
            f"the bundle has no {POLICY}, only {', '.join(bundle.targets)}", code=CODE,
            where=str(bundle.folder), hint="export it with the target onnx too",
        )  # fmt: skip
    return bundle.files[POLICY]


def refuse(layout: str, problems: Iterable[tuple[str, str]]) -> None:
    """An error with everything that the layout cannot hold, each with what to do."""
    found = [Finding(code=CODE, where=layout, what=what, hint=hint) for what, hint in problems]
    if found:
        raise UsageError(findings=found)


def robot_of(bundle: Bundle, layout: str) -> Robot:
    """What the bundle says about its robot."""
    robot = bundle.signature.robot
    if robot is None:
        refuse(layout, [("the bundle says nothing about a robot", _METADATA)])
    assert robot is not None
    return robot


def lacking(robot: Robot, *needed: str) -> list[tuple[str, str]]:
    """What the metadata does not say and the layout needs."""
    return [
        (f"the metadata has no {name}", _METADATA) for name in needed if not getattr(robot, name)
    ]


def action_port(signature: Signature) -> Port:
    """The output that is the action."""
    return next(port for port in signature.outputs if port.name == signature.action_output)


def branches_of(signature: Signature) -> tuple[int, ...]:
    """The sizes of the choices; none where the action is continuous."""
    action = signature.action
    return action.sizes if action and action.kind != "continuous" else ()


def plain_ports(bundle: Bundle, *, memory: bool = False) -> list[tuple[str, str]]:
    """What is wrong with a policy for a runtime that knows one rate and draws no noise."""
    signature = bundle.signature
    problems = []
    if signature.clock is not None:
        what = f"the policy has two rates ({signature.clock}), and the runtime knows one"
        problems.append((what, "export the actor alone, and apply its actions in the runtime"))
    if signature.fixed_rows not in (None, 1):
        what = f"the policy takes {signature.fixed_rows} rows, and the runtime gives one"
        problems.append((what, "export it without batch="))
    if any(port.about.noise for port in signature.inputs):
        problems.append(("the policy draws noise, and the runtime gives none", "export the mean"))
    if signature.memory and not memory:
        names = ", ".join(each.name for each in signature.memory)
        what = f"the policy remembers {names}, and the runtime feeds nothing back"
        problems.append((what, "this runtime runs policies without memory only"))
    problems += [
        (f"the input {port.name} is {port.dtype}, and the runtime gives float32", _FLOAT)
        for port in signature.observed
        if port.dtype != "float32" and port.dtype != "bool"
    ]
    return problems


_METADATA = "export with metadata='robot.yaml' (docs/metadata.md lists what it holds)"
_FLOAT = "export a module that takes float32 and converts it"
