"""`export`: source → Program → Bundle, certified before anyone can see it."""

from __future__ import annotations

import os
import platform
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import roadworthy
from roadworthy import backends
from roadworthy import targets as target_table
from roadworthy.adapters import adapter_for
from roadworthy.backends import Backend, Settings, WritesTrace
from roadworthy.backends.custom import decomposed, named, refuse_bad_tables
from roadworthy.backends.differences import differences, has_sigmoids
from roadworthy.border import answers
from roadworthy.capture.devices import new_tensors_are_here
from roadworthy.capture.export_mode import collecting_rarely
from roadworthy.capture.versions import installed, refuse_broken, refuse_untested
from roadworthy.doctor.during_export import add_static_findings, refuse_forgotten_normalizer
from roadworthy.doctor.fixes import captured_in_its_ports, captured_with_fixes
from roadworthy.door import to_source
from roadworthy.environment.capture import capture_environment
from roadworthy.environment.source import EnvironmentSource, refuse_other_types
from roadworthy.errors import CertificateFailed, ExportError, RoadworthyWarning, UsageError
from roadworthy.originals.module import original_of
from roadworthy.originals.original import Original
from roadworthy.program import Program
from roadworthy.progress import Progress, Say, told
from roadworthy.runtime.canary import remember
from roadworthy.source import Source
from roadworthy.spec import bundle as bundles
from roadworthy.spec import sealing
from roadworthy.spec.bundle import Bundle
from roadworthy.spec.certificate import Certificate
from roadworthy.spec.completing import completed
from roadworthy.spec.port import About
from roadworthy.spec.robot_reading import Metadata, RobotMetadata, read_metadata
from roadworthy.spec.trace import Trace
from roadworthy.spec.transforms import ActionStep
from roadworthy.verification.allowance import with_allowance
from roadworthy.verification.examine import examine

if TYPE_CHECKING:
    from roadworthy.adapters import Described

Table = Mapping[Any, Callable[..., Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """How the artifact is written: nothing here changes what the policy does.

    opset, ir_version  of the ONNX file
    seed               of the recorded and compared steps
    allow_uncertified  keep a bundle that failed; the waiver is recorded in its manifest
    progress           called with each stage of the work, in words; False says nothing, and by
                       default long work shows its stage on a terminal or in a notebook
    """

    opset: int = 20
    ir_version: int = 10
    seed: int = 0
    allow_uncertified: bool = False
    progress: Progress = None

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise UsageError(f"seed must be 0 or more, got {self.seed}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportPlan:
    """All that was asked for: the targets, the user's own operators, repairs, and the options.

    `frame_skip` and `metadata` go into the signature beside the ports.
    `memory_defaults` and `whole_sigmoids` are as the backends' settings say
    """

    targets: Sequence[str] = (target_table.DEFAULT,)
    translations: Table = field(default_factory=dict)
    decompositions: Table = field(default_factory=dict)
    fix: bool = False
    frame_skip: int | None = None
    metadata: RobotMetadata | None = None
    options: ExportOptions = ExportOptions()
    memory_defaults: bool = False
    whole_sigmoids: bool = False

    def __post_init__(self) -> None:
        refuse_bad_tables(self.translations, self.decompositions)
        # Each once, in the order of the registry: the order in which they are said means nothing.
        wanted = (self.targets,) if isinstance(self.targets, str) else tuple(self.targets)
        for name in wanted:
            target_table.get(name)
        if not wanted:
            raise UsageError("targets is empty", hint=f"targets=[{target_table.DEFAULT!r}]")
        object.__setattr__(
            self, "targets", tuple(name for name in target_table.names() if name in wanted)
        )

    @property
    def settings(self) -> Settings:
        """What of this concerns the backends."""
        return Settings(
            opset=self.options.opset,
            ir_version=self.options.ir_version,
            translations=self.translations,
            memory_defaults=self.memory_defaults,
            whole_sigmoids=self.whole_sigmoids,
        )

    def completed(self, program: Program) -> Program:
        """The program, with what was said about frames and the robot in its signature."""
        steps = [step["kind"] for step in program.recipe.get("action", ())]
        signature = completed(
            program.signature, frame_skip=self.frame_skip, metadata=self.metadata, steps=steps
        )
        return replace(program, signature=signature)

    def say(self, stage: str) -> None:
        if callable(self.options.progress):
            self.options.progress(stage)

    def saying(self, say: Say) -> ExportPlan:
        """The plan that says its stages so."""
        return replace(self, options=replace(self.options, progress=say))

    def backend(self, target: str) -> Backend:
        """The backend of a target, set as the options say."""
        return backends.get(target).configured(self.settings)

    def backends(self) -> dict[str, Backend]:
        """The backend of every target."""
        return {name: self.backend(name) for name in self.targets}


@answers
def export(
    source: Any,
    folder: str | os.PathLike[str],
    *,
    example: Any = None,
    memory: Mapping[str, Any] | None = None,
    normalizer: Any = None,
    outputs: Sequence[str | None] | None = None,
    action: ActionStep | Sequence[ActionStep] = (),
    about: Mapping[str, About] | None = None,
    dynamic: Mapping[str, Mapping[int, str]] | None = None,
    batch: int | None = None,
    period_s: float | None = None,
    ignore: Sequence[str] | None = None,
    method: str | Callable[..., Any] | None = None,
    constants: Mapping[str, Any] | None = None,
    targets: Sequence[str] = (target_table.DEFAULT,),
    translations: Table | None = None,
    decompositions: Table | None = None,
    fix: bool = False,
    frame_skip: int | None = None,
    metadata: Metadata | None = None,
    progress: Progress = None,
    options: ExportOptions | None = None,
    **framework: Any,
) -> Bundle:
    """The certified bundle in `folder`, made from whatever `rw.to_source` understands.

    The keywords up to `constants` are those of `rw.Source`, which says what each means. Policies of
    a known framework bring their own (`exploration=` for TorchRL). `targets` are the forms that it
    takes, as `roadworthy.targets` lists them. Nothing is left behind unless each of them passed
    every check against the live original, or `options.allow_uncertified` waives that; the waiver
    is recorded in the manifest.

    `translations` and `decompositions` say how to write an operator that ONNX does not have; the
    certificate covers what they write. `fix` repairs what is safe to repair, in a copy; each repair
    is listed in the manifest, and the certificate compares with the module as it was. `progress`
    is that of `rw.ExportOptions`: `progress=False` says nothing.

    `metadata` is a YAML file or a mapping about the robot: joints, gains, action scale, period.
    `frame_skip` says for how many frames of its environment one action holds. Both travel in the
    signature.
    """
    _refuse_bare_options(framework)
    _refuse_no_folder(folder)
    options = options or ExportOptions()
    plan = ExportPlan(
        targets=targets, translations=translations or {}, decompositions=decompositions or {},
        fix=fix, options=options, frame_skip=frame_skip,
        metadata=None if metadata is None else read_metadata(metadata),
    )  # fmt: skip
    sealing.refuse_foreign(Path(folder))
    described = to_source(
        source, example=example, memory=memory, normalizer=normalizer, outputs=outputs,
        action=action, about=about, dynamic=dynamic, batch=batch, period_s=period_s,
        ignore=ignore, method=method, constants=constants, **framework,
    )  # fmt: skip
    with told(options.progress if progress is None else progress) as say:
        bundle = export_source(described, folder, plan.saying(say))
    certificate = Certificate.from_bytes(bundle.files[bundles.CERTIFICATE])
    for finding in certificate.findings:
        if finding.severity == "warning":
            warnings.warn(str(finding), RoadworthyWarning, stacklevel=3)  # beyond the border
    return bundle


@answers
def export_environment(
    env: Any,
    actor: Any,
    folder: str | os.PathLike[str],
    *,
    auto: bool = False,
    ignore: Sequence[str] | None = None,
    targets: Sequence[str] = (target_table.DEFAULT,),
    metadata: Metadata | None = None,
    progress: Progress = None,
    options: ExportOptions | None = None,
    **framework: Any,
) -> Bundle:
    """The certified bundle of a whole environment: raw state in, commands out.

    One `Policy.step` is one simulation tick; memory and the tick count are inside. `auto`
    registers what was forgotten instead of refusing. `ignore` names attributes that move and do
    not matter, and is recorded in the manifest. `targets` are the forms that it takes:
    onnx, torch_export, aoti. `metadata` is that of `rw.export`.
    """
    if adapter_for(env) is None:
        refuse_other_types(env)
    return export(
        env, folder, actor=actor, auto=auto or None, ignore=ignore, targets=targets,
        metadata=metadata, progress=progress, options=options, **framework,
    )  # fmt: skip


def _refuse_no_folder(folder: object) -> None:
    if not isinstance(folder, (str, os.PathLike)):
        raise UsageError(
            f"the second argument is the folder to write, got a {type(folder).__name__}",
            hint="rw.export(policy, 'folder/', example=…): what is exported comes first",
        )


def _refuse_bare_options(keywords: Mapping[str, Any]) -> None:
    known = {each.name for each in fields(ExportOptions)}
    bare = [name for name in keywords if name in known]
    if bare:
        said = ", ".join(f"{name}={keywords[name]!r}" for name in bare)
        raise UsageError(
            f"{', '.join(bare)}: said to export itself",
            where="export(…)",
            hint=f"these are options of the file: options=rw.ExportOptions({said})",
        )


def export_source(
    source: Described, folder: str | os.PathLike[str], plan: ExportPlan | None = None
) -> Bundle:
    """The certified bundle of a source."""
    plan = plan or ExportPlan()
    refuse_untested()
    if isinstance(source, Source):
        refuse_broken(source.module)
        refuse_forgotten_normalizer(source)
    around_a_simulator = isinstance(source, EnvironmentSource)
    try:
        with collecting_rarely() if around_a_simulator else nullcontext():
            program, original = captured(source, plan)
            program = plan.completed(program)
            for note in program.fixes:
                plan.say(f"fixed {note.where}: {note.what}")
            return write_bundle(program, original, folder, plan)
    except (ExportError, CertificateFailed) as error:
        if isinstance(source, Source):
            add_static_findings(error, source)
        raise


def captured(source: Described, plan: ExportPlan) -> tuple[Program, Original]:
    """The program, and what it is compared with; repaired where that is asked for."""
    if isinstance(source, EnvironmentSource):
        plan.say("capturing the environment")
        environment = capture_environment(source)
        return environment.program, environment
    plan.say("capturing the module")
    captured_as = captured_with_fixes if plan.fix else captured_in_its_ports
    program, compared = captured_as(source, seed=plan.options.seed)
    return program, original_of(compared, program)


def write_bundle(
    program: Program, original: Original, folder: str | os.PathLike[str], plan: ExportPlan
) -> Bundle:
    """The certified bundle of a program, compared with what it was captured from."""
    target, options = Path(folder), plan.options
    program = decomposed(program, plan.decompositions)
    lowering = plan.backends()
    with sealing.new_bundle(target) as partial:
        files = _lowered(program, lowering, plan, partial)
        plan.say("recording the original")
        program = replace(program, sampling=original.tried(program.signature, program.sampling))
        trace = original.record(program.signature, seed=options.seed, sampling=program.sampling)
        _refuse_never_finite(trace)
        yardstick = original.yardstick(program.signature)
        trace = with_allowance(trace, yardstick, program.signature, options.seed)
        (partial / bundles.TRACE).write_bytes(trace.to_bytes())
        _add_trace(lowering, trace, partial)
        described = manifest(program, files, plan)
        sealing.write_json(partial / bundles.MANIFEST, described)
        certificate = _certify(partial, original, options)
        if not certificate.passed and "onnx" in files and has_sigmoids(program):
            certificate, plan = _with_whole_sigmoids(
                program, original, plan, partial, trace, certificate
            )
        if "onnx" in files:
            notes = differences(program, plan.translations, whole_sigmoids=plan.whole_sigmoids)
            certificate = replace(certificate, findings=(*certificate.findings, *notes))
        if not certificate.passed:
            if not options.allow_uncertified:
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
    program: Program, lowering: Mapping[str, Backend], plan: ExportPlan, partial: Path
) -> dict[str, list[str]]:
    """The files of each target, as they are named in the bundle."""
    files = {}
    for name, backend in lowering.items():
        plan.say(target_table.get(name).stage)
        with new_tensors_are_here():
            written = backend.lower(program, partial)
        files[name] = [path.relative_to(partial).as_posix() for path in written]
    return files


def _add_trace(lowering: Mapping[str, Backend], trace: Trace, partial: Path) -> None:
    for backend in lowering.values():
        if isinstance(backend, WritesTrace):
            backend.add_trace(trace, partial)


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
    for each in (again, plan):
        lowering = each.backends()
        _lowered(program, lowering, each, partial)
        _add_trace(lowering, trace, partial)
        if each is plan:
            break
        certificate = _certify(partial, original, plan.options)
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
    options = plan.options
    onnx = {"opset": options.opset, "ir_version": options.ir_version} if "onnx" in files else {}
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


def _certify(partial: Path, original: Original, options: ExportOptions) -> Certificate:
    """The certificate of the very bytes that are about to be published."""
    unsealed = sealing.unsealed(partial)
    return examine(
        unsealed,
        original=original,
        seed=options.seed,
        progress=options.progress if callable(options.progress) else None,
        trust=True,
        canary=False,
    )
