"""`roadworthy export`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roadworthy.cli.console import (
    certificate_table,
    out,
    print_findings,
    print_json,
    signature_table,
    size_text,
    working,
)
from roadworthy.cli.targets import resolve
from roadworthy.errors import Finding, UsageError, need
from roadworthy.spec.bundle import CERTIFICATE
from roadworthy.spec.port import DTYPES
from roadworthy.verification.certificate import Certificate

if TYPE_CHECKING:
    import torch

_INPUT = re.compile(r"(?P<name>[^=]+)=(?:(?P<dtype>[a-z]+\d*):)?(?P<shape>(?:\d+(?:,\d+)*)?)")


def export(
    source: Annotated[str, typer.Argument(help="file.py:name or package.module:name")],
    folder: Annotated[Path, typer.Option("-o", "--out", help="Where the bundle goes.")],
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", help="NAME=SHAPE of one row: obs=48, image=uint8:84,84,4"),
    ] = None,
    memory: Annotated[
        list[str] | None, typer.Option(help="NAME=attribute that persists: h=hidden")
    ] = None,
    outputs: Annotated[
        list[str] | None, typer.Option("--output", help="Name of a result; - leaves it out.")
    ] = None,
    targets: Annotated[
        list[str] | None,
        typer.Option("--target", help="onnx (the default), torch_export or aoti; again for more."),
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
    from roadworthy.exporting import ExportOptions, export_source

    with working(silent=as_json) as progress:
        options = ExportOptions(
            targets=targets or ["onnx"],
            opset=opset,
            ir_version=ir_version,
            seed=seed,
            allow_uncertified=allow_uncertified,
            fix=fix,
            progress=progress,
        )
        progress("loading the source")
        described = _described(resolve(source), inputs or [], memory or [], outputs or [])
        bundle = export_source(described, folder, options)
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


def _described(found: Any, inputs: list[str], memory: list[str], outputs: list[str]) -> Any:
    from roadworthy.capture.source import Source

    if isinstance(found, Source):
        if inputs or memory or outputs:
            raise UsageError("a Source already says this", hint="drop --input/--memory/--output")
        return found
    if not inputs:
        raise UsageError(
            "a bare module does not say what its inputs are",
            hint="--input obs=48 (the shape of one row), once for each input",
        )
    return Source(
        found,
        example=dict(example(each) for each in inputs),
        memory=dict(pair(each) for each in memory),
        outputs=[None if name == "-" else name for name in outputs] or None,
    )


def example(text: str) -> tuple[str, torch.Tensor]:
    """Name and example of an input, from `NAME=SHAPE`."""
    import torch

    match = _INPUT.fullmatch(text)
    dtype = (match["dtype"] or "float32") if match else ""
    if match is None or dtype not in DTYPES:
        raise UsageError(
            f"cannot read --input {text!r}",
            hint="NAME=SHAPE such as obs=48, image=uint8:84,84,4 or step=int64:",
        )
    shape = [int(size) for size in match["shape"].split(",") if size]
    return match["name"], torch.zeros(2, *shape, dtype=getattr(torch, dtype))


def pair(text: str) -> tuple[str, str]:
    """Name and attribute of a memory, from `NAME=attribute`."""
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise UsageError(f"cannot read --memory {text!r}", hint="NAME=attribute, such as h=hidden")
    return name, path
