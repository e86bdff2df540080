"""What of a manager-based environment serves training alone, and stays out of the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from roadworthy.errors import Finding
from roadworthy.frameworks.managers.dialect import GroupTerms

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
