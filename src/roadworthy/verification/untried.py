"""What a certificate does not cover, as the samples say it: notes, never a failure."""

from __future__ import annotations

from collections.abc import Iterator

from roadworthy.errors import Finding
from roadworthy.spec.sampling import MOST_STEPS, Sampling


def untried(sampling: Sampling) -> Iterator[Finding]:
    """Corners without an answer, and a horizon that no row lives to see."""
    for port, left_out in sampling.left_out.items():
        reasons = dict.fromkeys(left_out.values())
        said = "; ".join(
            f"{why} on {', '.join(name for name, each in left_out.items() if each == why)}"
            for why in reasons
        )
        yield Finding(
            code="RW330",
            where=port,
            what=f"not compared: {said}",
            hint=f"if the policy can meet them, mend it; if not, about={{{port!r}: "
            "rw.About(low=…, high=…)}} says so",
            severity="note",
        )
    if sampling.beyond_reach:
        yield Finding(
            code="RW331",
            where="memory",
            what=f"a delay or a counter shows after {sampling.horizon} steps; rows were compared "
            f"for {MOST_STEPS}",
            hint="play longer episodes beside the original: verify(…, against=…, env=…)",
            severity="note",
        )
