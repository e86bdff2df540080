"""From what a person writes about a robot to a `Robot`, with every complaint at once."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from roadworthy.errors import Finding, UsageError, did_you_mean
from roadworthy.spec.robot import (
    CODE,
    PER_JOINT,
    UNITS,
    JointAction,
    ObservationTerm,
    PerJoint,
    Range,
    Robot,
)
from roadworthy.spec.yaml_file import read_yaml

Metadata = str | os.PathLike[str] | Mapping[str, Any]
_KEYS = ("joints", "motors", *PER_JOINT, "action", "observations", "commands", "units", "period_s")
_ACTION_KEYS = ("output", "joints", "scale", "offset", "applied_by")
_TERM_KEYS = ("name", "size", "scale", "clip", "history")
# What may not be 0, and what would happen if it were.
_POSITIVE = {
    "stiffness": "nothing would hold the joint",
    "damping": "nothing would calm the joint",
    "effort_limit": "the motor could not move the joint",
    "action.scale": "the policy could not move the joint",
}
# YAML 1.1 takes 1e-3 for text: it wants a point before the exponent.
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_MOST_NAMES = 1000
_SUCH_AS = "begin with joints: [name, name, …]"


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotMetadata:
    """What a file about a robot says: the robot, and the seconds between two steps."""

    robot: Robot
    period_s: float | None = None


def read_metadata(source: Metadata) -> RobotMetadata:
    """What a YAML or JSON file, or a mapping of the same form, says about a robot."""
    said = (
        source
        if isinstance(source, Mapping)
        else read_yaml(Path(source), code=CODE, such_as=_SUCH_AS)
    )
    reader = _Reader()
    found = reader.metadata(said)
    if reader.findings:
        raise UsageError(findings=reader.findings)
    return found


def read_robot(data: Mapping[str, Any]) -> Robot:
    """The robot that `Robot.to_json` wrote."""
    return read_metadata(data).robot


@dataclass(slots=True)
class _Reader:
    """Reads each part, and keeps what is wrong with it."""

    findings: list[Finding] = field(default_factory=list)

    def complain(self, where: str, what: str, hint: str = "") -> None:
        self.findings.append(Finding(code=CODE, where=f"metadata {where}", what=what, hint=hint))

    def metadata(self, said: Mapping[str, Any]) -> RobotMetadata:
        self._known(said, _KEYS, "")
        joints = self._names(said.get("joints"), "joints")
        if not joints:
            self.complain("joints", "the names of the joints are missing", "joints: [hip, knee]")
        per_joint = {
            key: self._per_joint(said.get(key), joints, key, empty=key in ("stiffness", "damping"))
            for key in PER_JOINT
        }
        return RobotMetadata(
            robot=Robot(
                joints=joints,
                motors=self._motors(said.get("motors"), joints),
                **per_joint,
                action=self._action(said.get("action"), joints, per_joint["default_position"]),
                observations=self._terms(said.get("observations")),
                commands=self._commands(said.get("commands")),
                units=self._units(said.get("units")),
            ),
            period_s=self._period(said.get("period_s")),
        )

    def _known(self, said: Mapping[Any, Any], keys: Sequence[str], inside: str) -> None:
        for key in said:
            if key not in keys:
                self.complain(f"{inside}{key}", "is not known", did_you_mean(str(key), keys))

    def _mapping(self, value: Any, where: str, such_as: str) -> Mapping[Any, Any]:
        if isinstance(value, Mapping):
            return value
        self.complain(where, f"expected names and values, got {_said(value)}", such_as)
        return {}

    def _names(self, value: Any, where: str, *, gaps: bool = False) -> tuple[Any, ...]:
        """Names, each once; `gaps` allows places that have none."""
        if value is None:
            return ()
        if isinstance(value, str) or not isinstance(value, Sequence):
            self.complain(where, f"expected a list of names, got {_said(value)}")
            return ()
        if len(value) > _MOST_NAMES:
            self.complain(where, f"{len(value)} names, at most {_MOST_NAMES} are read")
            return ()
        for each in value:
            if not (isinstance(each, str) and each) and not (gaps and each is None):
                hint = "YAML reads on, off, yes, no and numbers as such: write quotes around it"
                self.complain(where, f"expected a name, got {_said(each)}", hint)
        texts = [each for each in value if isinstance(each, str)]
        for each in dict.fromkeys(texts):
            if texts.count(each) > 1:
                self.complain(where, f"{each!r} stands there {texts.count(each)} times")
        return tuple(None if gaps and each is None else str(each) for each in value)

    def _number(self, value: Any, where: str) -> float | None:
        """The number, or None where it is none, which is then said."""
        if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
            value = float(value)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.complain(where, f"expected a number, got {_said(value)}")
            return None
        if not math.isfinite(value):
            self.complain(where, f"is {value}", "a controller would pass it on to the motors")
            return None
        return float(value)

    def _per_joint(
        self, value: Any, joints: Sequence[str], where: str, *, empty: bool = False
    ) -> PerJoint:
        """One number for each joint, from one for all, a list in their order, or by name."""
        if value is None:
            return ()
        if isinstance(value, Mapping):
            for name in value:
                if name not in joints:
                    self.complain(f"{where}.{name}", "is no joint", did_you_mean(str(name), joints))
            lost = [name for name in joints if name not in value]
            if lost:
                self.complain(
                    where, f"nothing is said of {', '.join(lost)}", _NONE if empty else ""
                )
            pairs = [(name, value[name]) for name in joints if name in value]
        elif isinstance(value, Sequence) and not isinstance(value, str):
            if len(value) != len(joints):
                hint = f"one number for each joint, in the order {', '.join(joints)}"
                self.complain(where, f"{len(value)} numbers for {len(joints)} joints", hint)
                return ()
            pairs = list(zip(joints, value, strict=True))
        else:
            number = self._value(value, where, where, empty=empty)
            return tuple((name, number) for name in joints)
        return tuple(
            (name, self._value(each, where, f"{where}.{name}", empty=empty)) for name, each in pairs
        )

    def _value(self, value: Any, key: str, where: str, *, empty: bool) -> float | None:
        if value is None and empty:
            return None
        number = self._number(value, where)
        if number == 0 and key in _POSITIVE:
            self.complain(where, f"is 0: {_POSITIVE[key]}", _NONE if empty else _NO_ZERO)
        elif number is not None and number < 0 and key in _POSITIVE and key != "action.scale":
            self.complain(where, f"is {number:g}, below 0")
        return number

    def _motors(self, value: Any, joints: Sequence[str]) -> tuple[str | None, ...]:
        motors = self._names(value, "motors", gaps=True)
        for name in motors:
            if isinstance(name, str) and name not in joints:
                self.complain("motors", f"{name!r} is no joint", did_you_mean(name, joints))
        lost = [name for name in joints if motors and name not in motors]
        if lost:
            self.complain("motors", f"no motor moves {', '.join(lost)}")
        return motors

    def _action(self, value: Any, joints: tuple[str, ...], rest: PerJoint) -> JointAction | None:
        if value is None:
            return None
        said = self._mapping(value, "action", "action: {scale: 0.25, offset: default_position}")
        self._known(said, _ACTION_KEYS, "action.")
        moved = self._names(said["joints"], "action.joints") if "joints" in said else joints
        for name in moved:
            if name not in joints:
                hint = did_you_mean(str(name), joints)
                self.complain("action.joints", f"{name!r} is no joint", hint)
        offset = said.get("offset")
        if offset == "default_position":
            offset = {name: number for name, number in rest if name in moved}
            if not rest:
                self.complain("action.offset", "there is no default_position to take")
        by = said.get("applied_by")
        if by not in (None, "controller", "policy"):
            self.complain("action.applied_by", f"expected controller or policy, got {_said(by)}")
        output = said.get("output", "")
        if not isinstance(output, str):
            self.complain("action.output", f"expected the name of an output, got {_said(output)}")
        return JointAction(
            joints=moved,
            output=output,
            scale=self._per_joint(said.get("scale"), moved, "action.scale"),
            offset=self._per_joint(offset, moved, "action.offset"),
            applied_by=by,
        )

    def _terms(self, value: Any) -> tuple[ObservationTerm, ...]:
        if value is None:
            return ()
        if isinstance(value, (str, Mapping)) or not isinstance(value, Sequence):
            hint = "observations: [{name: joint_pos, size: 12}]"
            self.complain("observations", f"expected a list of terms, got {_said(value)}", hint)
            return ()
        if len(value) > _MOST_NAMES:
            self.complain("observations", f"{len(value)} terms, at most {_MOST_NAMES} are read")
            return ()
        terms = tuple(self._term(each, f"observations[{at}]") for at, each in enumerate(value))
        self._names([term.name for term in terms], "observations")
        return terms

    def _term(self, value: Any, where: str) -> ObservationTerm:
        said = self._mapping(value, where, "{name: joint_pos, size: 12}")
        self._known(said, _TERM_KEYS, f"{where}.")
        size, history = (
            self._count(said.get(key, None if key == "size" else 1), f"{where}.{key}")
            for key in ("size", "history")
        )
        scale = said.get("scale", 1.0)
        listed = scale if isinstance(scale, Sequence) and not isinstance(scale, str) else [scale]
        numbers = [self._number(each, f"{where}.scale") for each in listed]
        if len(numbers) not in (1, size):
            self.complain(f"{where}.scale", f"{len(numbers)} numbers for a size of {size}")
        return ObservationTerm(
            name=said.get("name", ""),
            size=size,
            scale=tuple(each for each in numbers if each is not None),
            clip=self._range(said["clip"], f"{where}.clip") if said.get("clip") else None,
            history=history,
        )

    def _count(self, value: Any, where: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            self.complain(where, f"expected a whole number from 1, got {_said(value)}")
            return 1
        return value

    def _range(self, value: Any, where: str) -> Range | None:
        if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:
            self.complain(where, f"expected [low, high], got {_said(value)}")
            return None
        low, high = (self._number(each, where) for each in value)
        if low is None or high is None:
            return None
        if low >= high:
            self.complain(where, f"low {low:g} is not below high {high:g}")
        return low, high

    def _commands(self, value: Any) -> tuple[tuple[str, tuple[tuple[str, Range], ...]], ...]:
        if value is None:
            return ()
        if not isinstance(value, Mapping):
            return tuple((name, ()) for name in self._names(value, "commands"))
        self._names(list(value), "commands")
        found = []
        for name, axes in value.items():
            where = f"commands.{name}"
            said = self._mapping(axes or {}, where, "{lin_vel_x: [-1, 1]}")
            self._names(list(said), where)
            ranges = ((axis, self._range(each, f"{where}.{axis}")) for axis, each in said.items())
            found.append((name, tuple((axis, each) for axis, each in ranges if each)))
        return tuple(found)

    def _units(self, value: Any) -> tuple[tuple[str, str], ...]:
        said = {} if value is None else self._mapping(value, "units", "units: {position: rad}")
        self._known(said, UNITS, "units.")
        for key, each in said.items():
            if not isinstance(each, str):
                self.complain(f"units.{key}", f"expected a word such as rad, got {_said(each)}")
        return tuple(said.items())

    def _period(self, value: Any) -> float | None:
        number = None if value is None else self._number(value, "period_s")
        if number is not None and number <= 0:
            self.complain("period_s", f"must be positive, got {number:g}")
        return number


_NONE = "where a joint has none on purpose, such as a wheel, write null for it"
_NO_ZERO = "leave it out, or give the number that training used"


def _said(value: Any) -> str:
    if value is None:
        return "nothing"
    kind = type(value).__name__
    # Not what is in a list: a few lines of YAML can mean gigabytes.
    return f"{kind} {value!r}"[:60] if isinstance(value, (str, int, float)) else f"a {kind}"
