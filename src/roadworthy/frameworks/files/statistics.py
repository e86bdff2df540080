"""What may stand beside tensors in a file: NumPy's arrays, and the statistics of known classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

# The class that Tianshou's environments keep their statistics in, wherever a version has it.
_KNOWN = ("tianshou.utils.statistics.RunningMeanStd",)


class Statistics:
    """The fields of a known class, as the file has them; of the class itself nothing is run."""


def safe_globals() -> list[tuple[Any, str]]:
    """What torch.load may build besides tensors, by the names that pickles know it by."""
    arrays: Any = np.empty(0).__reduce__()[0]
    scalars: Any = np.float64(0).__reduce__()[0]
    return [
        *((Statistics, name) for name in _KNOWN),
        *_of_numpy(arrays, "multiarray._reconstruct"),
        *_of_numpy(scalars, "multiarray.scalar"),
        (np.ndarray, "numpy.ndarray"),
        (np.dtype, "numpy.dtype"),
        *((type(np.dtype(name)), f"numpy.dtypes.{type(np.dtype(name)).__name__}")
          for name in ("float32", "float64", "int32", "int64")),
    ]  # fmt: skip


def _of_numpy(function: Callable[..., Any], name: str) -> list[tuple[Any, str]]:
    # NumPy 2 has moved them, and files of both are about.
    return [(function, f"numpy.core.{name}"), (function, f"numpy._core.{name}")]
