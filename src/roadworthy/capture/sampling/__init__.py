"""What a captured graph says about the values and the steps that are worth trying."""

from __future__ import annotations

import torch

from roadworthy.capture.sampling.constants import ConstantGraph
from roadworthy.capture.sampling.horizon import horizon
from roadworthy.capture.sampling.thresholds import thresholds
from roadworthy.capture.sampling.typical import typical
from roadworthy.spec.sampling import Sampling
from roadworthy.spec.signature import Signature

__all__ = ["sampling_of"]


def sampling_of(program: torch.export.ExportedProgram, signature: Signature) -> Sampling:
    """Thresholds, horizon and statistics, as the graph of a policy has them."""
    graph = ConstantGraph(program, signature)
    return Sampling(
        thresholds=thresholds(graph),
        horizon=horizon(graph),
        typical=typical(graph),
    )
