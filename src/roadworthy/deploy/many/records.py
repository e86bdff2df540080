"""What was done already: one small file for each task, beside what it made.

A record spares work and names code to run, so it counts only on the word of this user: it is
sealed with a key from the user's own cache folder. One that came along with somebody's files is
overlooked.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roadworthy.deploy.many.task import Outcome, Task
from roadworthy.runtime.canary import cache_folder
from roadworthy.spec.bundle import SUMS

FOLDER = ".roadworthy"
KEY = "records.key"


def record_of(bundle: Path, verb: str) -> Path:
    """Where it is written that `verb` was done to this bundle: beside it, not in it."""
    return bundle.parent / FOLDER / f"{bundle.name}.{verb}.json"


def bundle_sum(bundle: Path) -> str | None:
    """What names a bundle: the sum of its sums; None where there is none."""
    path = bundle / SUMS
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def read(path: Path) -> Mapping[str, Any]:
    """What a record says; nothing where there is none, it is damaged, or it is not this user's."""
    try:
        found = json.loads(path.read_text())
        said = json.loads(found["said"])
        return said if hmac.compare_digest(found["seal"], _seal(path, found["said"])) else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


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
    said = json.dumps(
        {"key": task.key, "code": outcome.code, **made, **more, "printed": outcome.printed}
    )
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps({"seal": _seal(path, said), "said": said}))
    partial.replace(path)


def _seal(path: Path, said: str) -> str:
    """What only this user can write under a record; its place counts too, so it cannot be moved."""
    text = f"{path.resolve()}\n{said}"
    return hmac.new(_key(), text.encode(), hashlib.sha256).hexdigest()


def _key() -> bytes:
    """The key of this user, made at its first use."""
    path = cache_folder().parent / KEY
    if not path.is_file():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        own = path.with_name(f"{KEY}.{os.getpid()}")
        own.touch(mode=0o600)
        own.write_bytes(secrets.token_bytes(32))
        own.replace(path)
    return path.read_bytes()
