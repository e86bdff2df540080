"""How close is close: every tolerance of the project, each with its reason.

An artifact is judged by what is measured: ROUNDINGS times PyTorch's own rounding error, element by
element. Where that cannot be measured, |other - one| ≤ atol + rtol · |one|, NaN equal to NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from roadworthy.spec.port import Array


@dataclass(frozen=True, slots=True)
class Tolerance:
    """A relative and an absolute part."""

    rtol: float
    atol: float

    def close(self, one: Any, other: Any) -> bool:
        """Whether two arrays or tensors have one shape and agree in every element."""
        a, b = _float64(one), _float64(other)
        return a.shape == b.shape and np.allclose(b, a, self.rtol, self.atol, equal_nan=True)


# How many times further from the exact policy than PyTorch itself an artifact may be, wherever that
# was measured. Right artifacts of every kind and scale that were tried stay below 6; one weight
# moved by 0.1 % of a typical weight is beyond 200, unless PyTorch's own rounding hides it.
ROUNDINGS = 20.0
# What rounding may hide at most, as a part of how much an output moves: where the float64 graph is
# further than this from float32, it computes something else, and is no measure of rounding.
HIDDEN = 0.1
# Where nothing is measured: an artifact and its original compute the same numbers in another order,
# a few units in the last place of the port's dtype. Whole numbers and flags must be equal.
_ARTIFACT = {
    "float16": Tolerance(4e-3, 2e-3),
    "float32": Tolerance(1e-5, 1e-5),
    "float64": Tolerance(1e-9, 1e-9),
}
EXACT = Tolerance(0.0, 0.0)
# The part of the states whose distance is left out where the usual one is measured: flips, and
# values far beyond those that policies live on, say nothing about the others.
TRIMMED = 0.3
# What float64 may be off, as a share of the usual size: nothing that moves takes account of it, and
# where a constant was cut to float32 it is ten thousand times as much.
NEGLIGIBLE = 1e-12
# How many times further than an artifact the original may be from the exact value: cuDNN's LSTM was
# at 24 roundings of the processor's, where 20 are allowed. A wrong graph is far beyond.
OTHER_KERNELS = 3.0
# Two runs of one live policy: batch sizes choose other kernels, and nothing more. Hidden state,
# randomness and mixed-up rows move an output far more than this.
SAME_POLICY = Tolerance(1e-4, 1e-4)
# An output that a nudged value moves by less does not depend on it.
INFLUENCE = Tolerance(0.0, 1e-6)
# Initial values are copied, through float32 and JSON at most.
INITIAL = Tolerance(1e-5, 1e-6)
# What is remembered on both sides, or a known function of it, after some steps of rounding.
REARRANGED = Tolerance(1e-4, 1e-5)
# Outputs of one side found again at the neighbouring step of the other.
SHIFTED = Tolerance(1e-5, 1e-5)
# The same network with other names for its ports, in the same runtime: kernels may be chosen anew.
RENAMED = Tolerance(1e-6, 1e-7)
# One element of the inputs is moved at a time: marks that are closer than this, as a part of the
# largest, are those of one element; an output that moves by less does not respond.
SAME_MARK = 1e-4
RESPONDS = 1e-7
# A scale and an offset are only looked for in what moves, and are only said where they show.
MOVES = 1e-9
SCALES = 1e-6
SHOWS = 1e-4
# How close to a limit an output stands at it, as a part of the range.
AT_LIMIT = 1e-6
# A normalised value that is hundreds of deviations from the mean means that there is no deviation.
FAR = 300.0
# A hypothesis about a failure may be this much less exact than a certificate, because it has been
# computed in yet another way; and must leave no more than this part of the failure unexplained.
HYPOTHESIS_SLACK = 3.0
HYPOTHESIS_REST = 0.05


def artifact_tolerance(dtype: np.dtype[Any]) -> Tolerance:
    """How far an artifact may be from its original on a port of this dtype."""
    return _ARTIFACT.get(dtype.name, EXACT)


def ulp(values: Array, dtype: np.dtype[Any] | str) -> Array:
    """The unit in the last place of each value in a floating dtype; 0 where it is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        spacing = np.spacing(np.abs(values).astype(dtype)).astype(np.float64)
    return np.where(np.isfinite(spacing), spacing, 0.0)


def gaps(truth: Array, value: Array, *, rows_at: int = 0) -> tuple[Array, Array]:
    """How far apart each element is, and how far it may be where nothing was measured.

    NaN equals NaN and nothing else. `rows_at` is the axis of the rows.
    """
    tolerance = artifact_tolerance(truth.dtype)
    one, other = truth.astype(np.float64), value.astype(np.float64)
    with np.errstate(invalid="ignore"):
        gap = np.abs(other - one)
    gap = np.where((one == other) | (np.isnan(one) & np.isnan(other)), 0.0, gap)
    gap = np.where(np.isnan(gap), np.inf, gap)
    finite = np.where(np.isfinite(one), np.abs(one), 0.0)
    # Rounding follows the largest number of a row, not each element: small ones are sums of it.
    inside = tuple(range(rows_at + 1, one.ndim))
    scale = finite.max(axis=inside, keepdims=True) if inside else finite
    return gap, np.broadcast_to(tolerance.atol + tolerance.rtol * scale, gap.shape)


def _float64(values: Any) -> Array:
    if hasattr(values, "detach"):  # a tensor: this module knows no torch
        values = values.detach().cpu().double().numpy()
    return np.asarray(values, dtype=np.float64)
