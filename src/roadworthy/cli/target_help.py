"""What `--help` says of targets, read off their table."""

from __future__ import annotations

from collections.abc import Iterable

from roadworthy.targets import DEFAULT, TARGETS


def _listed(words: Iterable[str], last: str) -> str:
    *first, final = words
    return f"{', '.join(first)} {last} {final}" if first else final


def _meant(name: str) -> str:
    return f"{name} (the default)" if name == DEFAULT else name


_MEANINGS = "; ".join(f"{_meant(row.name)}: {row.about}" for row in TARGETS.values())

WRITTEN = f"{_MEANINGS}. Again for more."
RUN = f"{_listed((*map(_meant, TARGETS), 'wasm'), 'or')}; again for more."
TRUST = f"Open files that are code: {_listed((n for n, r in TARGETS.items() if r.code), 'and')}."
CANARY = "Try a file that was never loaded before in a child process first, under limits."
SHOWN = (
    f"Whose graph: {_listed((n for n, r in TARGETS.items() if r.graph), 'or')}. "
    "The first in the bundle if not said."
)
