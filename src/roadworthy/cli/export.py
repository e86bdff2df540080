"""`roadworthy export`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from roadworthy import targets as targets_table
from roadworthy.cli import target_help
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
    Constants,
    Exploration,
    FrameworkEnv,
    Ignored,
    Inputs,
    Memories,
    Method,
    Outputs,
    Settings,
    keywords,
    refuse_unreadable,
)
from roadworthy.cli.objects import refuse_unreachable, thing
from roadworthy.cli.tasks import Checkpoint, MotionFile, Task, environment_of, refuse_unclear
from roadworthy.errors import Finding, UsageError, need
from roadworthy.spec.bundle import CERTIFICATE
from roadworthy.spec.certificate import Certificate
from roadworthy.spec.sealing import refuse_foreign
from roadworthy.targets import DEFAULT


def export(
    folder: Annotated[Path, typer.Option("-o", "--out", help="Where the bundle goes.")],
    source: Annotated[
        str | None, typer.Argument(help="file.py:name, package.module:name, or a file.")
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
    targets: Annotated[
        list[str] | None,
        typer.Option("--target", help=target_help.WRITTEN),
    ] = None,
    opset: Annotated[int, typer.Option(help="ONNX opset, 18 to 23.")] = 20,
    ir_version: Annotated[int, typer.Option(help="ONNX IR version, 8 to 11.")] = 10,
    seed: Annotated[int, typer.Option(help="Seed of the recorded and compared steps.")] = 0,
    allow_uncertified: Annotated[
        bool, typer.Option(help="Keep a bundle that failed; recorded in its manifest.")
    ] = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="Repair what is safe to repair, in a copy.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make a certified bundle from a PyTorch module or a policy of a known framework.

    SOURCE is a module, a policy, a roadworthy.Source, or a function that returns one.

    roadworthy export my_policy.py:actor --input obs=48 -o walker

    roadworthy export train.py:model --input obs=48 --method act --constant noise=False -o ant

    roadworthy export my_torchrl.py:policy --env my_torchrl.py:make_env --exploration mode -o pong

    roadworthy export my_policy.py:source -o walker --target onnx --target torch_export

    roadworthy export --task Mjlab-Velocity-Flat-Unitree-Go1 --checkpoint model_1500.pt -o go1

    Normalisers and action steps are said in Python, with rw.Source. Next: roadworthy inspect.
    """
    # Mistakes in the call are answered before PyTorch is imported, which takes seconds.
    refuse_unreadable(inputs, memory, settings, constants)
    for target in targets or ():
        targets_table.get(target)
    refuse_unclear(source, task, checkpoint, motion_file)
    if source is not None:
        refuse_unreachable(source)
    refuse_foreign(folder)
    for module in ("torch", "onnx", "onnxscript"):
        need(module, extra="export")
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
        if source is not None:
            found = thing(source)
        else:
            assert task is not None
            found = environment_of(task, motion_file)
            given |= {"actor": checkpoint, "task": task}
        refuse_bare_module(found, given)
        bundle = export_policy(found, folder, **given, targets=wanted, fix=fix, options=options)
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
            }
        )
        return
    print_findings([Finding(**each) for each in bundle.manifest["fixes"]])
    console = out()
    console.print(signature_table(bundle.signature), "")
    console.print(certificate_table(certificate), "")
    print_findings(certificate.findings, stderr=False)
    console.print(f"{folder}  {size_text(size)}", markup=False)
    console.print(f"next: roadworthy inspect {folder}    roadworthy bench {folder}", style="dim")


def refuse_bare_module(found: Any, given: Mapping[str, Any]) -> None:
    """An error for a module of no framework that was not described on the command line."""
    import torch

    from roadworthy.adapters import adapter_for

    if "example" in given or not isinstance(found, torch.nn.Module):
        return
    if adapter_for(found) is None:
        raise UsageError(
            "a bare module does not say what its inputs are",
            hint="add --input obs=48 (the shape of one row), once for each input",
        )
