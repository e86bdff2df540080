"""`roadworthy export`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

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
from roadworthy.cli.describing import Inputs, Memories, Outputs, keywords
from roadworthy.cli.targets import resolve
from roadworthy.errors import Finding, UsageError, need
from roadworthy.spec.bundle import CERTIFICATE
from roadworthy.targets import DEFAULT
from roadworthy.verification.certificate import Certificate


def export(
    source: Annotated[str, typer.Argument(help="file.py:name or package.module:name")],
    folder: Annotated[Path, typer.Option("-o", "--out", help="Where the bundle goes.")],
    inputs: Inputs = None,
    memory: Memories = None,
    outputs: Outputs = None,
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
    """Make a certified bundle from a PyTorch module.

    SOURCE is a module, a roadworthy.Source, or a function that returns one.

    roadworthy export my_policy.py:actor --input obs=48 -o walker

    roadworthy export my_policy.py:source -o walker --target onnx --target torch_export

    Normalisers and action steps are said in Python, with rw.Source. Next: roadworthy inspect.
    """
    for module in ("torch", "onnx", "onnxscript"):
        need(module, extra="export")
    from roadworthy.exporting import ExportOptions, described, export_source

    with working(silent=as_json) as progress:
        options = ExportOptions(
            targets=targets or [DEFAULT],
            opset=opset,
            ir_version=ir_version,
            seed=seed,
            allow_uncertified=allow_uncertified,
            fix=fix,
            progress=progress,
        )
        progress("loading the source")
        found, given = resolve(source), keywords(inputs, memory, outputs)
        bundle = export_source(described(_explicit(found, given), given, {}), folder, options)
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
    console.print(f"{folder}  {size_text(size)}", markup=False)
    console.print(f"next: roadworthy inspect {folder}    roadworthy bench {folder}", style="dim")


def _explicit(found: Any, given: Mapping[str, Any]) -> Any:
    """What was found; a bare module must have been described on the command line."""
    from roadworthy.adapters import name_of
    from roadworthy.capture.source import Source

    if given["example"] is None and not isinstance(found, Source) and name_of(found) is None:
        raise UsageError(
            "a bare module does not say what its inputs are",
            hint="--input obs=48 (the shape of one row), once for each input",
        )
    return found
