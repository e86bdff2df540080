"""The operators that the C writer knows, by their ONNX names."""

from __future__ import annotations

from collections.abc import Mapping

from roadworthy.targets.c.lowering import Lower
from roadworthy.targets.c.operators import (
    arithmetic,
    control,
    convolution,
    indexing,
    products,
    recurrent,
    reductions,
    views,
)

OPERATORS: Mapping[str, Lower] = {
    **arithmetic.OPERATORS,
    **views.OPERATORS,
    **indexing.OPERATORS,
    **products.OPERATORS,
    **convolution.OPERATORS,
    **reductions.OPERATORS,
    **recurrent.OPERATORS,
    **control.OPERATORS,
}
