"""`emit`: the files of a layout beside a bundle, written only if they act as the policy does.

They do not go into the bundle. A bundle is what was certified, and nothing else: adding to it would
change its sums, and whoever has it already would hold another one. What is emitted can be made
again at any time, has sums of its own, and names the bundle that it came from.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from roadworthy.deploy import emit as layouts
from roadworthy.deploy.emit.emission import CODE, Emission
from roadworthy.errors import BundleError, ExportError, need
from roadworthy.errors.unforeseen import answers
from roadworthy.runtime.load import load
from roadworthy.runtime.telemetry import silent_onnxruntime
from roadworthy.spec import sealing
from roadworthy.spec.bundle import SUMS, Bundle
from roadworthy.spec.port import Array
from roadworthy.spec.tolerance import RENAMED

# Recorded steps that both are given, from the first on.
STEPS = 32


@answers
def emit(
    path: str | os.PathLike[str], layout: str, folder: str | os.PathLike[str] | None = None
) -> Path:
    """The folder with the files that another runtime reads; left out, it is PATH.LAYOUT.

    `layout` is one of unitree, mjlab, exploy, mlagents and godot. The bundle stays as it is.
    """
    row = layouts.get(layout)
    need("onnx", extra="export")
    bundle = Bundle.open(path)
    emission = row.load()(bundle)
    _refuse_other_actions(bundle, emission, layout)
    beside = bundle.folder.resolve()
    place = Path(folder) if folder is not None else beside.with_name(f"{beside.name}.{layout}")
    _write(place, emission, layout)
    return place


def _refuse_other_actions(bundle: Bundle, emission: Emission, layout: str) -> None:
    """An error if the new file does not give the very outputs of the policy."""
    policy = load(bundle.folder)
    session = silent_onnxruntime().InferenceSession(
        emission.files[emission.model], providers=["CPUExecutionProvider"]
    )
    shapes = {p.name: p.shape for p in session.get_inputs()}
    names = [port.name for port in session.get_outputs()]
    trace = bundle.trace
    memory: dict[str, Array] = {
        name: emission.begins.get(name, _zeros(shapes.get(name, ())))
        for name in emission.memory.values()
    }
    for step in range(min(STEPS * emission.every, trace.steps)):
        inputs = {name: values[step][:1] for name, values in trace.inputs.items()}
        expected = policy.step(inputs)
        if step % emission.every:
            continue
        feeds = emission.feeds({**inputs, **expected}) | memory
        if emission.clock is not None:
            count, first = emission.clock
            feeds[count] = np.asarray(first + step, np.int32)
        found = dict(zip(names, session.run(None, feeds), strict=True))
        memory = {into: found[out] for out, into in emission.memory.items()}
        for name, got in emission.given(found).items():
            if not np.allclose(got, expected[name], RENAMED.rtol, RENAMED.atol, equal_nan=True):
                raise ExportError(
                    f"the file for {layout} gives {name} {np.ravel(got)[:4]} at step {step}, the "
                    f"policy {np.ravel(expected[name])[:4]}",
                    code=CODE,
                    where=layout,
                    hint="this is a mistake of Roadworthy's: please report it with the bundle",
                )


def _zeros(shape: Sequence[int | str]) -> Array:
    """Memory of one row as most runtimes begin: an open size is the row."""
    return np.zeros([each if isinstance(each, int) else 1 for each in shape], np.float32)


def _write(place: Path, emission: Emission, layout: str) -> None:
    known = {*emission.files, SUMS}
    found = {p.relative_to(place).as_posix() for p in place.rglob("*") if not p.is_dir()}
    here = Path.cwd()
    if place.is_file() or found - known or place.resolve() in (here, *here.parents):
        raise BundleError(
            f"{place} holds something else, which would be lost",
            hint=f"choose another folder: roadworthy emit … {layout} -o FOLDER",
        )
    with sealing.new_folder(place) as partial:
        for name, data in emission.files.items():
            (partial / name).parent.mkdir(parents=True, exist_ok=True)
            (partial / name).write_bytes(data)
