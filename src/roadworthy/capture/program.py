"""A Program: a signature and the captured graph that fulfils it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from roadworthy.errors import Finding
from roadworthy.spec.sampling import Sampling
from roadworthy.spec.signature import Signature

if TYPE_CHECKING:
    import torch


def source_name(thing: object) -> str:
    """Package and class of a source, as manifests say it.

    A class of ours says `recorded_in`: it keeps its first name when its file moves.
    """
    kind = type(thing)
    return f"{getattr(kind, 'recorded_in', kind.__module__)}.{kind.__qualname__}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Program:
    """What every backend lowers.

    The graph takes the inputs and then the memory, in the order of the signature, and returns
    the outputs and then the memory. `recipe` says how the graph was composed around the
    caller's module, so that the module can be compared with the artifact later. `substep` is the
    graph for the ticks between two decisions, where the signature has a clock. `fixes` says what
    was changed on the way from the caller's module to the graph. `sampling` says which values of
    the inputs are worth trying.
    """

    signature: Signature
    graph: torch.export.ExportedProgram
    recipe: dict[str, Any]
    source_name: str
    substep: torch.export.ExportedProgram | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    fixes: tuple[Finding, ...] = ()
    sampling: Sampling = field(default_factory=Sampling)
