"""`emit`: the files of a layout beside a bundle, written only if they act as the policy does.

They do not go into the bundle. A bundle is what was certified, and nothing else: adding to it would
change its sums, and whoever has it already would hold another one. What is emitted can be made
again at any time, has sums of its own, and names the bundle that it came from.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from roadworthy import emitting as layouts
from roadworthy.border import answers
from roadworthy.emitting.emission import CODE, Emission
from roadworthy.errors import BundleError, ExportError, need
from roadworthy.runtime.load import load
from roadworthy.runtime.telemetry import silent_onnxruntime
from roadworthy.spec import sealing
from roadworthy.spec.bundle import SUMS, TRACE, Bundle
from roadworthy.spec.trace import Trace

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
    """An error if the new file does not give the very actions of the policy."""
    if emission.feeds is None or emission.action is None:
        return
    policy = load(bundle.folder)
    session = silent_onnxruntime().InferenceSession(
        emission.files[emission.model], providers=["CPUExecutionProvider"]
    )
    shapes = {port.name: port.shape for port in session.get_inputs()}
    names = [port.name for port in session.get_outputs()]
    trace = Trace.from_bytes(bundle.files[TRACE])
    memory = {
        name: np.zeros([1, *shapes[name][1:]], np.float32) for name in emission.memory.values()
    }
    output = bundle.signature.action_output
    for step in range(min(STEPS, trace.steps)):
        inputs = {name: values[step][:1] for name, values in trace.inputs.items()}
        expected = policy.step(inputs)[output]
        given = dict(zip(names, session.run(None, emission.feeds(inputs) | memory), strict=True))
        memory = {into: given[out] for out, into in emission.memory.items()}
        got = emission.action(given)
        if not np.allclose(got, expected, rtol=1e-6, atol=1e-7, equal_nan=True):
            raise ExportError(
                f"the file for {layout} gives {got.ravel()[:4]} at step {step}, the policy "
                f"{np.ravel(expected)[:4]}",
                code=CODE,
                where=layout,
                hint="this is a mistake of Roadworthy's: please report it with the bundle",
            )


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
