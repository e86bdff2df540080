"""Transforms of images: (…, height, width, channels) in, (…, channels, height, width) out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from roadworthy.frameworks.torchrl.transforms.key_rule import (
    Function,
    KeyRule,
    PlacedTransform,
    RuleBuilder,
)

CHANNELS = 3  # of colour


def _image(placed: PlacedTransform) -> Function:
    transform = placed.transform

    def image(pixels: Tensor) -> Tensor:
        if not transform.shape_tolerant or pixels.shape[-1] == CHANNELS:
            pixels = pixels.permute(*range(pixels.ndim - 3), -1, -3, -2)
        from_int = transform.from_int
        if from_int or (from_int is None and not pixels.is_floating_point()):
            pixels = pixels.div(255)
        pixels = pixels.to(transform.dtype)
        # TorchRL adds an axis to a lone image; in an environment with a batch there is none.
        alone = pixels.ndim - 1 + placed.batch_dims == 3
        return pixels.unsqueeze(1) if transform.unsqueeze and alone else pixels

    return image


def _gray(rgb: Tensor) -> Tensor:
    if rgb.shape[-3] != CHANNELS:
        raise ValueError(f"expected {CHANNELS} channels at dim -3 of {tuple(rgb.shape)}")
    red, green, blue = rgb.unbind(-3)
    return (0.2989 * red + 0.587 * green + 0.114 * blue).to(rgb.dtype).unsqueeze(-3)


def _window(image: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    """A part of the image, black where it reaches beyond the edge."""
    bottom, right = top + height, left + width
    rows, columns = image.shape[-2:]
    beyond = (max(-left, 0), max(right - columns, 0), max(-top, 0), max(bottom - rows, 0))
    part = image[..., max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
    return functional.pad(part, beyond) if any(beyond) else part


def _crop(placed: PlacedTransform) -> Function:
    transform = placed.transform
    # The w of TorchRL's Crop is what torchvision calls height.
    height, width = transform.w, transform.h
    return lambda image: _window(image, transform.top, transform.left, height, width)


def _center_crop(placed: PlacedTransform) -> Function:
    height, width = placed.transform.w, placed.transform.h

    def cropped(image: Tensor) -> Tensor:
        rows, columns = image.shape[-2:]
        if height > rows or width > columns:
            above, before = max(height - rows, 0), max(width - columns, 0)
            edges = (before // 2, (before + 1) // 2, above // 2, (above + 1) // 2)
            image = functional.pad(image, edges)
            rows, columns = image.shape[-2:]
        return _window(
            image, round((rows - height) / 2), round((columns - width) / 2), height, width
        )

    return cropped


def _linear(distance: np.ndarray) -> np.ndarray:
    return np.where(distance < 1, 1 - distance, 0)


def _cubic(distance: np.ndarray) -> np.ndarray:
    x, a = distance, np.float32(-0.5)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return np.where(x < 1, near, np.where(x < 2, far, 0))


FILTERS: Mapping[str, tuple[int, Callable[[np.ndarray], np.ndarray]]] = {
    "bilinear": (1, _linear),
    "bicubic": (2, _cubic),
}


def antialiased(size: int, target: int, mode: str) -> np.ndarray:
    """The matrix (target, size) that resizes one axis as torch does with antialias=True.

    onnxruntime's own antialiased Resize differs from torch by 1e-5; two products with constant
    matrices do not.
    """
    reach, weigh = FILTERS[mode]
    number = np.float32
    scale = number(size) / number(target)
    support, shrink = (reach * scale, 1 / scale) if scale >= 1 else (number(reach), number(1))
    matrix = np.zeros((target, size), np.float32)
    for row in range(target):
        center = scale * number(row + 0.5)
        first = max(int(center - support + number(0.5)), 0)
        last = min(int(center + support + number(0.5)), size)
        distance = np.abs((np.arange(first, last, dtype=number) - center + number(0.5)) * shrink)
        weights = weigh(distance)
        matrix[row, first:last] = weights / weights.sum()
    return matrix


def nearest(size: int, target: int, mode: str) -> np.ndarray:
    """Which element of `size` each of `target` elements is, as torch rounds it."""
    scale = np.float32(size) / np.float32(target)
    offset = np.float32(0.5 if mode == "nearest-exact" else 0)
    index = np.floor((np.arange(target, dtype=np.float32) + offset) * scale).astype(np.int64)
    return np.asarray(np.minimum(index, size - 1))


def _resized(placed: PlacedTransform) -> Function:
    height, width = placed.transform.w, placed.transform.h
    mode = str(getattr(placed.transform.interpolation, "value", placed.transform.interpolation))
    if mode not in (*FILTERS, "nearest", "nearest-exact"):
        raise placed.refused(
            f"has interpolation={mode!r}, which works on files, not on tensors",
            hint="interpolation='bilinear' or 'nearest', and train with it",
        )

    def chosen(image: Tensor) -> Tensor:
        # Sizes are Python numbers, so what is computed from them becomes a constant.
        down = torch.tensor(nearest(image.shape[-2], height, mode).tolist())
        across = torch.tensor(nearest(image.shape[-1], width, mode).tolist())
        return image.index_select(-2, down).index_select(-1, across)

    def blended(image: Tensor) -> Tensor:
        exact = image if image.dtype in (torch.float32, torch.float64) else image.float()
        down = torch.tensor(antialiased(image.shape[-2], height, mode).tolist(), dtype=exact.dtype)
        across = torch.tensor(antialiased(image.shape[-1], width, mode).tolist(), dtype=exact.dtype)
        result = down @ (exact @ across.T)
        if mode == "bicubic" and image.dtype == torch.uint8:
            result = result.clamp(0, 255)
        return result if image.is_floating_point() else result.round().to(image.dtype)

    def resized(image: Tensor) -> Tensor:
        if tuple(image.shape[-2:]) == (height, width):
            return image
        return blended(image) if mode in FILTERS else chosen(image)

    return resized


def _of(function: Callable[[PlacedTransform], Function]) -> RuleBuilder:
    def builder(placed: PlacedTransform) -> Iterator[KeyRule]:
        yield from placed.forward_rules(lambda: function(placed))

    return builder


OBSERVATION: Mapping[str, RuleBuilder] = {
    "CenterCrop": _of(_center_crop),
    "Crop": _of(_crop),
    "GrayScale": _of(lambda placed: _gray),
    "Resize": _of(_resized),
    "ToTensorImage": _of(_image),
}
