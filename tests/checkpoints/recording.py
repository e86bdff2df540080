"""A checkpoint, and what the framework that wrote it answered: what every reading is compared with.

Observations are kept as small whole numbers, a sixteenth each, so that a recording of a thousand
takes a few kilobytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, Any]
STEP = 1 / 16
ROWS, STEPS, BATCH = 1000, 200, 5
CASE, RECORDED = "case.json", "recorded.npz"


@dataclass(frozen=True, kw_only=True)
class Written:
    """A checkpoint to be written by its framework.

    save    writes it, and its neighbours, into a folder, and returns its name
    act     the framework's deterministic answer to one batch; keeps its hidden state
    shapes  input port → the shape of one row
    assume  the answers to what the file does not say
    pixels  the input ports that take bytes, from 0 to 255
    value   the critic's value of the last batch, where the file holds the critic
    """

    name: str
    save: Callable[[Path], str]
    act: Callable[[Arrays], Any]
    shapes: Mapping[str, tuple[int, ...]]
    assume: Mapping[str, object] = field(default_factory=dict)
    recurrent: bool = False
    rows: int = ROWS
    pixels: tuple[str, ...] = ()
    value: Callable[[], Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Recording:
    """A checkpoint on disk; `inputs` and `actions` have an axis for the steps."""

    name: str
    checkpoint: Path
    assume: Mapping[str, object]
    inputs: Arrays
    actions: Any
    values: Any = None


def record(case: Written, folder: Path, seed: int = 0) -> Recording:
    """Lets the framework write the checkpoint, and answer; all of it is kept in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint = case.save(folder)
    rng = np.random.default_rng(seed)
    steps, rows = (STEPS, BATCH) if case.recurrent else (1, case.rows)
    small = {
        name: drawn(rng, (steps, rows, *shape), pixels=name in case.pixels)
        for name, shape in case.shapes.items()
    }
    answers = []
    for step in range(steps):
        acted = np.asarray(case.act({n: as_values(a[step]) for n, a in small.items()}))
        answers.append((acted, case.value() if case.value else np.zeros(0)))
    actions = np.stack([acted for acted, _ in answers])
    if case.value:
        small["values"] = np.stack([value for _, value in answers])
    told = {"checkpoint": checkpoint, "assume": dict(case.assume)}
    (folder / CASE).write_text(json.dumps(told, indent=1) + "\n")
    np.savez_compressed(folder / RECORDED, actions=actions, **small)
    return recording(folder)


def recording(folder: Path) -> Recording:
    """What was recorded in a folder."""
    told = json.loads((folder / CASE).read_text())
    with np.load(folder / RECORDED) as arrays:
        answered = ("actions", "values")
        inputs = {name: as_values(arrays[name]) for name in arrays.files if name not in answered}
        return Recording(
            name=folder.name,
            checkpoint=folder / told["checkpoint"],
            assume=told["assume"],
            inputs=inputs,
            actions=arrays["actions"],
            values=arrays["values"] if "values" in arrays.files else None,
        )


def drawn(rng: np.random.Generator, shape: tuple[int, ...], *, pixels: bool) -> Any:
    """Observations as they are kept: bytes of an image, or sixteenths."""
    if len(shape) == 5:
        # Noise at another place in every row: a kept file packs what it has seen before.
        steps, rows, *row = shape
        low, high, kind = (0, 256, np.uint8) if pixels else (-40, 41, np.int8)
        noise = rng.integers(low, high, int(np.prod(row)), dtype=kind)
        moved = [np.roll(noise, by) for by in rng.integers(0, len(noise), steps * rows)]
        return np.stack(moved).reshape(shape)
    return np.clip(np.round(rng.normal(0, 20, shape)), -127, 127).astype(np.int8)


def as_values(small: Any) -> Any:
    return small if small.dtype == np.uint8 else (small * STEP).astype(np.float32)
