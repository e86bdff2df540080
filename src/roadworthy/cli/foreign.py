"""`roadworthy inspect` of an ONNX file of somebody else: what it says, and what it does not."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path

from roadworthy.cli.console import out, print_json, size_text, table
from roadworthy.errors import BundleError
from roadworthy.spec.onnx_file import ModelSummary, external_data, summary
from roadworthy.spec.onnx_wire import NotAModel
from roadworthy.spec.port import shape_text

# What a signature would say and an ONNX file has no place for.
UNKNOWN = {
    "memory": "which outputs must be fed back as inputs at the next step, and where they start",
    "meaning": "units, order and limits of the elements; whether a normaliser is inside",
    "action": "which output is the action, and what its numbers mean",
    "period": "at which rate it must be stepped",
    "proof": "whether it behaves like the policy that it was made from",
}
HINT = "rw.export(module, folder, …) writes a file that says all of it, with a certificate"


def show(path: Path, data: bytes, *, as_json: bool) -> None:
    """Prints ports, operators and opsets of the file, and everything that it leaves open."""
    found, elsewhere = read(path, data), external_data(data)
    if as_json:
        digest = hashlib.sha256(data).hexdigest()
        print_json(
            {
                "signature": None,
                **asdict(found),
                "external_data": elsewhere,
                "files": {path.name: {"bytes": len(data), "sha256": digest}},
                "unknown": UNKNOWN,
            }
        )
        return
    _print(path, data, found, elsewhere)


def read(path: Path, data: bytes) -> ModelSummary:
    """What the file says, or an error if it is no ONNX file at all."""
    try:
        found = summary(data)
        external_data(data)
    except NotAModel as error:
        raise _no_model(path, error.why) from error
    if not found.ports:
        raise _no_model(path, "it has no inputs and no outputs")
    return found


def _print(path: Path, data: bytes, found: ModelSummary, elsewhere: str | None) -> None:
    console = out()
    console.print("Roadworthy did not write this file", "", style="bold")
    ports = table("", "port", "type", title="What the file says")
    for port in found.ports:
        shape = "of unknown shape" if port.shape is None else shape_text(port.shape)
        ports.add_row(port.side, port.name, f"{port.dtype} {shape}")
    console.print(ports, "")
    counted = " ".join(f"{name}×{count}" for name, count in found.operators.items())
    opsets = ", ".join(f"{name or 'ONNX'} {number}" for name, number in found.opsets.items())
    facts = {"operators": counted, "opsets": opsets, "producer": found.producer or "not said"}
    for name, fact in facts.items():
        console.print(f"{name:<10} {fact}", markup=False)
    console.print(f"file       {path.name}  {size_text(len(data))}", markup=False)
    if elsewhere is not None:
        console.print(
            f"weights    of {elsewhere!r} and maybe others are in another file", markup=False
        )
    unknown = table("", "what", title="Unknown")
    for name, what in UNKNOWN.items():
        unknown.add_row(name, what)
    console.print("", unknown, "")
    console.print(f"  → {HINT}", style="dim", markup=False)


def _no_model(path: Path, why: str) -> BundleError:
    return BundleError(
        f"{path} is no ONNX file, or a damaged one: {why}",
        hint="pass a bundle folder, or a file of one; .pt and .zip files are for roadworthy export",
    )
