"""PyTorch's fast path of attention, which a robot takes and an export does not.

A module that evaluates without gradients goes through one fused operator, which differs from the
code as written where a row is masked altogether: it gives NaN.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.overrides

from roadworthy.capture.compose import ComposedPolicy
from roadworthy.capture.memory import Tensors
from roadworthy.errors import ExportError
from roadworthy.inspection.snapshot import preserved
from roadworthy.spec.tolerance import SAME_POLICY

_KINDS = (torch.nn.MultiheadAttention, torch.nn.TransformerEncoderLayer)


def refuse_other_path(composed: ComposedPolicy, example: Tensors, memory: Tensors) -> None:
    """An error where a first step by the fast path gives something else than as written."""
    attends = any(isinstance(each, _KINDS) for each in composed.module.modules())
    if not attends or not torch.backends.mha.get_fastpath_enabled():
        return
    with _without_modes():
        fast = _outputs(composed, example, memory)
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        written = _outputs(composed, example, memory)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    if fast is None or written is None:
        return
    for name, value in written.items():
        if not SAME_POLICY.close(value, fast[name]):
            one, other = (_shown(each[name]) for each in (written, fast))
            raise ExportError(
                f"the first step gives {one} for {name!r} by the code as it is written, and "
                f"{other} by PyTorch's fast path of attention, which is taken without gradients",
                code="RW198",
                where=type(composed.module).__name__,
                hint="mask no row altogether; or switch the path off where the policy is trained, "
                "run and exported: torch.backends.mha.set_fastpath_enabled(False)",
            )


def _outputs(composed: ComposedPolicy, example: Tensors, memory: Tensors) -> Tensors | None:
    given = {name: value.clone() for name, value in memory.items()}
    with preserved(composed.module), torch.no_grad():
        try:
            outputs: Tensors = composed({n: v.clone() for n, v in example.items()}, given)[0]
        except Exception:  # a device that is not here: named in the code, and meant for a GPU
            return None
    return outputs


def _shown(value: torch.Tensor) -> str:
    return "NaN" if value.isnan().any() else f"{value.flatten()[0].item():.6g}"


@contextmanager
def _without_modes() -> Iterator[None]:
    """What follows functions from outside keeps attention off its fast path."""
    overrides: Any = torch.overrides
    taken = [overrides._pop_mode() for _ in overrides._get_current_function_mode_stack()]
    try:
        yield
    finally:
        for each in reversed(taken):
            overrides._push_mode(each)
