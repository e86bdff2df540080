"""What Exploy's controller asks of a file beyond its graph: a rate, and names that it knows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from roadworthy.capture.program import Program
from roadworthy.deploy.emit.exploy_matchers import INPUTS, OUTPUTS, TARGETS, missing_targets
from roadworthy.errors import Finding


def unmet(program: Program) -> list[Finding]:
    """Warnings for what the controller would refuse, or quietly leave unread, on the robot."""
    return [*_rate(program.metadata), *_names(program), *_targets(program)]


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


def _targets(program: Program) -> Iterator[Finding]:
    """The controller writes all three targets of a joint, and stops where one is not there."""
    names = [port.name for port in program.signature.outputs]
    for group, missing in missing_targets(names).items():
        first = f"{group}.{missing[0]}"
        yield _warning(
            group,
            f"the outputs have no {' and no '.join(missing)}, and Exploy's controller stops at the "
            f"first tick without all of {', '.join(TARGETS)}",
            f"register zeros for what is missing: Output({first!r}, …); 'roadworthy emit FOLDER "
            "exploy' adds them to a bundle by itself",
        )


def _said(metadata: Mapping[str, str], name: str) -> Mapping[str, object]:
    said = json.loads(metadata.get(name, "{}"))
    return said if isinstance(said, dict) else {}


def _warning(where: str, what: str, hint: str) -> Finding:
    return Finding(code="RW134", where=where, what=what, hint=hint, severity="warning")
