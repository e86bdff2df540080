"""The policy, run on many rows, to see what its outputs depend on."""

from __future__ import annotations

import torch

from roadworthy.capture import probe
from roadworthy.capture.analysis import TRACED_ROWS, ModuleAnalysis
from roadworthy.errors import RoadworthyError
from roadworthy.inspection.snapshot import preserved
from roadworthy.spec.port import BATCH
from roadworthy.spec.tolerance import INFLUENCE

ROWS = 32

Results = tuple[torch.Tensor, ...]


def outputs(analysis: ModuleAnalysis, scale: float = 1.0) -> Results:
    """What the policy gives for `ROWS` rows around the example, memory included; or nothing.

    The same values at every call. Must be called inside `export_mode`.
    """
    rows = analysis.source.batch or ROWS
    draws = torch.Generator().manual_seed(0)
    inputs = {}
    for name, tensor in analysis.sized({BATCH: rows - TRACED_ROWS}).items():
        noise = scale * torch.randn(tensor.shape, generator=draws, dtype=torch.float32)
        inputs[name] = tensor + noise.to(tensor.dtype) if tensor.is_floating_point() else tensor
    memory = analysis.fresh_memory({BATCH: rows - TRACED_ROWS})
    try:
        with preserved(analysis.source.module):
            return probe.run(analysis.step, inputs, memory)
    except RoadworthyError:
        return ()


def differs(one: Results, other: Results) -> bool:
    return any(not INFLUENCE.close(a, b) for a, b in zip(one, other, strict=False))
