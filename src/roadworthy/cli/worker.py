"""One task in a worker: the command as a user would type it, with its words kept."""

from __future__ import annotations

import contextlib
import io
import os

from roadworthy.deploy.many.task import Outcome, Task


def perform(task: Task) -> Outcome:
    """Exit code and printed JSON of the task's command."""
    from roadworthy.cli.app import run  # PyTorch comes with it, and only where the work is done

    printed, code = io.StringIO(), 0
    os.chdir(task.cwd)
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        try:
            run([*task.words, "--json"])
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else int(left.code is not None)
    return Outcome(task=task, code=code, printed=printed.getvalue())
