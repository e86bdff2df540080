"""Which weights of a module its outputs are made of: not those of a critic beside the actor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch

from roadworthy.errors import RoadworthyError
from roadworthy.spec.run import Arrays
from roadworthy.spec.sampling import Sampling
from roadworthy.spec.signature import Signature

if TYPE_CHECKING:
    from roadworthy.verification.originals.module import ModuleOriginal

# Of choices NaN leaves one: among so many rows the others are seen.
ROWS = 8


def acting_weights(
    original: ModuleOriginal, signature: Signature, weights: Mapping[str, torch.Tensor]
) -> Iterator[str]:
    """The names of weights that change an output when they become NaN; in export mode."""
    rows = original.rows or signature.fixed_rows or ROWS
    drawn = original.draw(
        signature, np.random.default_rng(0), steps=1, rows=rows, sampling=Sampling()
    )
    inputs = {name: value[0] for name, value in drawn.items()}
    usual = _outputs(original, signature, rows, inputs)
    for name, value in weights.items():
        kept = value.detach().clone()
        with torch.no_grad():
            value.fill_(float("nan"))
        try:
            changed = _outputs(original, signature, rows, inputs)
            acts = any(not np.array_equal(changed[port], usual[port]) for port in usual)
        except RoadworthyError:  # a distribution that refuses NaN has read it
            acts = True
        finally:
            with torch.no_grad():
                value.copy_(kept)
        if acts:
            yield name


def _outputs(
    original: ModuleOriginal, signature: Signature, rows: int, inputs: Arrays
) -> Mapping[str, np.ndarray]:
    from roadworthy.verification.originals.module import module_steps

    return module_steps(original.source, signature, rows).step(inputs)
