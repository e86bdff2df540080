"""`roadworthy export`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

from roadworthy.api.options import ExportPlan
from roadworthy.cli import many
from roadworthy.cli.console import (
    certificate_table,
    out,
    print_findings,
    print_json,
    signature_table,
    size_text,
    working,
)
from roadworthy.cli.describing import Described, TrainedTask, need_export
from roadworthy.cli.emit import EMITTED, emit_all, refuse_unknown_layouts
from roadworthy.cli.objects import refuse_unreachable
from roadworthy.cli.options import WRITTEN, AsJson, ManyAtOnce
from roadworthy.cli.running import run_all
from roadworthy.errors import Finding, UsageError
from roadworthy.spec import targets as targets_table
from roadworthy.spec.bundle import CERTIFICATE, is_bundle
from roadworthy.spec.certificate import Certificate
from roadworthy.spec.robot_reading import read_metadata
from roadworthy.spec.sealing import refuse_foreign, refuse_unwritable
from roadworthy.spec.targets import DEFAULT, refuse_other_versions


def export(
    context: typer.Context,
    *,
    folder: Annotated[Path, typer.Option("-o", "--out", help="Where the bundle goes.")],
    task: TrainedTask,
    described: Described,
    sources: Annotated[
        list[str] | None,
        typer.Argument(help="file.py:name, package.module:name, or a file; several, or a pattern."),
    ] = None,
    targets: Annotated[list[str] | None, typer.Option("--target", help=WRITTEN)] = None,
    metadata: Annotated[
        Path | None, typer.Option(help="robot.yaml: joints, gains, action scale, period.")
    ] = None,
    emit: Annotated[list[str] | None, typer.Option("--emit", help=EMITTED)] = None,
    plan: ExportPlan,
    at_once: ManyAtOnce,
    as_json: AsJson = False,
) -> None:
    """Make a certified bundle from a PyTorch module, a policy of a known framework or its file.

    A source is a module, a policy, a roadworthy.Source, a function that returns one, or a
    checkpoint. Several go to folders of their own in the folder of -o.

    roadworthy export my_policy.py:actor --input obs=48 -o walker

    roadworthy export train.py:model --input obs=48 --method act --constant noise=False -o ant

    roadworthy export my_torchrl.py:policy --env my_torchrl.py:make_env --exploration mode -o pong

    roadworthy export my_policy.py:source -o walker --target onnx --target torch_export

    roadworthy export ppo.zip -o cartpole --assume vecnormalize=none --outputs value

    roadworthy export runs/*/model.pt -o out --jobs 2

    roadworthy export --task Mjlab-Velocity-Flat-Unitree-Go1 --checkpoint model_1500.pt -o go1

    Normalisers and action steps are said in Python, with rw.Source. Next: roadworthy inspect.
    """
    # Mistakes in the call are answered before PyTorch is imported, which takes seconds.
    described.refuse_unreadable()
    for target in targets or ():
        targets_table.get(target)
    refuse_other_versions(plan.opset, plan.ir_version)
    refuse_unknown_layouts(emit)
    if metadata is not None:
        read_metadata(metadata)
    if sources and many.is_wanted(sources, at_once):
        return _export_all(context, sources, folder, at_once, as_json=as_json)
    source = sources[0] if sources else None
    task.refuse_unclear(source)
    if source is not None:
        refuse_unreachable(source)
    refuse_unwritable(folder)
    refuse_foreign(folder)
    need_export()
    from roadworthy.api.export import export as export_policy

    with working(silent=as_json) as progress:
        progress("loading the source")
        given = described.keywords()
        found, more = task.loaded(source)
        given |= more
        refuse_bare_module(found, given)
        # What a policy or a simulator prints while it runs must not stand in the way of --json.
        with redirect_stdout(sys.stderr):
            bundle = export_policy(
                found, folder, **given, targets=targets or [DEFAULT], fix=plan.fix,
                frame_skip=plan.frame_skip, metadata=metadata, options=plan.saying(progress),
            )  # fmt: skip
    emitted = emit_all(folder, emit)
    certificate = Certificate.from_bytes(bundle.files[CERTIFICATE])
    size = sum(len(data) for data in bundle.files.values())
    if as_json:
        print_json(
            {
                "folder": str(folder),
                "bytes": size,
                "targets": bundle.targets,
                "signature": bundle.signature.to_json(),
                "certificate": certificate.to_json(),
                "fixes": bundle.manifest["fixes"],
                "emitted": emitted,
            }
        )
        return None
    print_findings([Finding(**each) for each in bundle.manifest["fixes"]])
    console = out()
    console.print(signature_table(bundle.signature), "")
    console.print(certificate_table(certificate), "")
    print_findings(certificate.findings, stderr=False)
    console.print(f"{folder}  {size_text(size)}", markup=False)
    for place in emitted:
        console.print(place, markup=False)
    console.print(f"next: roadworthy inspect {folder}    roadworthy bench {folder}", style="dim")
    return None


def _export_all(
    context: typer.Context,
    sources: list[str],
    folder: Path,
    at_once: ManyAtOnce,
    *,
    as_json: bool,
) -> None:
    if is_bundle(folder):
        raise UsageError(
            f"{folder} is a bundle, and many go to folders in it",
            where="-o",
            hint="choose a folder for all of them",
        )
    options = many.option_words(context)
    run_all(
        many.export_tasks(context, sources, folder),
        at_once,
        as_json=as_json,
        columns=("folder", "targets", ">size", "certificate"),
        row=_summary,
        more=lambda task: many.remembered(task, options),
    )


def _summary(result: Mapping[str, Any]) -> tuple[str, ...]:
    passed = "passed" if result["certificate"]["passed"] else "FAILED"
    return result["folder"], ", ".join(result["targets"]), size_text(result["bytes"]), passed


def refuse_bare_module(found: Any, given: Mapping[str, Any]) -> None:
    """An error for a module of no framework that was not described on the command line."""
    import torch

    from roadworthy.frameworks import adapter_for

    if "example" in given or not isinstance(found, torch.nn.Module):
        return
    if adapter_for(found) is None:
        raise UsageError(
            "a bare module does not say what its inputs are",
            hint="add --input obs=48 (the shape of one row), once for each input",
        )
