"""What was done already: one small file for each task, beside what it made."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roadworthy.many.task import Outcome, Task
from roadworthy.spec.bundle import SUMS

FOLDER = ".roadworthy"


def record_of(bundle: Path, verb: str) -> Path:
    """Where it is written that `verb` was done to this bundle: beside it, not in it."""
    return bundle.parent / FOLDER / f"{bundle.name}.{verb}.json"


def bundle_sum(bundle: Path) -> str | None:
    """What names a bundle: the sum of its sums; None where there is none."""
    path = bundle / SUMS
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def read(path: Path) -> Mapping[str, Any]:
    """What a record says; nothing where there is none, or it is damaged."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def finished(task: Task) -> Outcome | None:
    """The outcome of an earlier run, if nothing that decides it has changed since."""
    known = read(Path(task.record))
    if known.get("key") != task.key:
        return None
    if task.result is not None and known.get("bundle") != bundle_sum(Path(task.result)):
        return None
    return Outcome(task=task, code=known["code"], printed=known["printed"], skipped=True)


def keep(outcome: Outcome, **more: Any) -> None:
    """Writes down that a task is done, with what else a later command may want to know."""
    task, path = outcome.task, Path(outcome.task.record)
    path.parent.mkdir(parents=True, exist_ok=True)
    made = {"bundle": bundle_sum(Path(task.result))} if task.result else {}
    text = json.dumps(
        {"key": task.key, "code": outcome.code, **made, **more, "printed": outcome.printed}
    )
    partial = path.with_suffix(".partial")
    partial.write_text(text)
    partial.replace(path)
