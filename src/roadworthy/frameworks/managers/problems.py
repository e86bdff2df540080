"""What of a manager-based environment a file cannot have, and what it leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from roadworthy.errors import Finding
from roadworthy.frameworks.managers.terms import GroupTerms


def finding(where: str, what: str, hint: str) -> Finding:
    return Finding(code="RW187", where=where, what=what, hint=hint)


def device_problem(env: Any, hint: str) -> Iterator[Finding]:
    """An environment that is on a device."""
    if str(env.device) != "cpu":
        what = f"the environment is on {env.device}, and is exported on the CPU"
        yield finding("env.device", what, hint)


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


# Manager → what its terms are.
_TRAINING = {
    "event_manager": "events",
    "curriculum_manager": "curriculum",
    "reward_manager": "rewards",
    "termination_manager": "terminations",
}


def left_out(env: Any, groups: Mapping[str, GroupTerms], names: Sequence[str]) -> Iterator[str]:
    """Each kind of thing with the names of what there is of it."""
    noisy = [term.name for name in names for term in groups[name].terms if term.noise]
    drawn = list(getattr(getattr(env, "command_manager", None), "active_terms", ()))
    found = {
        "noise of": noisy,
        "groups": [name for name in groups if name not in names],
        "drawing of the commands": drawn,
        **{word: _terms(getattr(env, name, None)) for name, word in _TRAINING.items()},
    }
    for word, each in found.items():
        if each:
            yield f"{word} {', '.join(each)}"


def said(kinds: Sequence[str]) -> Finding:
    return Finding(
        code="RW353",
        severity="note",
        where="env",
        what=f"left out of the file, as it serves training: {'; '.join(kinds)}",
        hint="nothing to do: what the robot must be told, such as a command, is an input",
    )


def _terms(manager: Any) -> list[str]:
    """The names of a manager's terms; those of events are sorted by when they happen."""
    terms = getattr(manager, "active_terms", ())
    listed = terms.values() if isinstance(terms, Mapping) else [terms]
    return list(dict.fromkeys(name for each in listed for name in each))
