"""What is worth saying about a source that is exported right, and may still not be meant."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from roadworthy.capture.export_mode import export_mode
from roadworthy.capture.source import Source
from roadworthy.errors import Finding
from roadworthy.spec.port import Array
from roadworthy.spec.signature import Signature
from roadworthy.spec.tolerance import FAR, REARRANGED
from roadworthy.spec.transforms import EpsInsideRoot, Normalizer


def advisories(source: Source, signature: Signature) -> Iterator[Finding]:
    """Notes and warnings; the source comes back as it was."""
    yield from in_training(source.module)
    with export_mode(source):
        unread = list(_unread_statistics(source))
    yield from unread
    yield from _without_limits(signature)


def in_training(module: nn.Module) -> Iterator[Finding]:
    """A note where evaluating differs from training: the export evaluates."""
    left = [
        path
        for path, part in module.named_modules()
        if part.training and _differs_in_training(part)
    ]
    if left:
        yield Finding(
            code="RW160",
            where=f"{type(module).__name__}.{left[0]}".rstrip("."),
            what=f"{len(left)} part(s) were in training mode; the export used evaluation mode",
            hint="nothing to do; module.eval() before the export makes this note go away",
            severity="note",
        )


def _differs_in_training(part: nn.Module) -> bool:
    if isinstance(part, nn.modules.dropout._DropoutNd):
        return bool(part.p > 0)
    if isinstance(part, nn.MultiheadAttention):
        return bool(part.dropout > 0)
    return isinstance(part, nn.modules.batchnorm._NormBase)


def never_updated(mean: Array, spread: Array) -> bool:
    """Whether statistics are still where they start: a mean of 0, a spread of 1, or of 0."""
    return not np.any(mean) and bool(np.all(spread == 1) or not np.any(spread))


def _unread_statistics(source: Source) -> Iterator[Finding]:
    """A normaliser that nobody trained, or whose statistics were not loaded."""
    for port, normalizer in source.normalizers().items():
        if isinstance(normalizer, nn.Identity):
            continue
        what = _unread(normalizer, source.tensors[port])
        if what:
            yield Finding(
                code="RW163",
                where=f"normalizer of {port}",
                what=what,
                hint="load the trained statistics, or pass normalizer=torch.nn.Identity() if the "
                "policy was trained without",
                severity="warning",
            )


def _unread(normalizer: Normalizer | nn.Module, example: Tensor) -> str:
    """What is odd about a normaliser; of a module only what it does is known."""
    if not isinstance(normalizer, nn.Module):
        spread = normalizer.var if isinstance(normalizer, EpsInsideRoot) else normalizer.std
        if never_updated(np.asarray(normalizer.mean), np.asarray(spread)):
            return f"its statistics were never updated: mean 0, spread {np.max(spread):g}"
        return ""
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(8, *example.shape[1:], generator=generator).to(example.dtype)
    with torch.no_grad():
        result = normalizer(values)
    if not torch.isfinite(result).all() or result.abs().median() > FAR:
        return "ordinary values become infinite or huge: the statistics look zeroed"
    if REARRANGED.close(values, result):
        return "it changes nothing: its statistics were never updated"
    return ""


def _without_limits(signature: Signature) -> Iterator[Finding]:
    for port in signature.inputs:
        whole = port.dtype.startswith(("int", "uint")) and port.dtype != "uint8"
        if whole and port.about.low is None and port.about.high is None:
            yield Finding(
                code="RW324",
                where=port.name,
                what=f"an input of {port.dtype} without limits: only 0 and 1 were tried",
                hint=f"give its limits: about={{{port.name!r}: rw.About(low=0, high=…)}}",
                severity="warning",
            )
