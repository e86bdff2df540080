"""How far a rebuilt actor is from what its framework answered."""

from __future__ import annotations

import numpy as np

import roadworthy as rw
from tests.checkpoints.recording import Recording
from tests.checkpoints.stepping import Stepped

TOLERANCE = 1e-5


def apart(recorded: Recording) -> float:
    """The largest difference of an action or value; choices that differ are infinitely far apart.

    A value counts relative to its size, where that is more than one.
    """
    valued = {} if recorded.values is None else {"outputs": ["value"]}
    source = rw.to_source(recorded.checkpoint, assume=recorded.assume, **valued)
    rows = recorded.actions.shape[1]
    live = Stepped(source, rows)
    worst = 0.0
    for step, expected in enumerate(recorded.actions):
        answered = live.step({name: value[step] for name, value in recorded.inputs.items()})
        got = answered["action"]
        if recorded.values is not None:
            value = recorded.values[step]
            assert answered["value"].shape == value.shape
            far = np.abs(answered["value"] - value) / np.maximum(1.0, np.abs(value))
            worst = max(worst, float(far.max()))
        assert got.shape == expected.shape, f"{got.shape}, the framework gives {expected.shape}"
        if expected.dtype.kind in "iu":
            worst = max(worst, 0.0 if (got == expected).all() else np.inf)
        else:
            worst = max(worst, float(np.abs(got - expected).max()))
    return worst
