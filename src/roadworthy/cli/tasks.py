"""`--task` and `--checkpoint`: a registered task of a framework, and a policy trained for it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from roadworthy.cli.objects import refuse_missing
from roadworthy.errors import UsageError

Task = Annotated[str | None, typer.Option("--task", help="A task of mjlab, in place of SOURCE.")]
Checkpoint = Annotated[
    Path | None, typer.Option("--checkpoint", help="The policy of the task: model_1500.pt.")
]
MotionFile = Annotated[
    Path | None, typer.Option("--motion-file", help="The motion of a task that tracks one.")
]


def refuse_unclear(
    source: str | None, task: str | None, checkpoint: Path | None, motion_file: Path | None
) -> None:
    """An error unless either a source or a task with its checkpoint is given, and is there."""
    if (source is None) == (task is None):
        raise UsageError(
            "expected SOURCE or --task, got " + ("neither" if source is None else "both"),
            hint="roadworthy export my_policy.py:actor …, or roadworthy export --task NAME "
            "--checkpoint model.pt …",
        )
    if (task is None) != (checkpoint is None):
        raise UsageError(
            "--task and --checkpoint belong together",
            hint="--task Mjlab-Velocity-Flat-Unitree-Go1 --checkpoint model_1500.pt",
        )
    for path in (checkpoint, motion_file):
        if path is not None:
            refuse_missing(path)


def environment_of(task: str, motion_file: Path | None) -> Any:
    """The environment of a task, as it is played."""
    from roadworthy.frameworks.mjlab.tasks import environment_of as made

    return made(task, None if motion_file is None else str(motion_file))
