"""Whether a policy and an environment go together, said before the first step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from roadworthy.errors import Finding, UsageError
from roadworthy.spec.port import BATCH, Port
from roadworthy.spec.signature import Action, Signature

_TRAINED_IN = "pass the environment that the policy was trained in, with its wrappers"


def refuse_misfit(signature: Signature, observation: Any, action: Any) -> None:
    """An error that shows both sides of every port that does not fit its space."""
    problems = [
        *_observation_problems(signature, observation),
        *_action_problems(signature, action),
    ]
    if problems:
        raise UsageError(findings=problems)


def _observation_problems(signature: Signature, space: Any) -> Iterator[Finding]:
    named = getattr(space, "spaces", None)
    observed = signature.observed
    if isinstance(named, dict):
        for port in observed:
            if port.name not in named:
                yield Finding(
                    code="RW001", where=port.name,
                    what="the policy takes it, the environment observes "
                    f"{', '.join(map(repr, named))}",
                    hint=_TRAINED_IN,
                )  # fmt: skip
            else:
                yield from _shape_problem(port, named[port.name])
        return
    if len(observed) > 1:
        names = ", ".join(repr(port.name) for port in observed)
        yield Finding(
            code="RW001", where="observation",
            what=f"the policy takes {names}, the environment gives one {type(space).__name__}",
            hint=_TRAINED_IN,
        )  # fmt: skip
        return
    yield from _shape_problem(observed[0], space)


def _shape_problem(port: Port, space: Any) -> Iterator[Finding]:
    row = _row(port)
    if space.shape is not None and tuple(space.shape) != row:
        yield Finding(
            code="RW001", where=port.name,
            what=f"the policy takes rows of {row}, the environment observes {tuple(space.shape)}",
            hint=_TRAINED_IN,
        )  # fmt: skip
    elif space.dtype is not None and np.dtype(space.dtype).kind != np.dtype(port.dtype).kind:
        yield Finding(
            code="RW001", where=port.name,
            what=f"the policy takes {port.dtype}, the environment observes {space.dtype}",
            hint="convert in a wrapper of the environment, or inside the exported policy",
        )  # fmt: skip


def _action_problems(signature: Signature, space: Any) -> Iterator[Finding]:
    port = next(p for p in signature.outputs if p.name == signature.action_output)
    count = getattr(space, "n", None)
    action = signature.action
    if count is not None and action and action.sizes and action.sizes[0] > count:
        yield Finding(
            code="RW001", where=port.name,
            what=f"the policy chooses among {action.sizes[0]} actions, the environment has {count}",
            hint=_TRAINED_IN,
        )  # fmt: skip
    elif count is not None and port.dtype.startswith("float"):
        yield Finding(
            code="RW001", where=port.name,
            what=f"the policy gives {port}, the environment takes one of {count} actions",
            hint="export with action=rw.Argmax()",
        )  # fmt: skip
    elif tuple(space.shape or ()) != _row(port):
        yield Finding(
            code="RW001", where=port.name,
            what=f"the policy gives rows of {_row(port)}, the environment takes {space}",
            hint=_TRAINED_IN,
        )  # fmt: skip
    elif _beyond(action, space):
        yield Finding(
            code="RW001", where=port.name,
            what=f"the policy gives {action}, the environment takes "
            f"[{np.min(space.low):g}, {np.max(space.high):g}]",
            hint="export with the environment's bounds: action=rw.ScaleToBounds(low=…, high=…)",
        )  # fmt: skip


def _beyond(action: Action | None, space: Any) -> bool:
    """Whether the policy may give what the environment does not take."""
    if action is None or action.low is None or not hasattr(space, "low"):
        return False
    below = np.asarray(action.low) < space.low
    return bool(np.any(below) or np.any(np.asarray(action.high) > space.high))


def _row(port: Port) -> tuple[Any, ...]:
    """The shape of one row."""
    return tuple(dim for dim in port.shape if dim != BATCH)
