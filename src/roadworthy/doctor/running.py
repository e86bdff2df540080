"""The policy, run on many rows, to see what its outputs depend on."""

from __future__ import annotations

import torch

from roadworthy.capture import probe
from roadworthy.capture.snapshot import preserved
from roadworthy.capture.study import TRACED_ROWS, Study
from roadworthy.errors import RoadworthyError
from roadworthy.spec.port import BATCH

ROWS = 32

Results = tuple[torch.Tensor, ...]


def outputs(study: Study, scale: float = 1.0) -> Results:
    """What the policy gives for `ROWS` rows around the example, memory included; or nothing.

    The same values at every call. Must be called inside `borrowed`.
    """
    rows = study.source.batch or ROWS
    draws = torch.Generator().manual_seed(0)
    inputs = {}
    for name, tensor in study.sized({BATCH: rows - TRACED_ROWS}).items():
        noise = scale * torch.randn(tensor.shape, generator=draws, dtype=torch.float32)
        inputs[name] = tensor + noise.to(tensor.dtype) if tensor.is_floating_point() else tensor
    memory = study.fresh_memory({BATCH: rows - TRACED_ROWS})
    try:
        with preserved(study.source.module):
            return probe.run(study.step, inputs, memory)
    except RoadworthyError:
        return ()


def differs(one: Results, other: Results) -> bool:
    return any(
        not torch.allclose(a.double(), b.double(), rtol=1e-6, atol=1e-6, equal_nan=True)
        for a, b in zip(one, other, strict=False)
    )
