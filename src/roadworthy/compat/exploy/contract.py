"""What Exploy's controller asks of a file beyond its graph: a rate, and names that it knows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from roadworthy.errors import Finding
from roadworthy.program import Program

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


def unmet(program: Program) -> list[Finding]:
    """Warnings for what the controller would refuse, or quietly leave unread, on the robot."""
    return [*_rate(program.metadata), *_names(program)]


def _rate(metadata: Mapping[str, str]) -> Iterator[Finding]:
    said = metadata.get("update_rate")
    try:
        hertz = int(float(said or 0))
    except (ValueError, OverflowError):
        hertz = 0
    if hertz < 1:
        yield _warning(
            "metadata()",
            f"update_rate: expected the ticks in a second, 1 or more, got {said!r}"
            if said
            else "update_rate is missing, and Exploy's controller refuses a file without it",
            'add the ticks in a second, as text: {"update_rate": "200"}',
        )


def _names(program: Program) -> Iterator[Finding]:
    signature = program.signature
    outputs = [p.name for p in signature.outputs if p.name not in ("actions", "obs")]
    unknown = []
    for names, patterns in (
        ([port.name for port in signature.inputs], INPUTS),
        (outputs, OUTPUTS),
    ):
        for name in names:
            match = next((m for p, keys in patterns if (m := p.fullmatch(name))), None)
            if match is None:
                unknown.append(name)
                continue
            keys = next(keys for p, keys in patterns if p.fullmatch(name))
            lacking = [key for key in keys if key not in _said(program.metadata, match[1])]
            if lacking:
                yield _warning(
                    name,
                    f"the metadata of {match[1]} has no {', '.join(lacking)}, and Exploy's "
                    "controller leaves such a tensor alone",
                    f"Group({match[1]!r}, […], metadata={{{lacking[0]!r}: …}})",
                )
    if unknown:
        yield _warning(
            ", ".join(unknown),
            "no matcher of Exploy's controller knows these names, and it refuses a file that has "
            "any such",
            "name them as it does (obj.<robot>.joints.pos, cmd.se2_velocity.<name>, "
            "output.joint_targets.<robot>.pos), or register matchers of your own there",
        )


def _said(metadata: Mapping[str, str], name: str) -> Mapping[str, object]:
    said = json.loads(metadata.get(name, "{}"))
    return said if isinstance(said, dict) else {}


def _warning(where: str, what: str, hint: str) -> Finding:
    return Finding(code="RW131", where=where, what=what, hint=hint, severity="warning")
