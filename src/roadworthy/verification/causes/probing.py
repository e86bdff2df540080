"""One element of the inputs moved at a time, in the original and in the artifact.

All elements rest on the same value, so that an exchange of two of them cannot be seen until one
moves: each element then leaves the same mark in both, wherever it has been put.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from roadworthy.spec.port import BATCH, Array, Port
from roadworthy.spec.run import Arrays, Steppable
from roadworthy.spec.tolerance import RESPONDS, SAME_MARK
from roadworthy.verification.causes.evidence import Evidence
from roadworthy.verification.causes.naming import element

# Larger observations are images, whose axes are tried instead.
MOST_ELEMENTS = 512
REST = (0.1, -0.4, 1.5, -2.0)
PUSH = 0.7


@dataclass(frozen=True, slots=True, eq=False)
class Marks:
    """The outputs with all elements at rest, and with each of them moved."""

    resting: Array
    moved: Array

    @property
    def responds(self) -> Array:
        """Which elements change any output."""
        with np.errstate(invalid="ignore"):
            changed: Array = np.abs(self.moved - self.resting) > RESPONDS
        return np.asarray(changed.any(axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class Probed:
    """The marks that each element of the inputs leaves on both sides."""

    places: list[tuple[str, int]]
    original: Marks
    artifact: Marks

    def name(self, evidence: Evidence, place: int) -> str:
        port, index = self.places[place]
        return element(evidence, port, index)

    def order(self) -> list[int] | None:
        """For each element the one that the artifact takes it for; None if there is no such."""
        own, other = self.original.moved, self.artifact.moved
        distance = np.abs(other[:, None] - own[None]).max(axis=2)
        scale = max(1.0, float(np.abs(own).max()))
        size = len(self.places)
        # Elements that leave the same mark stay where they are, if they can.
        distance[np.arange(size), np.arange(size)] -= SAME_MARK * scale / 10
        order = distance.argmin(axis=1).tolist()
        exact = all(distance[i, j] <= SAME_MARK * scale for i, j in enumerate(order))
        one_to_one = sorted(order) == list(range(size)) and order != list(range(size))
        return order if exact and one_to_one else None

    def permuted(self, evidence: Evidence, order: list[int]) -> Arrays:
        """The inputs, with each element where the artifact reads it."""
        inputs = dict(evidence.theirs.inputs)
        rows = {
            port: inputs[port].reshape(*inputs[port].shape[:2], -1).copy()
            for port in dict.fromkeys(name for name, _ in self.places)
        }
        source = {port: values.copy() for port, values in rows.items()}
        for place, other in enumerate(order):
            (port, index), (to, to_index) = self.places[place], self.places[other]
            rows[to][..., to_index] = source[port][..., index]
        return inputs | {port: v.reshape(inputs[port].shape) for port, v in rows.items()}

    def reversed_blocks(self, order: list[int]) -> int:
        """The number of equal blocks that `order` reverses; 0 where it does something else."""
        size = len(order)
        for blocks in range(2, size + 1):
            if size % blocks == 0:
                grid = np.arange(size).reshape(blocks, -1)
                if grid[::-1].ravel().tolist() == order:
                    return blocks
        return 0


def probe(evidence: Evidence) -> Probed | None:
    """The marks that all elements leave; None where there is no original, or too many of them."""
    signature = evidence.bundle.signature
    if evidence.original is None:
        return None
    dims = dict.fromkeys(signature.symbols, 4) | {BATCH: evidence.rows}
    places = [(port.name, i) for port in signature.inputs for i in range(_row_size(port, dims))]
    if len(places) > MOST_ELEMENTS:
        return None
    with evidence.open_original(evidence.rows) as live:
        own = _marks(live, evidence, places)
    other = _marks(evidence.new(), evidence, places)
    return Probed(places, own, other) if own.moved.shape == other.moved.shape else None


def _marks(steps: Steppable, evidence: Evidence, places: list[tuple[str, int]]) -> Marks:
    rests = [_resting(evidence, rest) for rest in REST]
    # What only matters to a policy that remembers something shows at its second step.
    before = rests[:1] if evidence.bundle.signature.memory else []
    resting = _outputs(steps, before, rests)
    moved = [
        _outputs(steps, before, [_pushed(evidence, rest, port, index) for rest in rests])
        for port, index in places
    ]
    return Marks(resting, np.stack(moved))


def _outputs(steps: Steppable, before: list[Arrays], cases: list[Arrays]) -> Array:
    """What a fresh policy gives in each case, as one vector; `before` are steps ahead of it."""
    found = []
    for inputs in cases:
        steps.reset()
        for each in before:
            steps.step(each)
        outputs = steps.step(inputs)
        found += [np.asarray(outputs[name], dtype=np.float64).ravel() for name in sorted(outputs)]
    return np.concatenate(found)


def _pushed(evidence: Evidence, rest: Arrays, port: str, index: int) -> Arrays:
    """The inputs with one element moved, in every row."""
    values = rest[port].copy()
    rows = values.reshape(evidence.rows, -1)
    if values.dtype.kind == "b":
        rows[:, index] = ~rows[:, index]
    elif values.dtype.kind == "f":
        rows[:, index] += PUSH
    else:
        rows[:, index] = np.where(rows[:, index] > 0, rows[:, index] - 1, rows[:, index] + 1)
    return rest | {port: values}


def _row_size(port: Port, dims: dict[str, int]) -> int:
    sizes = [size for dim, size in zip(port.shape, port.sizes(dims), strict=True) if dim != BATCH]
    return int(np.prod(sizes, dtype=np.int64))


def _resting(evidence: Evidence, rest: float) -> Arrays:
    """Floats at one value; masks, indices and flags as an ordinary step has them."""
    signature = evidence.bundle.signature
    return {
        port.name: np.full_like(evidence.theirs.inputs[port.name][0], rest)
        if port.dtype.startswith("float")
        else evidence.theirs.inputs[port.name][0]
        for port in signature.inputs
    }
