"""Operators in float64: torchlib writes their numbers as float32, and onnxruntime has not all.

They stand in for torchlib's where a graph holds float64; of other types its own form is taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
import torch
from onnxscript.function_libs.torch_lib.ops import core, nn

from roadworthy.targets.onnx.translations.functions import expm1_of, log1p_of
from roadworthy.targets.onnx.translations.writing import like, op

_aten = torch.ops.aten


def is_double(value: Any) -> bool:
    return bool(value.dtype == ir.DataType.DOUBLE)


def elu(self: Any, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Any:
    if not is_double(self):
        return nn.aten_elu(self, alpha, scale, input_scale)
    below = _times(expm1_of(_times(self, input_scale, self), self), alpha, self)
    return _times(op.Where(op.Greater(self, like(0.0, self)), self, below), scale, self)


def selu(self: Any) -> Any:
    if not is_double(self):
        return core.aten_selu(self)
    return elu(self, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)


def celu(self: Any, alpha: float = 1.0) -> Any:
    return elu(self, alpha, 1.0, 1 / alpha) if is_double(self) else nn.aten_celu(self, alpha)


def leaky_relu(self: Any, negative_slope: float = 0.01) -> Any:
    if not is_double(self):
        return nn.aten_leaky_relu(self, negative_slope)
    below = op.Mul(self, like(negative_slope, self))
    return op.Where(op.Greater(self, like(0.0, self)), self, below)


def prelu(self: Any, weight: Any) -> Any:
    if not is_double(self):
        return core.aten_prelu(self, weight)
    below = op.Mul(self, _by_channel(weight, self))
    return op.Where(op.Greater(self, like(0.0, self)), self, below)


def softplus(self: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    if not is_double(self):
        return nn.aten_softplus(self, beta, threshold)
    scaled = _times(self, beta, self)
    curve = op.Div(log1p_of(op.Exp(scaled), self), like(beta, self))
    return op.Where(op.Greater(scaled, like(threshold, self)), self, curve)


def mish(self: Any) -> Any:
    return op.Mul(self, op.Tanh(softplus(self))) if is_double(self) else nn.aten_mish(self)


def hardtanh(self: Any, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    if not is_double(self):
        return nn.aten_hardtanh(self, min_val, max_val)
    return op.Clip(self, like(min_val, self), like(max_val, self))


def hardsigmoid(self: Any) -> Any:
    if not is_double(self):
        return nn.aten_hardsigmoid(self)
    raised = op.Clip(op.Add(self, like(3.0, self)), like(0.0, self), like(6.0, self))
    return op.Div(raised, like(6.0, self))


def hardswish(self: Any) -> Any:
    return op.Mul(self, hardsigmoid(self)) if is_double(self) else nn.aten_hardswish(self)


def log2(self: Any) -> Any:
    return _logarithm(self, 2.0) if is_double(self) else core.aten_log2(self)


def log10(self: Any) -> Any:
    return _logarithm(self, 10.0) if is_double(self) else core.aten_log10(self)


def _logarithm(value: Any, base: float) -> Any:
    return op.Div(op.Log(value), like(math.log(base), value))


def sinc(self: Any) -> Any:
    turned = op.Mul(self, like(math.pi, self))
    wave = op.Div(op.Sin(turned), turned)
    return op.Where(op.Equal(self, like(0.0, self)), like(1.0, self), wave)


def addcmul(self: Any, tensor1: Any, tensor2: Any, value: float = 1.0) -> Any:
    if not is_double(self):
        return core.aten_addcmul(self, tensor1, tensor2, value)
    return op.Add(self, op.Mul(_times(tensor1, value, self), tensor2))


def addcdiv(self: Any, tensor1: Any, tensor2: Any, value: float = 1.0) -> Any:
    if not is_double(self):
        return core.aten_addcdiv(self, tensor1, tensor2, value)
    return op.Add(self, _times(op.Div(tensor1, tensor2), value, self))


def layer_norm(
    input: Any,  # noqa: A002
    normalized_shape: Sequence[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-05,
    cudnn_enable: bool = True,
) -> Any:
    if not is_double(input):
        return core.aten_layer_norm(input, normalized_shape, weight, bias, eps, cudnn_enable)
    return _scaled(
        _centred(input, list(range(-len(normalized_shape), 0)), like(eps, input)), weight, bias
    )


def group_norm(
    input: Any,  # noqa: A002
    num_groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-05,
    cudnn_enabled: bool = True,
) -> Any:
    if not is_double(input):
        return nn.aten_group_norm(input, num_groups, weight, bias, eps, cudnn_enabled)
    groups = op.Reshape(input, op.Constant(value_ints=[0, num_groups, -1]))
    flat = op.Reshape(_centred(groups, [2], like(eps, input)), op.Shape(input))
    return _scaled(flat, *(_by_channel(each, input) for each in (weight, bias)))


def native_batch_norm_legit_no_training(
    input: Any,  # noqa: A002
    weight: Any = None,
    bias: Any = None,
    running_mean: Any = None,
    running_var: Any = None,
    momentum: float = 0.9,
    eps: float = 1e-05,
) -> Any:
    if not is_double(input):
        return core.aten__native_batch_norm_no_training(
            input, weight, bias, running_mean, running_var, momentum, eps
        )
    mean, variance, scale, shift = (
        _by_channel(each, input) for each in (running_mean, running_var, weight, bias)
    )
    deviation = op.Sqrt(op.Add(variance, like(eps, input)))
    y = _scaled(op.Div(op.Sub(input, mean), deviation), scale, shift)
    # Nobody reads the statistics of a batch where there are none.
    return y, op.Identity(running_mean), op.Identity(running_var)


def full(
    size: Any, fill_value: float, dtype: int = -1, layout: str = "", device: str = "",
    pin_memory: bool = False,
) -> Any:  # fmt: skip
    if dtype != ir.DataType.DOUBLE or not isinstance(fill_value, (int, float)):
        return core.aten_full(size, fill_value, dtype)
    return op.Expand(op.Constant(value=_number(fill_value)), op.Cast(size, to=ir.DataType.INT64))


def linspace(
    start: float, end: float, steps: int, dtype: int = -1, layout: str = "", device: str = "",
    pin_memory: bool = False,
) -> Any:  # fmt: skip
    ends = all(isinstance(each, (int, float)) for each in (start, end, steps))
    if dtype != ir.DataType.DOUBLE or not ends:
        return core.aten_linspace(start, end, steps, dtype)
    return _row(torch.linspace(start, end, steps, dtype=torch.float64))


def arange_start_step(
    start: float, end: float, step: float = 1, dtype: int = -1, layout: str = "", device: str = "",
    pin_memory: bool = False,
) -> Any:  # fmt: skip
    ends = all(isinstance(each, (int, float)) for each in (start, end, step))
    if dtype != ir.DataType.DOUBLE or not ends:
        return core.aten_arange_start_step(start, end, step, dtype)
    return _row(torch.arange(start, end, step, dtype=torch.float64))


def _number(number: float) -> ir.TensorProtocol:
    return ir.tensor(number, dtype=ir.DataType.DOUBLE)


def _row(numbers: torch.Tensor) -> Any:
    return op.Constant(value=ir.tensor(numbers.numpy()))


def _centred(value: Any, axes: list[int], eps: ir.TensorProtocol) -> Any:
    """With mean 0 and deviation 1 over some axes."""
    apart = op.Sub(value, op.ReduceMean(value, axes, keepdims=1))
    variance = op.ReduceMean(op.Mul(apart, apart), axes, keepdims=1)
    return op.Div(apart, op.Sqrt(op.Add(variance, eps)))


def _scaled(value: Any, scale: Any, shift: Any) -> Any:
    value = value if scale is None else op.Mul(value, scale)
    return value if shift is None else op.Add(value, shift)


def _by_channel(numbers: Any, value: Any) -> Any:
    """One number for each channel, beside a value whose second axis they are."""
    behind = list(range(1, len(value.shape) - 1))
    return op.Unsqueeze(numbers, behind) if numbers is not None and behind else numbers


def _times(value: Any, factor: float, own: Any) -> Any:
    """Times a number of the dtype of `own`: values on the way have none yet."""
    return value if factor == 1 else op.Mul(value, like(factor, own))
