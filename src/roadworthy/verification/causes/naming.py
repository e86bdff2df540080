"""Elements of ports in words: by their names where the signature has them."""

from __future__ import annotations

from collections.abc import Sequence

from roadworthy.verification.causes.evidence import Evidence

MOST_LISTED = 6


def element(evidence: Evidence, port: str, index: int) -> str:
    """`joint_3`, or `obs[3]` where the elements have no names."""
    signature = evidence.bundle.signature
    for each in (*signature.inputs, *signature.outputs):
        if each.name == port and index < len(each.about.elements):
            return each.about.elements[index]
    return f"{port}[{index}]"


def pairs(evidence: Evidence, port: str, order: Sequence[int]) -> str:
    """Which element of the artifact holds which one of the original."""
    moved = [(own, place) for own, place in enumerate(order) if own != place]
    listed = [
        f"{element(evidence, port, own)} is at [{place}]" for own, place in moved[:MOST_LISTED]
    ]
    rest = f" and {len(moved) - MOST_LISTED} more" if len(moved) > MOST_LISTED else ""
    return ", ".join(listed) + rest
