"""The signature: everything a stranger must know to run a policy, and nothing else."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from roadworthy.errors import Finding, UsageError
from roadworthy.spec.limits import DECIMATION, ROW_BYTES, size_text
from roadworthy.spec.port import (
    BATCH,
    DTYPES,
    Memory,
    Numbers,
    Port,
    Values,
    freeze,
    jsonable,
    leaves,
    shape_of,
)
from roadworthy.spec.robot import Robot, robot_problems
from roadworthy.spec.robot_reading import read_robot

ActionKind = Literal["continuous", "discrete", "multi_discrete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What the numbers on the action port mean to an environment."""

    output: str
    kind: ActionKind
    low: Numbers = None
    high: Numbers = None
    sizes: tuple[int, ...] = ()
    table: tuple[str | int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", tuple(self.sizes))
        object.__setattr__(self, "table", tuple(self.table))
        for side in ("low", "high"):
            value = getattr(self, side)
            object.__setattr__(self, side, None if value is None else freeze(value))

    def __str__(self) -> str:
        if self.kind == "continuous":
            bounded = self.low is not None and self.high is not None
            return f"continuous in [{self.low}, {self.high}]" if bounded else "continuous"
        meaning = ", ".join(map(str, self.table or self.sizes))
        return (
            f"discrete, one of {meaning}" if self.kind == "discrete" else f"{self.kind} {meaning}"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            key: jsonable(value)
            for key in self.__slots__
            if (value := getattr(self, key)) is not None and value != ()
        }


@dataclass(frozen=True, kw_only=True)
class Signature:
    """`(memory, inputs) → (memory, outputs)` at a fixed period, port by port.

    A policy of two rates has a `clock`: an int32 scalar input that counts the ticks since the
    reset. At every `decimation`-th tick it decides anew; in between it applies what it decided.

    `frame_skip` says for how many frames of its environment one action holds; None where nobody
    said. `robot` is what a controller must know besides the ports.
    """

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    memory: tuple[Memory, ...] = ()
    action: Action | None = None
    period_s: float | None = None
    decimation: int = 1
    clock: str | None = None
    frame_skip: int | None = None
    robot: Robot | None = None

    def __post_init__(self) -> None:
        problems = list(_problems(self))
        if problems:
            raise UsageError(findings=problems)

    @cached_property
    def observed(self) -> tuple[Port, ...]:
        """The inputs that a caller must pass: all but the noise, which the runtime draws."""
        return tuple(port for port in self.inputs if not port.about.noise)

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """The symbolic dimensions, in the order in which the inputs name them."""
        dims = [dim for port in self.inputs for dim in port.shape if isinstance(dim, str)]
        return tuple(dict.fromkeys(dims))

    def with_sizes(self, sizes: Mapping[str, int]) -> Signature:
        """The same policy with numbers in place of symbolic dimensions; the others stay open."""
        inputs, outputs = (
            tuple(
                replace(port, shape=tuple(sizes.get(str(dim), dim) for dim in port.shape))
                for port in ports
            )
            for ports in (self.inputs, self.outputs)
        )
        return replace(self, inputs=inputs, outputs=outputs)

    @cached_property
    def fixed_rows(self) -> int | None:
        """The one number of rows that the policy takes; None where any will do."""
        if BATCH in self.symbols:
            return None
        first = self.inputs[0].shape
        return int(first[0]) if first else 1

    @property
    def action_output(self) -> str:
        """The output that `Policy.act` returns."""
        return self.action.output if self.action else self.outputs[0].name

    def to_json(self) -> dict[str, Any]:
        return {
            "inputs": [port.to_json() for port in self.inputs],
            "outputs": [port.to_json() for port in self.outputs],
            "memory": [each.to_json() for each in self.memory],
            "action": self.action.to_json() if self.action else None,
            "period_s": self.period_s,
            "decimation": self.decimation,
            "clock": self.clock,
            **({} if self.frame_skip is None else {"frame_skip": self.frame_skip}),
            **({} if self.robot is None else {"robot": self.robot.to_json()}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Signature:
        return cls(
            inputs=tuple(Port.from_json(each) for each in data["inputs"]),
            outputs=tuple(Port.from_json(each) for each in data["outputs"]),
            memory=tuple(Memory.from_json(each) for each in data["memory"]),
            action=Action(**data["action"]) if data["action"] else None,
            period_s=data["period_s"],
            decimation=data["decimation"],
            clock=data.get("clock"),
            frame_skip=data.get("frame_skip"),
            robot=read_robot(data["robot"]) if data.get("robot") else None,
        )

    def __str__(self) -> str:
        rows: list[tuple[str, str, object, str]] = []
        for kind, ports in (("input", self.inputs), ("output", self.outputs)):
            rows += [(kind, p.name, p, _remark(p)) for p in ports]
        rows += [("memory", m.name, m, f"{m.input} → {m.output}") for m in self.memory]
        width = max(len(name) for _, name, _, _ in rows)
        lines = [f"{k:<7} {n:<{width}}  {p}  {r}".rstrip() for k, n, p, r in rows]
        if self.action:
            lines.append(f"action  {self.action.output:<{width}}  {self.action}")
        if self.period_s:
            lines.append(f"period  {self.period_s} s, decimation {self.decimation}")
        if self.frame_skip:
            lines.append(f"frames  {self.frame_skip} for each action")
        if self.robot:
            lines.append(f"joints  {', '.join(self.robot.joints)}")
        return "\n".join(lines)


def _remark(port: Port) -> str:
    about = port.about
    limits = "" if about.low is None and about.high is None else f"[{about.low}, {about.high}]"
    drawn = f"{about.noise} noise, drawn by the runtime" if about.noise else ""
    return " ".join(part for part in (about.unit, limits, drawn, about.description) if part)


def _problems(signature: Signature) -> Iterator[Finding]:
    if not signature.inputs:
        yield Finding(code="RW020", what="a policy needs at least one input")
    if not signature.outputs:
        yield Finding(code="RW020", what="a policy needs at least one output")
    yield from _name_problems(signature)
    known = set(signature.symbols)
    typed: list[Port | Memory] = [*signature.inputs, *signature.outputs, *signature.memory]
    for port in typed:
        yield from _type_problems(port, known)
    for visible in (*signature.inputs, *signature.outputs):
        yield from _about_problems(visible)
    yield from _noise_problems(signature)
    for memory in signature.memory:
        yield from _initial_problems(memory)
    names = [port.name for port in signature.outputs]
    if signature.action and signature.action.output not in names:
        yield Finding(
            code="RW020", what=f"the action {signature.action.output!r} is not an output",
            hint=f"outputs: {', '.join(names)}",
        )  # fmt: skip
    if signature.period_s is not None and not (0 < signature.period_s < math.inf):
        yield Finding(
            code="RW020", what=f"period_s must be positive, got {signature.period_s}",
            hint="it is the time between two steps in seconds: 0.02 for 50 Hz",
        )  # fmt: skip
    if not 1 <= signature.decimation <= DECIMATION:
        yield Finding(
            code="RW020",
            what=f"decimation must be 1 to {DECIMATION}, got {signature.decimation}",
            hint="it is the number of simulation ticks in one policy step: step_dt / physics_dt",
        )
    skip = signature.frame_skip
    if skip is not None and not (type(skip) is int and 1 <= skip <= DECIMATION):
        yield Finding(
            code="RW020",
            what=f"frame_skip must be a whole number from 1 to {DECIMATION}, got {skip}",
            hint="it is how many frames of the game one action lasts",
        )
    if signature.robot is not None:
        yield from robot_problems(signature.robot, signature)


def _name_problems(signature: Signature) -> Iterator[Finding]:
    """Inputs and outputs share one namespace in ONNX, where a collision is an invalid file."""
    remembered = Counter(each.name for each in signature.memory)
    for name, count in remembered.items():
        if count > 1:
            yield Finding(code="RW021", where=name, what=f"the name is used by {count} memories")
    used = Counter(
        [port.name for port in (*signature.inputs, *signature.outputs)]
        + [name for name in (signature.clock,) if name is not None]
        + [name for each in signature.memory for name in (each.input, each.output)]
    )
    for name, count in used.items():
        if count > 1:
            yield Finding(
                code="RW021", where=name, what=f"the name is used by {count} ports",
                hint="give every input, output and memory port its own name",
            )  # fmt: skip
        if not name or not name.isprintable() or name != name.strip():
            yield Finding(
                code="RW021", what=f"{name!r} is not a port name", hint="use printable text"
            )


def _type_problems(port: Port | Memory, symbols: set[str]) -> Iterator[Finding]:
    if port.dtype not in DTYPES:
        yield Finding(
            code="RW022", where=port.name, what=f"a port cannot have dtype {port.dtype}",
            hint="module.float() and a float32 example; or rw.export(…, fix=True)"
            if port.dtype == "bfloat16" else f"use one of {', '.join(DTYPES)}",
        )  # fmt: skip
    for dim in port.shape:
        if isinstance(dim, str) and dim not in symbols:
            yield Finding(code="RW022", where=port.name, what=f"no input has the dimension {dim!r}")
        if isinstance(dim, int) and dim < 1:
            yield Finding(
                code="RW022", where=port.name, what=f"dimension {dim} is below 1",
                hint="what has no elements says nothing: leave it out",
            )  # fmt: skip
    sizes = [dim for dim in port.shape if isinstance(dim, int)]
    if (
        port.dtype in DTYPES
        and (size := math.prod(sizes) * np.dtype(port.dtype).itemsize) > ROW_BYTES
    ):
        yield Finding(
            code="RW022", where=port.name,
            what=f"a row has {size_text(size)}, at most {size_text(ROW_BYTES)} is possible",
            hint="look at the shape of the example: the first axis is the batch, the rest one row",
        )  # fmt: skip
    if isinstance(port, Memory) and any(isinstance(d, str) and d != BATCH for d in port.shape):
        yield Finding(
            code="RW022", where=port.name, what="memory can have no dynamic size but the batch"
        )


def _about_problems(port: Port) -> Iterator[Finding]:
    about, last = port.about, port.shape[-1] if port.shape else 1
    if about.elements and len(about.elements) != last:
        yield Finding(
            code="RW023", where=port.name,
            what=f"{len(about.elements)} element names for a last axis of {last}",
            hint="give one name for each element, in the order of the tensor, or none",
        )  # fmt: skip
    yield from limit_problems(about.low, about.high, where=port.name)
    row = tuple(dim for dim in port.shape if isinstance(dim, int))
    for side, limit in (("low", about.low), ("high", about.high)):
        if limit is not None and not broadcasts(shape_of(limit), row):
            yield Finding(
                code="RW023", where=port.name,
                what=f"the {side} limit has shape {shape_of(limit)}, a row has {row}",
                hint="give one number, or one for each element of a row",
            )  # fmt: skip


def _noise_problems(signature: Signature) -> Iterator[Finding]:
    for port in (*signature.inputs, *signature.outputs):
        if port.about.noise is None:
            continue
        if port.about.noise not in ("normal", "uniform"):
            what = f"noise must be 'normal' or 'uniform', got {port.about.noise!r}"
        elif port in signature.outputs:
            what = "an output cannot be noise"
        elif not port.dtype.startswith("float"):
            what = f"noise must have a float dtype, got {port.dtype}"
        elif port.shape[:1] not in ((BATCH,), (signature.fixed_rows,)):
            what = "noise needs the batch on its first axis"
        else:
            continue
        yield Finding(
            code="RW023", where=port.name, what=what,
            hint="About(noise='normal') belongs to a float input with the batch on its first axis",
        )  # fmt: skip
    if signature.inputs and all(port.about.noise for port in signature.inputs):
        yield Finding(code="RW020", what="all inputs are noise: a policy needs one besides")


def broadcasts(shape: tuple[int, ...] | None, row: tuple[int, ...]) -> bool:
    """Whether numbers of this shape can be spread over a row."""
    if shape is None or len(shape) > len(row):
        return False
    return all(a in (1, b) for a, b in zip(reversed(shape), reversed(row), strict=False))


def _initial_problems(memory: Memory) -> Iterator[Finding]:
    if not all(math.isfinite(number) for number in leaves(memory.initial)):
        yield Finding(code="RW024", where=memory.name, what="the initial value is NaN or infinite")
    elif memory.dtype in DTYPES and not _holds(memory):
        yield Finding(
            code="RW024", where=memory.name, what=f"the initial value does not fit {memory.dtype}"
        )
    row = tuple(1 if dim == BATCH else dim for dim in memory.shape)
    got = shape_of(memory.initial)
    if got not in ((), row):
        yield Finding(
            code="RW024", where=memory.name,
            what=f"the initial value has shape {got}, expected one row {row}",
        )  # fmt: skip


def _holds(memory: Memory) -> bool:
    """Whether the dtype has room for every number of the initial value."""
    if memory.dtype.startswith("float"):
        return True
    least, most = (0, 1) if memory.dtype == "bool" else _range(memory.dtype)
    return all(least <= number <= most for number in leaves(memory.initial))


def _range(dtype: str) -> tuple[int, int]:
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def limit_problems(low: Values | None, high: Values | None, *, where: str) -> Iterator[Finding]:
    """NaN, inverted or empty limits: each would let every command through, or none."""
    for side, value in (("low", low), ("high", high)):
        if value is not None and any(math.isnan(number) for number in leaves(value)):
            yield Finding(code="RW023", where=where, what=f"the {side} limit is NaN")
            return
    if low is None or high is None:
        return
    try:
        inverted = bool(np.any(np.asarray(low) >= np.asarray(high)))
    except ValueError:  # ragged, or of lengths that do not go together
        yield Finding(code="RW023", where=where, what="low and high have different lengths")
        return
    if inverted:
        yield Finding(code="RW023", where=where, what=f"low {low} is not below high {high}")
