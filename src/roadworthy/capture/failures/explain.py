"""Failures inside the user's code, and inside torch.export, as findings that name a line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from roadworthy.capture.failures.capture_rules import CAPTURE_RULES, READ_SIZES
from roadworthy.capture.failures.rules import explanation
from roadworthy.capture.failures.run_rules import RUN_RULES
from roadworthy.capture.source import FORWARD, Source
from roadworthy.errors import BatchSpecialised, ExportError, RoadworthyError
from roadworthy.errors.lines import quoted_line, user_line


@contextmanager
def explained(source: Source, rows: int | None = None) -> Iterator[None]:
    """Whatever the user's module raises becomes an error with its file and line.

    `rows` is the number of rows it is run with, where the example had another number.
    """
    try:
        yield
    except RoadworthyError:
        raise
    except Exception as error:
        raise run_failure(error, source, rows) from error


def run_failure(error: Exception, source: Source, rows: int | None = None) -> ExportError:
    """What the user's module raised, as an error with its file and line."""
    where = user_line(error) or type(source.module).__name__
    known = explanation(RUN_RULES, str(error), where, classes_of(source.module))
    if known is not None:
        return known
    raised = f"{type(error).__name__}: {_first_line(error)}"
    if source.called == FORWARD:
        if isinstance(error, NotImplementedError):
            return _no_forward(source, where, "raises NotImplementedError")
        if isinstance(error, TypeError) and not source.arguments:
            return _no_forward(source, where, "takes no arguments")
    if rows is not None:
        return BatchSpecialised(
            f"{source.called} runs on the example, but with {rows} rows it raised {raised}",
            where=where,
            hint=f"the first axis of the example must be the batch; {READ_SIZES}",
        )
    return ExportError(
        f"{source.called} raised {raised}",
        code="RW102",
        where=where,
        hint="call the module on the example: its first axis must be the batch, its shapes and "
        "dtypes "
        "those of training",
    )


# How the methods that act are called, the likeliest first.
_ACTING = (
    "act_inference", "act", "get_action", "predict", "policy", "select_action", "actor_forward",
    "compute_action", "infer", "get_actions", "pi", "sample_action",
)  # fmt: skip


def _no_forward(source: Source, where: str, why: str) -> ExportError:
    """The finding for a class that acts through another method than `forward`."""
    own = vars(type(source.module)).keys() | set(dir(type(source.module)))
    acting = [name for name in _ACTING if name in own and not hasattr(torch.nn.Module, name)]
    return ExportError(
        f"forward {why}: the module acts through another method",
        code="RW102",
        where=where,
        hint=f"say which: method={acting[0]!r}"
        if acting
        else "say which: method='act', or method=lambda m, obs: m.act(obs)",
    )


def capture_failure(
    error: Exception, name: str, module: torch.nn.Module | None = None
) -> ExportError:
    """The finding for what torch.export raised about the module or environment called `name`."""
    text = str(error)
    where = user_line(error) or quoted_line(text) or name
    classes = [] if module is None else classes_of(module)
    return explanation(CAPTURE_RULES, text, where, classes) or ExportError(
        f"torch.export cannot capture it: {_first_line(error)}",
        code="RW104",
        where=where,
        hint="write that place with torch operations on tensors (roadworthy explain RW104)",
    )


def classes_of(module: torch.nn.Module) -> list[type]:
    """The classes of a module and of all below it, each once."""
    return list(dict.fromkeys(type(each) for each in module.modules()))


def _first_line(error: BaseException) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
