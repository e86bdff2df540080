"""What workers of these tests do: named functions, which another process can import."""

from __future__ import annotations

import os
import time
from pathlib import Path

from roadworthy.deploy.many.task import Outcome, Task


def task(name: str, folder: Path, *words: str) -> Task:
    return Task(
        name=name, words=words, cwd=str(folder), key=name, record=str(folder / f"{name}.json")
    )


def echo(task: Task) -> Outcome:
    return Outcome(task=task, code=0, printed=f"{task.name} {os.environ['OMP_NUM_THREADS']}")


def dies(task: Task) -> Outcome:
    """The process ends where the task says so: always, or at the first try alone."""
    tried = Path(task.cwd) / task.name
    first = not tried.exists()
    tried.touch()
    if "always" in task.words or ("once" in task.words and first):
        os._exit(9)
    return Outcome(task=task, code=0, printed="lived")


def waits(task: Task) -> Outcome:
    """Begins something, and puts it away however it is ended."""
    half = Path(task.cwd) / f"{task.name}.half"
    try:
        # The file is seen before this line has ended: an end may come in the midst of it.
        half.touch()
        time.sleep(60)
    finally:
        half.unlink(missing_ok=True)
    return Outcome(task=task, code=0, printed="")
