"""Scaled dot-product attention under a mask: a row that may see nothing gives zeros."""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir
import torch
from onnxscript.function_libs.torch_lib.ops import nn as torchlib

from roadworthy.targets.onnx.translations.writing import like, op

_aten = torch.ops.aten


def scaled_dot_product_attention(
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
    if len(query.shape) == 4 and attn_mask is None and not is_causal:
        return torchlib.aten_scaled_dot_product_attention(
            query, key, value, None, dropout_p, False, scale, enable_gqa
        )
    if enable_gqa and query.shape[-3] != key.shape[-3]:
        key, value = torchlib._attention_repeat_kv_for_group_query(query, key, value)
    factor = scale if scale is not None else 1 / math.sqrt(query.shape[-1])
    root = like(math.sqrt(factor), query)
    rank = len(key.shape)
    turned = op.Transpose(key, perm=[*range(rank - 2), rank - 1, rank - 2])
    scores = op.MatMul(op.Mul(query, root), op.Mul(turned, root))
    if attn_mask is None and not is_causal:
        return op.MatMul(op.Softmax(scores, axis=-1), value)
    zero, low = like(0.0, query), like(-math.inf, query)
    mask = attn_mask
    if is_causal:
        mask = op.Where(_causal(query, key), zero, low)
    elif attn_mask.dtype == ir.DataType.BOOL:
        mask = op.Where(attn_mask, zero, low)
    weights = op.Softmax(op.Add(scores, mask), axis=-1)
    empty = op.Equal(op.ReduceMax(mask, [-1], keepdims=1), low)
    return op.MatMul(op.Where(empty, zero, weights), value)


def _causal(query: Any, key: Any) -> Any:
    """Whether a query may see a key: those up to its own place."""
    sizes = [op.Shape(each, start=-2, end=-1) for each in (query, key)]
    ones = op.ConstantOfShape(op.Concat(*sizes, axis=0), value=ir.tensor([1.0]))
    return op.Cast(op.Trilu(ones, upper=0), to=ir.DataType.BOOL)
