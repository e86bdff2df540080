"""`export`: source → Program → Bundle, certified before anyone can see it."""

from __future__ import annotations

import dataclasses
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy import backends
from roadworthy.backends import Backend
from roadworthy.backends.onnx import OnnxBackend
from roadworthy.capture.capture import capture
from roadworthy.capture.record import ModuleSubject, Subject, record
from roadworthy.capture.source import Source
from roadworthy.errors import ExportError, UsageError
from roadworthy.program import Program
from roadworthy.spec import bundle as bundles
from roadworthy.spec import sealing
from roadworthy.spec.bundle import Bundle
from roadworthy.spec.trace import Trace
from roadworthy.spec.transforms import ActionStep
from roadworthy.verification.certificate import Certificate
from roadworthy.verification.verify import examine

_STAGES = {
    "onnx": "writing ONNX",
    "torch_export": "writing torch.export",
    "aoti": "compiling with g++ (takes tens of seconds)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """How the artifact is written: nothing here changes what the policy does."""

    targets: Sequence[str] = ("onnx",)
    opset: int = 20
    ir_version: int = 10
    seed: int = 0
    allow_uncertified: bool = False
    progress: Callable[[str], None] | None = None

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise UsageError(f"seed must be 0 or more, got {self.seed}")
        # Each once, in the order of the registry: the order in which they are said means nothing.
        wanted = (self.targets,) if isinstance(self.targets, str) else tuple(self.targets)
        for name in wanted:
            backends.refuse_unknown(name)
        if not wanted:
            raise UsageError("no target", hint=f"targets=[{backends.names()[0]!r}]")
        object.__setattr__(
            self, "targets", tuple(name for name in backends.names() if name in wanted)
        )

    def backend(self, target: str) -> Backend:
        """The backend of a target, set as the options say."""
        if target == "onnx":
            return OnnxBackend(opset=self.opset, ir_version=self.ir_version)
        return backends.get(target)()


def export(
    source: Any,
    folder: str | os.PathLike[str],
    *,
    example: Any = None,
    memory: Mapping[str, Any] | None = None,
    normalizer: Any = None,
    outputs: Sequence[str | None] | None = None,
    action: ActionStep | Sequence[ActionStep] = (),
    targets: Sequence[str] | None = None,
    options: ExportOptions | None = None,
) -> Bundle:
    """The certified bundle in `folder`, made from a module (or a `Source`, which says more).

    Nothing is left behind unless the artifact passed every check against the live module, or
    `options.allow_uncertified` waives that; the waiver is recorded in the manifest. `targets`
    are the forms that it takes: onnx, torch_export, aoti.
    """
    options = with_targets(options, targets)
    sealing.refuse_foreign(Path(folder))
    if isinstance(source, Source):
        if example is not None or memory or normalizer or outputs or action:
            raise UsageError("a Source already says this", hint="put every option into the Source")
        return export_source(source, folder, options)
    if example is None:
        raise UsageError(
            "an export needs an example of every input",
            hint="example={'obs': torch.zeros(1, 48)}, batch axis first",
        )
    described = Source(
        source,
        example=example,
        memory=memory or {},
        normalizer=normalizer,
        outputs=outputs,
        action=action,
    )
    return export_source(described, folder, options)


def with_targets(options: ExportOptions | None, targets: Sequence[str] | None) -> ExportOptions:
    """The options, for the given targets if there are any."""
    options = options or ExportOptions()
    return dataclasses.replace(options, targets=targets) if targets is not None else options


def export_source(source: Source, folder: str | os.PathLike[str], options: ExportOptions) -> Bundle:
    """The certified bundle of a source."""
    say = options.progress or (lambda stage: None)
    say("capturing the module")
    return write_bundle(capture(source), ModuleSubject(source), folder, options)


def write_bundle(
    program: Program,
    subject: Subject,
    folder: str | os.PathLike[str],
    options: ExportOptions,
) -> Bundle:
    """The certified bundle of a program, compared with what it was captured from."""
    say = options.progress or (lambda stage: None)
    target = Path(folder)
    lowering = {name: options.backend(name) for name in options.targets}
    with sealing.new_bundle(target) as partial:
        files = {}
        for name, backend in lowering.items():
            say(_STAGES[name])
            files[name] = backend.lower(program, partial)[0].name
        say("recording the original")
        trace = record(subject, program.signature, seed=options.seed)
        _refuse_never_finite(trace)
        (partial / bundles.TRACE).write_bytes(trace.to_bytes())
        described = manifest(program, files, options)
        sealing.write_json(partial / bundles.MANIFEST, described)
        certificate = _certify(partial, subject, options)
        if not certificate.passed:
            if not options.allow_uncertified:
                certificate.raise_if_failed()
            waived = described | {"waivers": ["uncertified"]}
            sealing.write_json(partial / bundles.MANIFEST, waived)
        sealing.write_json(partial / bundles.CERTIFICATE, certificate.to_json())
    return Bundle.open(target)


def _refuse_never_finite(trace: Trace) -> None:
    """NaN equals NaN, so a policy that diverged in training would pass every comparison."""
    broken = [
        name
        for name, values in trace.outputs.items()
        if values.dtype.kind == "f" and not np.isfinite(values).any()
    ]
    if broken:
        raise ExportError(
            f"the original never gives a finite value for {', '.join(broken)}",
            code="RW115",
            hint="look at the weights: a training that diverged leaves NaN",
        )


def manifest(program: Program, files: Mapping[str, str], options: ExportOptions) -> dict[str, Any]:
    """Everything about the bundle that is not weights: no clock, no path."""
    onnx = {"opset": options.opset, "ir_version": options.ir_version} if "onnx" in files else {}
    return {
        "format": bundles.FORMAT,
        "version": bundles.VERSION,
        "signature": program.signature.to_json(),
        "recipe": program.recipe,
        "targets": dict(files),
        **onnx,
        "waivers": [],
        "provenance": {
            "source": program.source_name,
            "python": platform.python_version(),
            **{name: version(name) for name in ("roadworthy", "torch", "onnx", "onnxruntime")},
        },
    }


def _certify(partial: Path, subject: Subject, options: ExportOptions) -> Certificate:
    """The certificate of the very bytes that are about to be published."""
    unsealed = sealing.unsealed(partial)
    return examine(
        unsealed, against=subject, seed=options.seed, progress=options.progress, trust=True
    )
