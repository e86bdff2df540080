"""A file that decides at once on a controller whose step count is one at the first tick.

Exploy's controller counts before it asks, so a file that decides at every multiple of the
decimation decides for the first time `decimation` ticks after a reset, and applies until then what
its memory begins with. Here the file counts from one as well.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from roadworthy.environment.source import CLOCK
from roadworthy.errors import ExportError
from roadworthy.runtime.engine import OnnxEngine
from roadworthy.spec.bundle import SIGNATURE_KEY
from roadworthy.spec.port import Array
from roadworthy.spec.signature import Signature

# Not the key that `rw.load` looks for: it counts from zero, and the file must not be run by it.
SHIFTED_KEY = "roadworthy_counted_from"
FIRST_KEY = "first_step_count"


def counted_from(first: int, path: Path, signature: Signature) -> None:
    """Changes the file: it decides where the step count is `first`, and each decimation later."""
    model = onnx.load(path)
    before = model.SerializeToString(deterministic=True)
    (rest,) = [node for node in model.graph.node if CLOCK in node.input]
    shift = onnx.helper.make_node("Sub", [CLOCK, "first_count"], ["ticks"], name="ticks")
    rest.input[list(rest.input).index(CLOCK)] = "ticks"
    model.graph.node.insert(0, shift)
    model.graph.initializer.append(
        onnx.numpy_helper.from_array(np.asarray(first, np.int32), "first_count")
    )
    for entry in model.metadata_props:
        if entry.key == SIGNATURE_KEY:
            entry.key = SHIFTED_KEY
    said = model.metadata_props.add()
    said.key, said.value = FIRST_KEY, str(first)
    after = model.SerializeToString(deterministic=True)
    _refuse_other_answers(before, after, first, signature)
    path.write_bytes(after)


def _refuse_other_answers(before: bytes, after: bytes, first: int, signature: Signature) -> None:
    """The certificate is that of `before`: at every tick `after` must give the very same bits."""
    rng = np.random.default_rng(0)
    plain, shifted = OnnxEngine(before).session, OnnxEngine(after).session
    feeds: dict[str, Array] = {
        port.name: rng.standard_normal([int(d) for d in port.shape]).astype(port.dtype)
        for port in signature.inputs
    }
    feeds |= {each.input: each.fresh(1) for each in signature.memory}
    for tick in range(2 * signature.decimation + 1):
        one = plain.run(None, feeds | {CLOCK: np.asarray(tick, np.int32)})
        other = shifted.run(None, feeds | {CLOCK: np.asarray(tick + first, np.int32)})
        if any(a.tobytes() != b.tobytes() for a, b in zip(one, other, strict=True)):
            raise ExportError(
                f"the file that counts from {first} gives something else at tick {tick}",
                code="RW190",
                hint="this is a mistake of Roadworthy's: please report it with the environment",
            )
