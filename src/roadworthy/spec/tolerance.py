"""How close is close: every tolerance of the project, each with its reason.

|other - one| ≤ atol + rtol · |one|, NaN equal to NaN. All work on NumPy arrays and on tensors.
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


# An artifact and its original compute the same numbers in another order: a few units in the last
# place of the port's dtype. Whole numbers and flags must be equal.
_ARTIFACT = {
    "float16": Tolerance(4e-3, 2e-3),
    "float32": Tolerance(1e-5, 1e-5),
    "float64": Tolerance(1e-9, 1e-9),
}
EXACT = Tolerance(0.0, 0.0)
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
# A hypothesis about a failure may be this much less exact than a certificate, because it has been
# computed in yet another way; and must leave no more than this part of the failure unexplained.
HYPOTHESIS_SLACK = 3.0
HYPOTHESIS_REST = 0.05


def artifact_tolerance(dtype: np.dtype[Any]) -> Tolerance:
    """How far an artifact may be from its original on a port of this dtype."""
    return _ARTIFACT.get(dtype.name, EXACT)


def gaps(truth: Array, value: Array) -> tuple[Array, Array]:
    """How far apart each element is, and how far it may be. NaN equals NaN and nothing else."""
    tolerance = artifact_tolerance(truth.dtype)
    one, other = truth.astype(np.float64), value.astype(np.float64)
    with np.errstate(invalid="ignore"):
        gap = np.abs(other - one)
    gap = np.where((one == other) | (np.isnan(one) & np.isnan(other)), 0.0, gap)
    gap = np.where(np.isnan(gap), np.inf, gap)
    finite = np.where(np.isfinite(one), np.abs(one), 0.0)
    # Rounding follows the largest number of a row, not each element: small ones are sums of it.
    scale = finite.max(axis=tuple(range(1, one.ndim)), keepdims=True) if one.ndim > 1 else finite
    return gap, np.broadcast_to(tolerance.atol + tolerance.rtol * scale, gap.shape)


def _float64(values: Any) -> Array:
    if hasattr(values, "detach"):  # a tensor: this module knows no torch
        values = values.detach().cpu().double().numpy()
    return np.asarray(values, dtype=np.float64)
