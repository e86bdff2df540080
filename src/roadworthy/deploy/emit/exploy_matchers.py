"""The names by which Exploy's controller knows what it feeds and what it writes."""

from __future__ import annotations

import re
from collections.abc import Iterable

_WORD = "[a-zA-Z0-9_]+"
_POSE = "pos_b_rt_w_in_w|w_Q_b|lin_vel_b_rt_w_in_b|ang_vel_b_rt_w_in_b"


def _known(pattern: str, *keys: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """A name as the controller matches it, and the keys of metadata without which it skips it.

    The metadata is that of the group `(…)` in the pattern.
    """
    return re.compile(pattern.replace("NAME", _WORD)), keys


INPUTS = (
    _known(r"(obj\.NAME\.joints)\.(pos|vel)", "joint_names"),
    _known(rf"(obj\.NAME\.NAME)\.({_POSE})"),
    _known(r"(sensor\.imu\.NAME)\.(w_Q_b|lin_vel_b_rt_w_in_b|ang_vel_b_rt_w_in_b)"),
    _known(
        r"(sensor\.ray_caster\.NAME)\.(height|r|g|b)",
        "pattern_type", "resolution", "size_x", "size_y",
    ),
    _known(
        r"(sensor\.spherical_image\.NAME)\.NAME",
        "pattern_type", "v_res", "h_res", "v_fov_min_deg", "v_fov_max_deg", "unobserved_value",
    ),
    _known(
        r"(sensor\.pinhole_image\.NAME)\.NAME",
        "pattern_type", "width", "height", "fx", "fy", "cx", "cy",
    ),
    _known(r"(cmd\.joint_pos\.NAME)", "joint_names"),
    _known(r"(cmd\.(se3_pose|se2_velocity|boolean|float)\.NAME)"),
)  # fmt: skip
OUTPUTS = (
    _known(r"(output\.joint_targets\.NAME)\.(pos|vel|effort)", "names", "stiffness", "damping"),
    _known(r"(output\.se2_velocity\.NAME)", "target_frame"),
)

# The controller writes all three of a joint.
TARGETS = ("pos", "vel", "effort")
JOINTS = re.compile(rf"(?P<group>obj\.{_WORD}\.joints)\.(pos|vel)")
JOINT_TARGETS = re.compile(
    rf"(?P<group>output\.joint_targets\.{_WORD})\.(?P<kind>{'|'.join(TARGETS)})"
)


def is_known(name: str, *, output: bool = False) -> bool:
    """Whether a matcher of the controller knows a name."""
    return any(pattern.fullmatch(name) for pattern, _ in (OUTPUTS if output else INPUTS))


def missing_targets(outputs: Iterable[str]) -> dict[str, list[str]]:
    """Group of joints → the targets that it lacks, where it lacks some."""
    found: dict[str, set[str]] = {}
    for name in outputs:
        if match := JOINT_TARGETS.fullmatch(name):
            found.setdefault(match["group"], set()).add(match["kind"])
    lacking = {group: [k for k in TARGETS if k not in kinds] for group, kinds in found.items()}
    return {group: kinds for group, kinds in lacking.items() if kinds}
