"""A device that every machine has: PyTorch's processor, taken for a GPU.

All of the engine for CUDA runs on it but the recording: buffers of its own, tensors in and out,
memory in place. A result stays at its address here too, so what would be overwritten on a GPU is.
"""

from __future__ import annotations

import dataclasses

import torch

from roadworthy.runtime.cuda_engines import CudaEngine, moved
from roadworthy.runtime.cuda_graph import Recording, Work
from roadworthy.runtime.engine import Artifact
from roadworthy.runtime.torch_engines import flat, graph_names, programs_in
from roadworthy.spec.targets import TARGETS, Target

DEVICE = torch.device("cpu")
NAME = "standin"


class StandIn(CudaEngine):
    @classmethod
    def open(cls, artifact: Artifact, *, threads: int, device: str) -> StandIn:
        programs = programs_in(artifact)
        graphs = [
            flat(moved(programs[name], DEVICE), DEVICE) for name in graph_names(artifact.signature)
        ]
        return cls(graphs, artifact.signature, device=DEVICE, where=artifact.where)


def recorded_in_place(work: Work, device: torch.device, *, where: str) -> Recording:
    """A recording as a CUDA graph is one: its results are those of the first call, wherever."""
    results = list(work.compute())

    def run() -> None:
        work.begin()
        for buffer, result in zip(results, work.compute(), strict=True):
            buffer.copy_(result)
        work.commit(results)

    return Recording(run=run, results=results, replays=True)


def with_stand_in(target: str) -> Target:
    """The row of a target that runs on the stand-in too."""
    row = TARGETS[target]
    engines = {**row.engines, NAME: f"{__name__}:StandIn"}
    return dataclasses.replace(row, engines=engines)
