"""`roadworthy export`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

from roadworthy import targets as targets_table
from roadworthy.cli import many, target_help
from roadworthy.cli.console import (
    certificate_table,
    out,
    print_findings,
    print_json,
    signature_table,
    size_text,
    working,
)
from roadworthy.cli.describing import (
    Assumed,
    Constants,
    Exploration,
    FrameStack,
    FrameworkEnv,
    Ignored,
    Inputs,
    Memories,
    Method,
    MoreOutputs,
    Outputs,
    Settings,
    Statistics,
    TrustFile,
    checkpoint_keywords,
    keywords,
    need_export,
    refuse_unreadable,
)
from roadworthy.cli.emit import EMITTED, emit_all, refuse_unknown_layouts
from roadworthy.cli.objects import refuse_unreachable, thing
from roadworthy.cli.running import run_all
from roadworthy.cli.tasks import Checkpoint, MotionFile, Task, environment_of, refuse_unclear
from roadworthy.errors import Finding, UsageError
from roadworthy.spec.bundle import CERTIFICATE, is_bundle
from roadworthy.spec.certificate import Certificate
from roadworthy.spec.robot_reading import read_metadata
from roadworthy.spec.sealing import refuse_foreign, refuse_unwritable
from roadworthy.targets import DEFAULT, refuse_other_versions


def export(
    context: typer.Context,
    folder: Annotated[Path, typer.Option("-o", "--out", help="Where the bundle goes.")],
    sources: Annotated[
        list[str] | None,
        typer.Argument(help="file.py:name, package.module:name, or a file; several, or a pattern."),
    ] = None,
    task: Task = None,
    checkpoint: Checkpoint = None,
    motion_file: MotionFile = None,
    inputs: Inputs = None,
    memory: Memories = None,
    outputs: Outputs = None,
    exploration: Exploration = None,
    env: FrameworkEnv = None,
    settings: Settings = None,
    ignore: Ignored = None,
    method: Method = None,
    constants: Constants = None,
    assume: Assumed = None,
    vecnormalize: Statistics = None,
    frame_stack: FrameStack = None,
    more: MoreOutputs = None,
    trust: TrustFile = False,
    targets: Annotated[
        list[str] | None,
        typer.Option("--target", help=target_help.WRITTEN),
    ] = None,
    metadata: Annotated[
        Path | None, typer.Option(help="robot.yaml: joints, gains, action scale, period.")
    ] = None,
    frame_skip: Annotated[
        int | None, typer.Option(min=1, help="Frames of the environment that one action lasts.")
    ] = None,
    emit: Annotated[list[str] | None, typer.Option("--emit", help=EMITTED)] = None,
    opset: Annotated[int, typer.Option(help="ONNX opset, 18 to 23.")] = 20,
    ir_version: Annotated[int, typer.Option(help="ONNX IR version, 8 to 11.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the recorded and compared steps.")] = 0,
    allow_uncertified: Annotated[
        bool, typer.Option(help="Keep a bundle that failed; recorded in its manifest.")
    ] = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="Repair what is safe to repair, in a copy.")
    ] = False,
    jobs: many.Jobs = None,
    ray: many.Ray = None,
    again: many.Again = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
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
    refuse_unreadable(inputs, memory, exploration, env, settings, constants)
    said = checkpoint_keywords(assume, vecnormalize, frame_stack, more, trust)
    for target in targets or ():
        targets_table.get(target)
    refuse_other_versions(opset, ir_version)
    refuse_unknown_layouts(emit)
    if metadata is not None:
        read_metadata(metadata)
    if sources and many.is_wanted(sources, jobs, ray):
        return _export_all(context, sources, folder, jobs, ray, again=again, as_json=as_json)
    source = sources[0] if sources else None
    refuse_unclear(source, task, checkpoint, motion_file)
    if source is not None:
        refuse_unreachable(source)
    refuse_unwritable(folder)
    refuse_foreign(folder)
    need_export()
    from roadworthy.exporting import ExportOptions, ExportPlan
    from roadworthy.exporting import export as export_policy

    wanted = ExportPlan(targets=targets or [DEFAULT]).targets  # before anything is loaded

    with working(silent=as_json) as progress:
        options = ExportOptions(
            opset=opset,
            ir_version=ir_version,
            seed=seed,
            allow_uncertified=allow_uncertified,
            progress=progress,
        )
        progress("loading the source")
        given = keywords(
            inputs, memory, outputs, exploration, env, settings, ignore, method, constants
        )
        given |= said
        if source is not None:
            found = thing(source)
        else:
            assert task is not None
            found = environment_of(task, motion_file)
            given |= {"actor": checkpoint, "task": task}
        refuse_bare_module(found, given)
        # What a policy or a simulator prints while it runs must not stand in the way of --json.
        with redirect_stdout(sys.stderr):
            bundle = export_policy(
                found, folder, **given, targets=wanted, fix=fix, frame_skip=frame_skip,
                metadata=metadata, options=options,
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
    jobs: int | None,
    ray: str | None,
    *,
    again: bool,
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
        jobs,
        ray,
        again=again,
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
