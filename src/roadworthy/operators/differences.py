"""Where an ONNX file differs from PyTorch and nothing can be done: named in its certificate.

Found by `benchmarks/operator_sweep.py`; what could be put right is in `targets/onnx/translations`.
Each is one kind of difference, and the rows of the operators that have it name it.
"""

from __future__ import annotations

from roadworthy.operators.row import KnownDifference

_ROUNDING = "the result is off by up to 6e-8, which is much of a small number"
_NAN = "for rows in which some elements are NaN"

ELU = KnownDifference(
    where="for inputs between -1e-3 and 0",
    what=f"{_ROUNDING}: eˣ − 1 is computed as written",
)
SIGMOID = KnownDifference(
    where="for inputs below -3",
    what=f"{_ROUNDING}; below -17 it is 0",
    of_sigmoids=True,
)
SILU = KnownDifference(
    where="for inputs below -3",
    what="the result is off by up to 5e-7, and 0 below -17",
    of_sigmoids=True,
)
GELU = KnownDifference(
    where="for inputs below -3",
    what="the result is off by up to 3e-7, which is much of a small number",
)
ERFC = KnownDifference(
    where="where the result is below 1e-2",
    what=f"{_ROUNDING}: 1 − erf is computed as written",
)
RECURRENT = KnownDifference(
    where="for NaN observations in a sequence of many steps",
    what="the result is a number, where PyTorch gives NaN: a broken sensor is not seen",
)
CHOICE = KnownDifference(
    where=_NAN,
    what="NaN is passed over, where PyTorch chooses it",
)
EXTREME = KnownDifference(
    where=_NAN,
    what="NaN is passed over, where PyTorch gives NaN",
)
POOL = KnownDifference(
    where=f"{_NAN} or -inf",
    what="NaN is passed over, and -inf may become -3.4e38",
)
ORDER = KnownDifference(
    where=f"{_NAN}, or equal",
    what="NaN stands elsewhere than in PyTorch's order, and of equal elements others may be chosen",
)
SPREAD = KnownDifference(
    where="for inputs beyond 1e19 or within 1e-19 of each other",
    what="squares overflow or vanish, where PyTorch's do not",
)
HEAVISIDE = KnownDifference(
    where="for NaN",
    what="the result is 1, where PyTorch gives 0",
)
ISCLOSE = KnownDifference(
    where="for numbers within 1e-8 of zero",
    what="the absolute tolerance is not applied to zero as PyTorch does",
)
RESIZE = KnownDifference(
    where="for infinite inputs",
    what="the result may be NaN, where PyTorch gives infinity, and the other way round",
)
CAST = KnownDifference(
    where="for numbers beyond the range of the whole type",
    what="the target c gives the end of that range, where PyTorch's result depends on the "
    "processor",
)
