"""`export`: source → Program → Bundle, certified before anyone can see it."""

from __future__ import annotations

import dataclasses
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy import adapters, backends
from roadworthy import targets as target_table
from roadworthy.backends import Backend, Settings
from roadworthy.backends.custom import decomposed, named, refuse_bad_tables
from roadworthy.capture.capture import capture
from roadworthy.capture.record import ModuleSubject, Subject, record
from roadworthy.capture.source import Source
from roadworthy.doctor.opinion import refuse_forgotten_normalizer, second_opinion
from roadworthy.errors import CertificateFailed, ExportError, UsageError
from roadworthy.program import Program
from roadworthy.spec import bundle as bundles
from roadworthy.spec import sealing
from roadworthy.spec.bundle import Bundle
from roadworthy.spec.trace import Trace
from roadworthy.spec.transforms import ActionStep
from roadworthy.verification.certificate import Certificate
from roadworthy.verification.examine import examine


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """How the artifact is written: nothing here changes what the policy does.

    translations    operator → a function in onnxscript that writes it as ONNX
    decompositions  operator → a function in torch operators that computes the same
    fix             repair what is safe to repair, in a copy of the module
    """

    targets: Sequence[str] = ("onnx",)
    opset: int = 20
    ir_version: int = 10
    seed: int = 0
    allow_uncertified: bool = False
    progress: Callable[[str], None] | None = None
    translations: Mapping[Any, Callable[..., Any]] = field(default_factory=dict)
    decompositions: Mapping[Any, Callable[..., Any]] = field(default_factory=dict)
    fix: bool = False

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise UsageError(f"seed must be 0 or more, got {self.seed}")
        refuse_bad_tables(self.translations, self.decompositions)
        # Each once, in the order of the registry: the order in which they are said means nothing.
        wanted = (self.targets,) if isinstance(self.targets, str) else tuple(self.targets)
        for name in wanted:
            target_table.get(name)
        if not wanted:
            raise UsageError("no target", hint=f"targets=[{target_table.DEFAULT!r}]")
        object.__setattr__(
            self, "targets", tuple(name for name in target_table.names() if name in wanted)
        )

    @property
    def settings(self) -> Settings:
        """What of this concerns the backends."""
        return Settings(
            opset=self.opset, ir_version=self.ir_version, translations=self.translations
        )

    def backend(self, target: str) -> Backend:
        """The backend of a target, set as the options say."""
        return backends.get(target).configured(self.settings)


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
    translations: Mapping[Any, Callable[..., Any]] | None = None,
    decompositions: Mapping[Any, Callable[..., Any]] | None = None,
    fix: bool = False,
    **framework: Any,
) -> Bundle:
    """The certified bundle in `folder`, made from a module (or a `Source`, which says more).

    Policies of a known framework bring their own keywords (`exploration=` for TorchRL). `targets`
    are the forms that it takes, as `roadworthy.targets` lists them. Nothing is left behind unless
    each passed every check against the live module, or `options.allow_uncertified` waives that;
    the waiver is recorded in the manifest.
    `translations` and `decompositions` say how to write an operator that ONNX does not have; the
    certificate covers what they write. `fix` repairs what is safe to repair, in a copy; each repair
    is listed in the manifest, and the certificate compares with the module as it was.
    """
    options = with_targets(options, targets)
    if translations is not None:
        options = replace(options, translations=translations)
    if decompositions is not None:
        options = replace(options, decompositions=decompositions)
    if fix:
        options = replace(options, fix=True)
    sealing.refuse_foreign(Path(folder))
    given = {
        "example": example, "memory": memory, "normalizer": normalizer,
        "outputs": outputs, "action": action,
    }  # fmt: skip
    return export_source(described(source, given, framework), folder, options)


def described(source: Any, given: Mapping[str, Any], framework: Mapping[str, Any]) -> Source:
    """What is to be exported, as a `Source`: by its framework's adapter, or as a plain module."""
    if isinstance(source, Source):
        if framework or any(value is not None and value != () for value in given.values()):
            raise UsageError("a Source already says this", hint="put every option into the Source")
        return source
    describe = adapters.describer(source) or _plain
    adapters.refuse_unknown(source, describe, framework, given)
    return describe(source, **given, **framework)


def captured(source: Source, options: ExportOptions) -> tuple[Program, Source]:
    """The program, and the source that it is compared with; repaired where that is asked for."""
    if not options.fix:
        return capture(source), source
    from roadworthy.doctor.fixes import captured_with_fixes  # only where repairs are asked for

    return captured_with_fixes(source, seed=options.seed)


def _plain(
    module: Any, *, example: Any, memory: Any, normalizer: Any, outputs: Any, action: Any
) -> Source:
    """The source of a module that belongs to no framework."""
    if example is None:
        raise UsageError(
            "an export needs an example of every input",
            hint="example={'obs': torch.zeros(1, 48)}, batch axis first",
        )
    return Source(
        module,
        example=example,
        memory=memory or {},
        normalizer=normalizer,
        outputs=outputs,
        action=action,
    )


def with_targets(options: ExportOptions | None, targets: Sequence[str] | None) -> ExportOptions:
    """The options, for the given targets if there are any."""
    options = options or ExportOptions()
    return dataclasses.replace(options, targets=targets) if targets is not None else options


def export_source(source: Source, folder: str | os.PathLike[str], options: ExportOptions) -> Bundle:
    """The certified bundle of a source."""
    say = options.progress or (lambda stage: None)
    refuse_forgotten_normalizer(source)
    say("capturing the module")
    try:
        program, original = captured(source, options)
        for note in program.fixes:
            say(f"fixed {note.where}: {note.what}")
        return write_bundle(program, ModuleSubject(original), folder, options)
    except (ExportError, CertificateFailed) as error:
        second_opinion(error, source)
        if isinstance(error, CertificateFailed) and source.rewritten:
            caveats = source.rewritten.caveats
            raise CertificateFailed(findings=[*error.findings, *caveats]) from error
        raise


def write_bundle(
    program: Program,
    subject: Subject,
    folder: str | os.PathLike[str],
    options: ExportOptions,
) -> Bundle:
    """The certified bundle of a program, compared with what it was captured from."""
    say = options.progress or (lambda stage: None)
    target = Path(folder)
    program = decomposed(program, options.decompositions)
    lowering = {name: options.backend(name) for name in options.targets}
    with sealing.new_bundle(target) as partial:
        files = {}
        for name, backend in lowering.items():
            say(target_table.get(name).stage)
            written = backend.lower(program, partial)
            files[name] = [path.relative_to(partial).as_posix() for path in written]
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


def manifest(
    program: Program, files: Mapping[str, Sequence[str]], options: ExportOptions
) -> dict[str, Any]:
    """Everything about the bundle that is not weights: no clock, no path."""
    onnx = {"opset": options.opset, "ir_version": options.ir_version} if "onnx" in files else {}
    return {
        "format": bundles.FORMAT,
        "version": bundles.VERSION,
        "signature": program.signature.to_json(),
        "recipe": program.recipe,
        "targets": {name: list(written) for name, written in files.items()},
        **onnx,
        "waivers": [],
        "fixes": [asdict(fix) for fix in program.fixes],
        "translations": named(options.translations),
        "decompositions": named(options.decompositions),
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
