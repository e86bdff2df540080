"""An environment as the one file that Exploy's controller reads."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch

from roadworthy.api.options import ExportPlan
from roadworthy.api.publish import write_bundle
from roadworthy.capture.program import Program
from roadworthy.compat.exploy.contract import unmet
from roadworthy.compat.exploy.first_decision import counted_from
from roadworthy.environment.capture import EnvironmentOriginal, capture_environment
from roadworthy.environment.exportable import ExportableEnvironment
from roadworthy.environment.source import EnvironmentSource
from roadworthy.errors import RoadworthyWarning
from roadworthy.spec.bundle import CERTIFICATE, POLICY
from roadworthy.spec.certificate import Certificate
from roadworthy.targets.backend import Settings
from roadworthy.targets.onnx.backend import OnnxBackend

# The release of Exploy whose file contract is met; its controller reads this key.
CONTRACT_VERSION = "0.1.0"


def export_environment_as_onnx(
    env: ExportableEnvironment,
    actor: torch.nn.Module,
    path: str | os.PathLike[str],
    filename: str = "policy.onnx",
    model_source: dict[str, Any] | None = None,
    verbose: bool = False,
    opset_version: int = 20,
    ir_version: int = 10,
    *,
    first_step_count: int = 0,
) -> Path:
    """The certified `.onnx` file in `path` that meets Exploy's contract; debug graphs beside it.

    Memory that does not begin with zeros has its beginning in the file. `first_step_count` is the
    step count of the first tick after a reset: 1 gives a file that decides at once on Exploy's
    controller, which counts before it asks.
    """
    folder = Path(path)
    captured = capture_environment(EnvironmentSource(env, actor), contract=True)
    plan = ExportPlan(
        opset=opset_version,
        ir_version=ir_version,
        progress=_say if verbose else None,
        memory_defaults=True,
    )
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".partial-") as scratch:
        program = _with_contract(captured.program, model_source or {})
        bundle = write_bundle(program, captured, Path(scratch) / "bundle", plan)
        _write_debug(captured, Path(scratch), Path(filename).stem, plan.settings)
        (folder / "debug").mkdir(exist_ok=True)
        for debug in Path(scratch).glob("*.onnx"):
            debug.replace(folder / "debug" / debug.name)
        if first_step_count:
            counted_from(first_step_count, bundle.folder / POLICY, program.signature)
        (bundle.folder / POLICY).replace(folder / filename)
    for finding in unmet(program):
        warnings.warn(str(finding), RoadworthyWarning, stacklevel=2)
    if verbose:
        _say(str(bundle.signature))
        _say(str(Certificate.from_bytes(bundle.files[CERTIFICATE])))
    return folder / filename


def _with_contract(program: Program, model_source: dict[str, Any]) -> Program:
    keys = {
        "model_source": json.dumps(model_source),
        "exploy_version": json.dumps(CONTRACT_VERSION),
    }
    return dataclasses.replace(program, metadata=keys | program.metadata)


def _write_debug(
    captured: EnvironmentOriginal, folder: Path, stem: str, settings: Settings
) -> None:
    """Each half of the policy step as a file of its own, to look at."""
    program = captured.program
    signature = dataclasses.replace(program.signature, clock=None, decimation=1)
    assert program.substep is not None
    for name, graph in (("default", program.graph), ("process_actions", program.substep)):
        backend = OnnxBackend(settings=settings, filename=f"{stem}_{name}.onnx")
        half = dataclasses.replace(program, signature=signature, graph=graph, substep=None)
        backend.lower(half, folder)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
