"""Whatever is raised inside and carries no finding leaves as one that does.

Every call that users make stands behind `answers`; the command line asks `unforeseen` itself. What
was raised is kept as the cause. Interrupts and exits pass through, and so does what Python says of
a call that leaves an argument out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from roadworthy.errors import BundleError, InternalError, RoadworthyError, UsageError

P = ParamSpec("P")
R = TypeVar("R")
TRACEBACK = "the traceback is the __cause__ of this error, and --debug prints it"


def answers(function: Callable[P, R]) -> Callable[P, R]:
    """The function, from which only errors with findings come out."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except (RoadworthyError, Warning):  # warnings are errors where the user says so
            raise
        except Exception as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is None:
                raise  # the function was never entered: an argument is missing or unknown
            raise unforeseen(error) from error

    return call


def unforeseen(error: Exception) -> RoadworthyError:
    """The finding for an error that has none: whose it is, where, and what to do."""
    if isinstance(error, OSError) and error.errno is not None:
        return BundleError(
            error.strerror or str(error),
            code="RW206",
            where=str(error.filename or ""),
            hint=f"check the path, its rights and the space on the disk; {TRACEBACK}",
        )
    from roadworthy.errors.lines import culprit  # only where something went wrong

    words = next((line for line in str(error).splitlines() if line.strip()), "without a word")
    raised = f"{type(error).__name__}: {words}"
    place, is_users = culprit(error)
    if is_users:
        return UsageError(
            f"code that Roadworthy called raised {raised}",
            code="RW003",
            where=place,
            hint=f"run that line by itself; {TRACEBACK}",
        )
    return InternalError(
        f"Roadworthy did not foresee this: {raised}",
        where=place,
        hint=f"this is a mistake of Roadworthy's, please report it with its traceback: {TRACEBACK}",
    )
