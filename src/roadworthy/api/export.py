"""`export`: source → Program → Bundle, certified before anyone can see it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roadworthy.api.options import (
    ExportOptions,
    ExportPlan,
    Table,
    options_in,
    refuse_bare_options,
)
from roadworthy.api.publish import write_bundle
from roadworthy.api.to_source import KEYWORDS, to_source
from roadworthy.capture.export_mode import collecting_rarely
from roadworthy.capture.program import Program
from roadworthy.capture.source import Source
from roadworthy.capture.versions import refuse_broken, refuse_untested
from roadworthy.environment.capture import capture_environment
from roadworthy.environment.source import EnvironmentSource, refuse_other_types
from roadworthy.errors import CertificateFailed, ExportError, RoadworthyWarning, UsageError
from roadworthy.errors.progress import Progress, told
from roadworthy.errors.unforeseen import answers
from roadworthy.frameworks import adapter_for
from roadworthy.rules.during_export import add_static_findings, refuse_forgotten_normalizer
from roadworthy.rules.fixes import captured_in_its_ports, captured_with_fixes
from roadworthy.spec import sealing
from roadworthy.spec.bundle import Bundle
from roadworthy.spec.port import About
from roadworthy.spec.robot_reading import Metadata, read_metadata
from roadworthy.spec.targets import DEFAULT
from roadworthy.spec.transforms import ActionStep
from roadworthy.verification.originals.module import original_of
from roadworthy.verification.originals.original import Original

if TYPE_CHECKING:
    from roadworthy.frameworks import Described


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
    targets: Sequence[str] = (DEFAULT,),
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
    takes, as `roadworthy.spec.targets` lists them. Nothing is left behind unless each passed
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
    of_source = {name: value for name, value in locals().items() if name in KEYWORDS}
    refuse_bare_options(framework)
    _refuse_no_folder(folder)
    plan = ExportPlan(
        **options_in(options), targets=targets, translations=translations or {},
        decompositions=decompositions or {}, fix=fix, frame_skip=frame_skip,
        metadata=None if metadata is None else read_metadata(metadata),
    )  # fmt: skip
    sealing.refuse_foreign(Path(folder))
    described = to_source(source, **of_source, **framework)
    with told(plan.progress if progress is None else progress) as say:
        bundle = export_source(described, folder, plan.saying(say))
    for finding in bundle.certificate.findings:
        if finding.severity == "warning":
            warnings.warn(str(finding), RoadworthyWarning, stacklevel=3)  # beyond `answers`
    return bundle


@answers
def export_environment(
    env: Any,
    actor: Any,
    folder: str | os.PathLike[str],
    *,
    auto: bool = False,
    ignore: Sequence[str] | None = None,
    targets: Sequence[str] = (DEFAULT,),
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
    program, compared = captured_as(source, seed=plan.seed)
    return program, original_of(compared, program)


def _refuse_no_folder(folder: object) -> None:
    if not isinstance(folder, (str, os.PathLike)):
        raise UsageError(
            f"the second argument is the folder to write, got a {type(folder).__name__}",
            hint="rw.export(policy, 'folder/', example=…): what is exported comes first",
        )
