"""Settings of observation groups that a file cannot have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from roadworthy.errors import Finding
from roadworthy.frameworks.managers.dialect import GroupTerms


def finding(where: str, what: str, hint: str) -> Finding:
    return Finding(code="RW187", where=where, what=what, hint=hint)


def group_problems(known: Mapping[str, GroupTerms], names: Sequence[str]) -> Iterator[Finding]:
    """Noise, branches and drawn delays: what would make the file another policy."""
    for name in names:
        group, said = known[name], f"cfg.observations[{name!r}]"
        if group.corrupted:
            noisy = [term.name for term in group.terms if term.noise]
            yield finding(
                f"{said}.enable_corruption",
                "noise is added to the observations"
                + (f" ({', '.join(noisy)})" if noisy else "")
                + ", and a robot has its own",
                f"{said}.enable_corruption = False, or the configuration for playing, then make "
                "the environment",
            )
        if group.nan_policy != "disabled":
            yield finding(
                f"{said}.nan_policy",
                f"the policy {group.nan_policy!r} branches on whether a value is NaN, and a graph "
                "has one branch",
                f"{said}.nan_policy = 'disabled'",
            )
        if not group.concatenated:
            yield finding(
                f"{said}.concatenate_terms",
                "the terms stay apart, and the actor is given one tensor for each group",
                f"{said}.concatenate_terms = True",
            )
