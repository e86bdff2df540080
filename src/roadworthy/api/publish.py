"""Program → Bundle: written, recorded, certified, and published only if it passed."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

import roadworthy
from roadworthy.api.options import ExportPlan
from roadworthy.capture.devices import new_tensors_are_here
from roadworthy.capture.program import Program
from roadworthy.capture.versions import installed
from roadworthy.errors import CertificateFailed, ExportError
from roadworthy.runtime.canary import remember
from roadworthy.spec import bundle as bundles
from roadworthy.spec import sealing
from roadworthy.spec import targets as target_table
from roadworthy.spec.bundle import Bundle
from roadworthy.spec.certificate import Certificate
from roadworthy.spec.trace import Trace
from roadworthy.targets.backend import Backend, WritesTrace
from roadworthy.targets.custom import decomposed, named
from roadworthy.targets.onnx.notes import differences, has_sigmoids
from roadworthy.verification.allowance import with_allowance
from roadworthy.verification.examine import examine
from roadworthy.verification.originals.original import Original


def write_bundle(
    program: Program, original: Original, folder: str | os.PathLike[str], plan: ExportPlan
) -> Bundle:
    """The certified bundle of a program, compared with what it was captured from."""
    target = Path(folder)
    program = decomposed(program, plan.decompositions)
    backends = plan.backends()
    with sealing.new_bundle(target) as partial:
        files = _lowered(program, backends, plan, partial)
        program, trace = _recorded(program, original, plan)
        (partial / bundles.TRACE).write_bytes(trace.to_bytes())
        _add_trace(backends, trace, partial)
        described = manifest(program, files, plan)
        sealing.write_json(partial / bundles.MANIFEST, described)
        certificate = _certify(partial, original, plan)
        if not certificate.passed and "onnx" in files and has_sigmoids(program):
            certificate, plan = _with_whole_sigmoids(
                program, original, plan, partial, trace, certificate
            )
        if "onnx" in files:
            notes = differences(program, plan.translations, whole_sigmoids=plan.whole_sigmoids)
            certificate = replace(certificate, findings=(*certificate.findings, *notes))
        if not certificate.passed:
            if not plan.allow_uncertified:
                _raise_failed(certificate, original)
            waived = described | {"waivers": ["uncertified"]}
            sealing.write_json(partial / bundles.MANIFEST, waived)
        sealing.write_json(partial / bundles.CERTIFICATE, certificate.to_json())
    bundle = Bundle.open(target)
    for name in bundle.targets:
        if not target_table.get(name).code:  # it was loaded and stepped here: it need not be tried
            remember(bundle.files_of(name).values())
    return bundle


def _lowered(
    program: Program, backends: Mapping[str, Backend], plan: ExportPlan, partial: Path
) -> dict[str, list[str]]:
    """The files of each target, as they are named in the bundle."""
    files = {}
    for name, backend in backends.items():
        plan.say(target_table.get(name).stage)
        with new_tensors_are_here():
            written = backend.lower(program, partial)
        files[name] = [path.relative_to(partial).as_posix() for path in written]
    return files


def _recorded(program: Program, original: Original, plan: ExportPlan) -> tuple[Program, Trace]:
    """The golden steps of the original with what each may be off, and what was tried for them."""
    plan.say("recording the original")
    program = replace(program, sampling=original.tried(program.signature, program.sampling))
    trace = original.record(program.signature, seed=plan.seed, sampling=program.sampling)
    _refuse_never_finite(trace)
    yardstick = original.yardstick(program.signature)
    return program, with_allowance(trace, yardstick, program.signature, plan.seed)


def _add_trace(backends: Mapping[str, Backend], trace: Trace, partial: Path) -> None:
    for backend in backends.values():
        if isinstance(backend, WritesTrace):
            backend.add_trace(trace, partial)


def _certify(partial: Path, original: Original, plan: ExportPlan) -> Certificate:
    """The certificate of the very bytes that are about to be published."""
    return examine(
        sealing.unsealed(partial), original=original, seed=plan.seed, progress=plan.say,
        trust=True, canary=False,
    )  # fmt: skip


def _with_whole_sigmoids(
    program: Program,
    original: Original,
    plan: ExportPlan,
    partial: Path,
    trace: Trace,
    refused: Certificate,
) -> tuple[Certificate, ExportPlan]:
    """The certificate and the plan of files whose sigmoids have a tail, or those there were.

    A gate that is nearly closed, times a large value, shows what onnxruntime's own lacks.
    """
    again = replace(plan, whole_sigmoids=True)
    for tried in (again, plan):
        backends = tried.backends()
        _lowered(program, backends, tried, partial)
        _add_trace(backends, trace, partial)
        if tried is plan:
            break
        certificate = _certify(partial, original, plan)
        if certificate.passed:
            return certificate, again
    return refused, plan


def _raise_failed(certificate: Certificate, original: Original) -> None:
    try:
        certificate.raise_if_failed()
    except CertificateFailed as error:
        error.replace_findings([*error.findings, *original.caveats()])
        raise


def _refuse_never_finite(trace: Trace) -> None:
    """NaN equals NaN, so a policy that diverged in training would pass every comparison."""
    broken = [
        name
        for name, values in trace.outputs.items()
        if values.dtype.kind == "f" and not np.isfinite(values).any()
    ]
    if broken:
        raise ExportError(
            f"the original gives only NaN or infinity for {', '.join(broken)}",
            code="RW115",
            hint="look at the weights, and export an earlier checkpoint: a training that diverged "
            "leaves NaN",
        )


def manifest(
    program: Program, files: Mapping[str, Sequence[str]], plan: ExportPlan
) -> dict[str, Any]:
    """Everything about the bundle that is not weights: no clock, no path."""
    onnx = {"opset": plan.opset, "ir_version": plan.ir_version} if "onnx" in files else {}
    return {
        "format": bundles.FORMAT,
        "version": bundles.VERSION,
        "signature": program.signature.to_json(),
        "recipe": program.recipe,
        "sampling": program.sampling.to_json(),
        "targets": {name: list(written) for name, written in files.items()},
        **onnx,
        "waivers": [],
        "fixes": [asdict(fix) for fix in program.fixes],
        "translations": named(plan.translations),
        "decompositions": named(plan.decompositions),
        "provenance": {
            "source": program.source_name,
            "python": platform.python_version(),
            "roadworthy": roadworthy.__version__,
            **{name: installed(name) for name in ("torch", "onnx", "onnxruntime")},
        },
    }
