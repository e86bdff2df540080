"""`roadworthy inspect`."""

from __future__ import annotations

import hashlib
import shlex
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from roadworthy.cli import c_sizes, checkpoint, foreign
from roadworthy.cli.console import (
    certificate_table,
    out,
    print_json,
    robot_table,
    signature_table,
    size_text,
    table,
)
from roadworthy.cli.describing import Described
from roadworthy.cli.graph import show_graph, show_operators
from roadworthy.cli.objects import refuse_missing
from roadworthy.cli.options import SHOWN, AsJson, AxisSizes, Only, Trust
from roadworthy.cli.values import show_values
from roadworthy.errors import BundleError, UsageError
from roadworthy.frameworks.files.beginning import looks_like_a_checkpoint
from roadworthy.runtime.archive import Archive, is_archive
from roadworthy.runtime.load import onnx_signature
from roadworthy.spec.bundle import CERTIFICATE, POLICY, Bundle
from roadworthy.spec.onnx_file import outline
from roadworthy.spec.signature import Signature


def inspect(
    *,
    path: Annotated[Path, typer.Argument(help="A bundle folder, or a lone file of one.")],
    graph: Annotated[bool, typer.Option("--graph", help="Print the graph alone.")] = False,
    target: Annotated[str | None, typer.Option(help=SHOWN)] = None,
    trust: Trust = False,
    values: Annotated[
        bool, typer.Option("--values", help="Run one step and list every value inside the graph.")
    ] = False,
    against: Annotated[
        str | None, typer.Option(help="With --values: PyTorch's values beside, from file.py:name.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="With --values: seed of the inputs.")] = 0,
    operators_only: Annotated[
        bool, typer.Option("--operators", help="The opset that each operator needs, and dtypes.")
    ] = False,
    as_c: Annotated[
        bool, typer.Option("--c", help="Flash, RAM and stack of the policy as C, by board.")
    ] = False,
    flash: Annotated[str | None, typer.Option(help="With --c: what it must fit, as 512K.")] = None,
    ram: Annotated[str | None, typer.Option(help="With --c: what it must fit, as 128K.")] = None,
    size: AxisSizes = None,
    described: Annotated[Described, Only(("assume", "vecnormalize"))],
    env: Annotated[
        str | None, typer.Option(help="A checkpoint's environment: a Gymnasium id.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a bundle is: ports, memory, operators, sizes, sums and certificate.

    Of a checkpoint: framework, algorithm, architecture, spaces, normaliser and open questions.

    roadworthy inspect walker

    roadworthy inspect walker --graph

    roadworthy inspect walker/policy.onnx --json

    roadworthy inspect walker --c --flash 512K --ram 128K

    roadworthy inspect ppo.zip

    Of an ONNX file that Roadworthy did not write it shows what the file says, and what it does not.

    roadworthy inspect walker --values --against my_policy.py:actor
    """
    refuse_missing(path)
    if (flash or ram or size) and not as_c:
        raise UsageError(
            "--flash, --ram and --size are asked of the policy as C",
            hint=f"roadworthy inspect {shlex.quote(str(path))} --c --flash 512K --ram 128K",
        )
    if as_c and (graph or values or operators_only):
        raise UsageError(
            "--c shows the policy as C alone", hint="ask for graph, values or operators by itself"
        )
    if values:
        return show_values(path, against, seed, as_json=as_json)
    bundle = Bundle.open(path) if path.is_dir() else None
    if bundle is None and as_c:
        _refuse_unmeasured(path)
    if bundle is None and looks_like_a_checkpoint(path):
        answers = described.answers() | ({"env": env} if env else {})
        return checkpoint.show(path, answers, as_json=as_json)
    if bundle is None and not is_archive(data := path.read_bytes()):
        foreign.read(path, data)
    if graph:
        return show_graph(path, bundle, target, trust=trust, as_json=as_json)
    files = dict(bundle.files) if bundle else {path.name: path.read_bytes()}
    model = files.get(POLICY if bundle else path.name, b"")
    signature = bundle.signature if bundle else _lone_signature(path, model)
    if operators_only:
        return show_operators(model, as_json=as_json)
    if signature is None:
        return foreign.show(path, model, as_json=as_json)
    if as_c:
        return c_sizes.show(model, signature, flash=flash, ram=ram, size=size, as_json=as_json)
    return _show_all(signature, files, model, bundle, as_json=as_json)


def _show_all(
    signature: Signature,
    files: Mapping[str, bytes],
    model: bytes,
    bundle: Bundle | None,
    *,
    as_json: bool,
) -> None:
    """Prints ports, certificate, files, operators, and what the manifest says besides."""
    counts = _operators(model)
    certificate = bundle.certificate if bundle and CERTIFICATE in bundle.files else None
    facts = _facts(bundle.manifest) if bundle else {}
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    if as_json:
        print_json(
            {
                "signature": signature.to_json(),
                "operators": counts,
                "files": {n: {"bytes": len(files[n]), "sha256": sums[n]} for n in files},
                "certificate": certificate.to_json() if certificate else None,
                **facts,
            }
        )
        return
    console = out()
    console.print(signature_table(signature), "")
    if signature.robot:
        console.print(robot_table(signature.robot), "")
    if certificate:
        console.print(certificate_table(certificate), "")
    listed = table("file", ">size", "sha256", title="Files")
    for name, data in files.items():
        listed.add_row(name, size_text(len(data)), sums[name][:12])
    console.print(listed, "")
    if model and not is_archive(model):
        counted = " ".join(f"{op}×{count}" for op, count in counts.items())
        console.print("operators  " + (counted or "none"), markup=False)
    for key, value in _flat(facts):
        console.print(f"{key:<10} {value}", markup=False)


def _facts(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What of a manifest is shown."""
    recipe = manifest.get("recipe", {})
    known = {"ignored": recipe.get("ignore"), "checkpoint": recipe.get("checkpoint")}
    shown = {key: manifest[key] for key in _SHOWN if key in manifest}
    return shown | {key: value for key, value in known.items() if value}


_SHOWN = ("targets", "opset", "ir_version", "waivers", "provenance")


def _refuse_unmeasured(path: Path) -> None:
    """An error for a file whose C nobody can size: it has no signature, or is no graph at all."""
    checkpoint_here, data = looks_like_a_checkpoint(path), path.read_bytes()
    if checkpoint_here or is_archive(data) or _lone_signature(path, data) is None:
        source = shlex.quote(str(path)) if checkpoint_here else "policy.py:actor"
        raise UsageError(
            "--c is asked of a policy that Roadworthy has exported as ONNX",
            where=str(path),
            hint=f"roadworthy export {source} -o walker, then roadworthy inspect walker --c",
        )


def _lone_signature(path: Path, data: bytes) -> Signature | None:
    """The signature inside a lone file, which is not opened for it; None in foreign ONNX."""
    if not is_archive(data):
        return onnx_signature(data, str(path))
    found = Archive(data, where=str(path)).signature
    if found is None:
        raise BundleError(
            f"{path} has no signature: Roadworthy did not write it",
            hint="pass a bundle folder, or a file that rw.export wrote",
        )
    return found


def _flat(facts: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [("targets", ", ".join(facts["targets"]))] if "targets" in facts else []
    if "opset" in facts:
        rows.append(("opset", f"{facts['opset']}, IR {facts['ir_version']}"))
    if "provenance" in facts:
        rows.append(("made with", ", ".join(f"{k} {v}" for k, v in facts["provenance"].items())))
    if facts.get("checkpoint"):
        rows += checkpoint.origin_rows(facts["checkpoint"])
    if facts.get("ignored"):
        rows.append(("IGNORED", ", ".join(facts["ignored"])))
    if facts.get("waivers"):
        rows.append(("WAIVED", ", ".join(facts["waivers"])))
    return rows


def _operators(model: bytes) -> dict[str, int]:
    """Operator → how often, most frequent first; empty where there is no graph."""
    if not model or is_archive(model):
        return {}
    counted: Counter[str] = Counter()
    graphs = [outline(model).nodes]
    while graphs:
        for node in graphs.pop():
            counted[node.operator] += 1
            graphs += node.inside.values()
    return dict(counted.most_common())
