"""Scaled dot-product attention under a mask: a row that may see nothing gives zeros."""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir
import torch
from onnxscript import opset18 as op
from onnxscript.function_libs.torch_lib.ops import nn as torchlib

_aten = torch.ops.aten


def attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """As torchlib without a mask; with one, NaN stays NaN and an empty row is zero.

    torchlib gives the lowest number for what is masked, so that a row without anything to see
    becomes the mean, and puts 0 for NaN, so that a broken sensor is not seen.
    """
    rank = len(query.shape)
    if rank == 3:
        query, key, value = (op.Unsqueeze(each, [0]) for each in (query, key, value))
        attn_mask = _with_heads(attn_mask)
    if attn_mask is None and not is_causal:
        mixed = torchlib.aten_scaled_dot_product_attention(
            query, key, value, None, dropout_p, False, scale, enable_gqa
        )
    else:
        factor = scale if scale is not None else 1 / math.sqrt(query.shape[-1])
        if enable_gqa and query.shape[1] != key.shape[1]:
            key, value = torchlib._attention_repeat_kv_for_group_query(query, key, value)
        allowed = _causal(query, key) if is_causal else attn_mask
        mixed = _masked(query, key, value, allowed, factor)
    return op.Squeeze(mixed, [0]) if rank == 3 else mixed


def _masked(query: Any, key: Any, value: Any, mask: Any, factor: float) -> Any:
    root = ir.tensor(math.sqrt(factor), dtype=query.dtype)
    low, zero = (ir.tensor(each, dtype=query.dtype) for each in (-math.inf, 0.0))
    if mask.dtype == ir.DataType.BOOL:
        mask = op.Where(mask, zero, low)
    turned = op.Transpose(key, perm=[0, 1, 3, 2])
    scores = op.Add(op.MatMul(op.Mul(query, root), op.Mul(turned, root)), mask)
    empty = op.Equal(op.ReduceMax(mask, [-1], keepdims=1), low)
    weights = op.Where(empty, zero, op.Softmax(scores, axis=-1))
    return op.MatMul(weights, value)


def _causal(query: Any, key: Any) -> Any:
    """Whether a query may see a key: those up to its own place."""
    size, sizes = (op.Shape(each, start=2, end=3) for each in (query, key))
    ones = op.ConstantOfShape(op.Concat(size, sizes, axis=0), value=ir.tensor([1.0]))
    seen = op.Trilu(ones, upper=0)
    return op.Cast(seen, to=ir.DataType.BOOL)


def _with_heads(mask: Any) -> Any:
    return op.Unsqueeze(mask, [0]) if mask is not None and len(mask.shape) == 3 else mask


TABLE = {_aten.scaled_dot_product_attention.default: attention}
