"""A task, and what became of it: plain data, which goes to another process or machine and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One command of the command line, for one policy.

    name    what people call it
    words   the command
    cwd     the folder in which its paths are meant
    key     what decides its result: input, options and versions, as one sum
    record  the file that says that it was done
    result  the bundle that it makes, if it makes one
    """

    name: str
    words: tuple[str, ...]
    cwd: str
    key: str
    record: str
    result: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The exit code of a task, and what it printed; `skipped` where an earlier run had done it."""

    task: Task
    code: int
    printed: str
    skipped: bool = False


# Performs one task. It goes to the workers by its name, so it must be one that can be imported.
Work = Callable[[Task], Outcome]
# The exit code of a task whose process ended before it did.
DIED = 70
