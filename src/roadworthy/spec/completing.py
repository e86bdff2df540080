"""What an export adds to the ports of a policy: frames for each action, the robot, the period."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from roadworthy.errors import Finding, UsageError
from roadworthy.spec import robot as robots
from roadworthy.spec.robot_reading import RobotMetadata
from roadworthy.spec.signature import Signature

FRAME_SKIP = "RW345"
# Steps behind the network that turn its result into what the motors take.
_SCALING = ("ScaleOffset", "ScaleToBounds")


def completed(
    signature: Signature,
    *,
    frame_skip: int | None = None,
    metadata: RobotMetadata | None = None,
    steps: Sequence[str] = (),
) -> Signature:
    """The signature with all that was said; `steps` are those that the policy itself applies."""
    scaling = [step for step in steps if step in _SCALING]
    problems = list(_contradictions(signature, frame_skip, metadata, scaling))
    if problems:
        raise UsageError(findings=problems)
    if frame_skip is not None:
        signature = replace(signature, frame_skip=frame_skip)
    if metadata is None:
        return signature
    return replace(
        signature,
        robot=metadata.robot.attached_to(signature),
        period_s=metadata.period_s or signature.period_s,
    )


def _contradictions(
    signature: Signature,
    frame_skip: int | None,
    metadata: RobotMetadata | None,
    scaling: Sequence[str],
) -> Iterator[Finding]:
    known = signature.frame_skip
    if None not in (known, frame_skip) and known != frame_skip:
        yield Finding(
            code=FRAME_SKIP, where="frame_skip",
            what=f"said to be {frame_skip}, and the environment of the policy says {known}",
            hint="leave frame_skip out, or make the environment with the number that training had",
        )  # fmt: skip
    if metadata is None:
        return
    if signature.period_s and metadata.period_s and signature.period_s != metadata.period_s:
        yield Finding(
            code=robots.CODE, where="metadata period_s",
            what=f"is {metadata.period_s:g} s, and the policy has {signature.period_s:g} s",
            hint="say it once",
        )  # fmt: skip
    action = metadata.robot.action
    if action and scaling and action.applied_by is None and (action.scale or action.offset):
        yield Finding(
            code=robots.CODE, where="metadata action.applied_by",
            what=f"is missing: the policy itself ends in {scaling[-1]}, and a controller would "
            "apply the scale and the offset of the metadata once more",
            hint="applied_by: policy, if the output is the target already; applied_by: controller, "
            "if it is to be scaled twice",
        )  # fmt: skip
