"""Images of another size: what PyTorch mixes each pixel of is asked of PyTorch, and written down.

ONNX's Resize has formulas of its own for that: from 210 × 160 pixels to 84 × 84 onnxruntime is off
by hundreds of PyTorch's roundings. As chosen pixels times numbers it is right to the last bits, for
antialiased and cubic images too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir
import torch
from onnxscript.function_libs.torch_lib.ops import nn

from roadworthy.targets.onnx.translations.writing import op

_aten = torch.ops.aten
_FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16)
Scales = Sequence[float | None]


def _axis(
    operator: Any, old: int, new: int, scale: float | None, words: Sequence[bool], dtype: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """The matrix (old, new) that the operator is along one axis, and what of it PyTorch reads."""
    others = len(operator.default._schema.arguments) - len(words) - 3  # axes beside this one

    def seen(lines: torch.Tensor) -> torch.Tensor:
        # Of two pixels along each of those: images of one column some kernels take for others.
        pixels = lines.reshape(old, 1, old, *(1,) * others).expand(old, 1, old, *(2,) * others)
        sizes = [new] + [2] * others
        made = operator.default(pixels.contiguous(), sizes, *words, scale, *[None] * others)
        return torch.as_tensor(made.reshape(old, new, -1)[..., 0])

    one = torch.eye(old, dtype=dtype)
    # A pixel that counts nothing is read all the same, and NaN goes through.
    return seen(one), seen(one.where(one == 0, math.nan)).isnan()


def _mixed(x: Any, matrix: torch.Tensor, counts: torch.Tensor, axis: int) -> Any:
    """The image with other pixels along an axis, each a sum of some old ones."""
    one = torch.eye(len(matrix), dtype=matrix.dtype)
    if torch.equal(matrix, one) and torch.equal(counts, one.bool()):
        return x
    if axis == len(x.shape) - 1:
        # onnxruntime gathers whole lines five to eight times as fast as single pixels.
        return _turned(_mixed(_turned(x), matrix, counts, axis - 1))
    counts, most = counts.T, int(counts.sum(0).max())
    order = torch.argsort(~counts, dim=1, stable=True)[:, :most]
    shares, real = matrix.T.gather(1, order), counts.gather(1, order)
    # A pixel with fewer takes its first one in halves: times 0 an infinite one would be NaN.
    order = torch.where(real, order, order[:, :1])
    for place in range(1, most):
        shares[:, 0] = torch.where(real[:, place], shares[:, 0], shares[:, 0] / 2)
        shares[:, place] = torch.where(real[:, place], shares[:, place], shares[:, 0])
    total: Any = None
    for place, share in zip(order.T, shares.T, strict=True):
        part = op.Gather(x, op.Constant(value=ir.tensor(place.contiguous().numpy())), axis=axis)
        if (share != 1).any():
            across = share.reshape(-1, *(1,) * (len(x.shape) - 1 - axis)).numpy()
            part = op.Mul(part, op.Constant(value=ir.tensor(across.astype(x.dtype.numpy()))))
        total = part if total is None else op.Add(total, part)
    total.shape = ir.Shape([*x.shape[:axis], matrix.shape[1], *x.shape[axis + 1 :]])
    total.dtype = x.dtype
    return total


def _turned(x: Any) -> Any:
    """The image with its last two axes swapped."""
    *others, one, two = range(len(x.shape))
    turned = op.Transpose(x, perm=[*others, two, one])
    turned.shape, turned.dtype = ir.Shape([x.shape[each] for each in (*others, two, one)]), x.dtype
    return turned


def _resized(
    operator: Any, x: Any, sizes: Sequence[Any] | None, scales: Scales, words: Sequence[bool]
) -> Any:
    """The image at its new size; None where a size or a type is not for this form."""
    old = list(x.shape[2:])
    exact = "nearest" in str(operator)
    if not all(isinstance(each, int) for each in old) or not (exact or x.dtype in _FLOATS):
        return None
    if sizes is None:
        sizes = [math.floor(size * scale) for size, scale in zip(old, scales, strict=True) if scale]
    if not all(isinstance(each, int) for each in sizes):
        return None
    own, wide = x.dtype, ir.DataType.FLOAT
    # In float64 PyTorch's numbers are others, and so are its nearest pixels.
    kind = torch.float64 if own == ir.DataType.DOUBLE else torch.float32
    if own == ir.DataType.FLOAT16 and not exact:
        shape, x = x.shape, op.Cast(x, to=wide)
        x.shape, x.dtype = shape, wide
    for place, (size, new) in enumerate(zip(old, sizes, strict=True)):
        scale = scales[place] if place < len(scales) else None
        x = _mixed(x, *_axis(operator, size, new, scale, words, kind), 2 + place)
    return x if x.dtype == own else op.Cast(x, to=own)


def _by_size(operator: Any, usual: Callable[..., Any]) -> Callable[..., Any]:
    def resized(
        self: Any, output_size: Any, align_corners: bool, first: Any = None, second: Any = None,
        third: Any = None,
    ) -> Any:  # fmt: skip
        own = _resized(operator, self, output_size, (first, second, third), (align_corners,))
        return usual(self, output_size, align_corners) if own is None else own

    return resized


def _by_size_or_scale(operator: Any, usual: Callable[..., Any]) -> Callable[..., Any]:
    def resized(self: Any, output_size: Any, align_corners: bool, scale_factors: Any = None) -> Any:
        own = _resized(operator, self, output_size, scale_factors or (), (align_corners,))
        return usual(self, output_size, align_corners, scale_factors) if own is None else own

    return resized


def _nearest_by_size(operator: Any, usual: Callable[..., Any]) -> Callable[..., Any]:
    def resized(
        self: Any, output_size: Any, first: Any = None, second: Any = None, third: Any = None
    ) -> Any:
        own = _resized(operator, self, output_size, (first, second, third), ())
        return usual(self, output_size) if own is None else own

    return resized


def _nearest_by_size_or_scale(operator: Any) -> Callable[..., Any]:
    def resized(self: Any, output_size: Any, scale_factors: Any = None) -> Any:
        own = _resized(operator, self, output_size, scale_factors or (), ())
        if own is not None:
            return own
        return nn.aten_upsample_nearestnd_vec(self, output_size, scale_factors)

    return resized


upsample_linear1d = _by_size(_aten.upsample_linear1d, nn.aten_upsample_linear1d)
upsample_bilinear2d = _by_size(_aten.upsample_bilinear2d, nn.aten_upsample_bilinear2d)
upsample_trilinear3d = _by_size(_aten.upsample_trilinear3d, nn.aten_upsample_trilinear3d)
upsample_bicubic2d = _by_size(_aten.upsample_bicubic2d, nn.aten_upsample_bicubic2d)
upsample_bilinear2d_aa = _by_size(_aten._upsample_bilinear2d_aa, nn.aten__upsample_bilinear2d_aa)
upsample_bicubic2d_aa = _by_size(_aten._upsample_bicubic2d_aa, nn.aten__upsample_bicubic2d_aa)
upsample_nearest1d = _nearest_by_size(_aten.upsample_nearest1d, nn.aten_upsample_nearest1d)
upsample_nearest2d = _nearest_by_size(_aten.upsample_nearest2d, nn.aten_upsample_nearest2d)
upsample_nearest3d = _nearest_by_size(_aten.upsample_nearest3d, nn.aten_upsample_nearest3d)

upsample_linear1d_vec = _by_size_or_scale(_aten.upsample_linear1d, nn.aten_upsample_bilinear2d_vec)
upsample_bilinear2d_vec = _by_size_or_scale(
    _aten.upsample_bilinear2d, nn.aten_upsample_bilinear2d_vec
)
upsample_trilinear3d_vec = _by_size_or_scale(
    _aten.upsample_trilinear3d, nn.aten_upsample_trilinear3d_vec
)
upsample_bicubic2d_vec = _by_size_or_scale(_aten.upsample_bicubic2d, nn.aten_upsample_bicubic2d_vec)
upsample_nearest1d_vec = _nearest_by_size_or_scale(_aten.upsample_nearest1d)
upsample_nearest2d_vec = _nearest_by_size_or_scale(_aten.upsample_nearest2d)
upsample_nearest3d_vec = _nearest_by_size_or_scale(_aten.upsample_nearest3d)
