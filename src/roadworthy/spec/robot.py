"""The robot: what a controller must know besides the ports of a policy.

Every number stands beside the name of its joint, because the motors of a robot, the joints of its
simulator and the elements of an action are often counted in three different orders.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from roadworthy.errors import Finding

if TYPE_CHECKING:
    from roadworthy.spec.signature import Signature

CODE = "RW026"
# Joint → number; None where the joint has none on purpose, such as the stiffness of a wheel.
PerJoint = tuple[tuple[str, float | None], ...]
AppliedBy = Literal["controller", "policy"]
Range = tuple[float, float]
PER_JOINT = ("default_position", "stiffness", "damping", "effort_limit")
UNITS = ("position", "velocity", "effort")
_SHOWN = "obs"


@dataclass(frozen=True, slots=True, kw_only=True)
class JointAction:
    """What the elements of the action mean to the joints: target = offset + scale × element.

    output      the output that it is; left out, the action of the policy
    joints      the joint that each element moves, in their order
    applied_by  who scales: "controller" (if nothing is said) where the policy gives raw actions,
                "policy" where its output is the target already
    """

    joints: tuple[str, ...]
    output: str = ""
    scale: PerJoint = ()
    offset: PerJoint = ()
    applied_by: AppliedBy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationTerm:
    """A part of the observation: `size` numbers, times `scale`, clipped, of `history` steps."""

    name: str
    size: int
    scale: tuple[float, ...] = (1.0,)
    clip: Range | None = None
    history: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Robot:
    """Joints, gains and the meaning of the action, each number beside the name of its joint.

    joints            in the order in which the policy's training counted them
    motors            in the order of the hardware; None for a motor that the policy leaves alone
    default_position  where the joints rest
    stiffness         and `damping`: the gains of the position controller
    effort_limit      the most that each motor gives
    observations      the terms of the observation, in their order
    commands          name → axis → range of what it may be told
    units             of positions, velocities and efforts
    """

    joints: tuple[str, ...]
    motors: tuple[str | None, ...] = ()
    default_position: PerJoint = ()
    stiffness: PerJoint = ()
    damping: PerJoint = ()
    effort_limit: PerJoint = ()
    action: JointAction | None = None
    observations: tuple[ObservationTerm, ...] = ()
    commands: tuple[tuple[str, tuple[tuple[str, Range], ...]], ...] = ()
    units: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """What `read_robot` reads back as the very same robot."""
        written: dict[str, Any] = {"joints": list(self.joints)}
        if self.motors:
            written["motors"] = list(self.motors)
        written |= {key: dict(getattr(self, key)) for key in PER_JOINT if getattr(self, key)}
        if self.action:
            written["action"] = {
                "output": self.action.output,
                "joints": list(self.action.joints),
                **{key: dict(getattr(self.action, key)) for key in ("scale", "offset")
                   if getattr(self.action, key)},
                "applied_by": self.action.applied_by,
            }  # fmt: skip
        if self.observations:
            written["observations"] = [
                {
                    "name": term.name,
                    "size": term.size,
                    "scale": list(term.scale),
                    **({"clip": list(term.clip)} if term.clip else {}),
                    "history": term.history,
                }
                for term in self.observations
            ]
        if self.commands:
            written["commands"] = {
                name: {axis: list(limits) for axis, limits in axes} for name, axes in self.commands
            }
        return written | ({"units": dict(self.units)} if self.units else {})

    def attached_to(self, signature: Signature) -> Robot:
        """The robot of this policy: what was not said of the action is filled in."""
        if self.action is None:
            return self
        output = self.action.output or signature.action_output
        by = self.action.applied_by or "controller"
        return replace(self, action=replace(self.action, output=output, applied_by=by))


def in_order(values: PerJoint, joints: Sequence[str | None], missing: float = 0.0) -> list[float]:
    """One number for each of `joints`; `missing` for those that have none."""
    known: Mapping[str | None, float | None] = dict(values)
    found = [known.get(joint) for joint in joints]
    return [missing if value is None else value for value in found]


def robot_problems(robot: Robot, signature: Signature) -> Iterator[Finding]:
    """What of the robot does not fit the ports of the policy."""
    if robot.action is not None:
        yield from _action_problems(robot.action, signature)
    if robot.observations:
        yield from _observation_problems(robot.observations, signature)


def _action_problems(action: JointAction, signature: Signature) -> Iterator[Finding]:
    ports = {port.name: port for port in signature.outputs}
    if action.output not in ports:
        yield Finding(
            code=CODE, where="metadata action.output",
            what=f"the policy has no output {action.output!r}",
            hint=f"outputs: {', '.join(ports)}",
        )  # fmt: skip
        return
    port = ports[action.output]
    size = port.shape[-1] if port.shape else 1
    if size != len(action.joints):
        yield Finding(
            code=CODE, where="metadata action.joints",
            what=f"{len(action.joints)} joints, and {port.name} has {size} elements",
            hint="name the joint that each element moves, in their order: action: {joints: […]}",
        )  # fmt: skip
    elements = tuple(port.about.elements)
    if elements and elements != action.joints and set(elements) & set(action.joints):
        yield Finding(
            code=CODE, where="metadata action.joints",
            what=f"the elements of {port.name} are called {', '.join(elements)}, the joints "
            f"{', '.join(action.joints)}",
            hint="both say what the elements are, in their order: leave one out, or make them "
            "the same",
        )  # fmt: skip


def _observation_problems(
    terms: tuple[ObservationTerm, ...], signature: Signature
) -> Iterator[Finding]:
    # A whole environment observes inside, and shows what it observed.
    shown = tuple(port for port in signature.outputs if port.name == _SHOWN)
    observed = shown or signature.observed
    if len(observed) != 1 or len(observed[0].shape) != 2:
        names = ", ".join(port.name for port in observed)
        yield Finding(
            code=CODE, where="metadata observations",
            what=f"terms lie side by side in one vector, and the policy takes {names}",
            hint="leave observations out: the inputs have names of their own",
        )  # fmt: skip
        return
    total = sum(term.size * term.history for term in terms)
    if total != observed[0].shape[-1]:
        listed = " + ".join(
            f"{term.name} {term.size}" + (f" × {term.history}" if term.history > 1 else "")
            for term in terms
        )
        yield Finding(
            code=CODE, where="metadata observations",
            what=f"the terms have {total} numbers ({listed}), and {observed[0].name} has "
            f"{observed[0].shape[-1]}",
            hint="list every term with its size and history, in their order",
        )  # fmt: skip
