"""`roadworthy inspect --values`: every value inside the graph at one step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from roadworthy.cli.console import out, print_json, table
from roadworthy.cli.objects import refuse_unreachable, resolve
from roadworthy.errors import UsageError, need
from roadworthy.runtime.canary import refuse_unsafe
from roadworthy.spec.bundle import POLICY, Bundle
from roadworthy.spec.port import Array, shape_text
from roadworthy.spec.samples import draw_ordinary


def show_values(path: Path, against: str | None, seed: int, *, as_json: bool) -> None:
    """Prints every value of one step, beside those of a live module where one is named."""
    if not path.is_dir():  # a bundle says how to step its graph
        raise UsageError(
            f"{path} is not a bundle folder", hint="--values needs the folder, not a file of it"
        )
    if against is not None:
        refuse_unreachable(against)
    rows = _node_values(path, resolve(against) if against else None, seed)
    if as_json:
        print_json({"values": rows})
    else:
        out().print(_table(rows, compared=against is not None))


def _node_values(path: Path, against: Any, seed: int) -> list[dict[str, Any]]:
    """One row for each value: name, operator, dtype, range, and its distance from PyTorch's."""
    for module in ("onnx", "torch"):
        need(module, extra="export")
    from roadworthy.api.against import original_for
    from roadworthy.verification.artifact_values import artifact_values
    from roadworthy.verification.originals.original import TorchValue

    bundle = Bundle.open(path)
    refuse_unsafe(bundle.files[POLICY], where=str(path), canary=True)
    signature = bundle.signature
    rows = signature.fixed_rows or 1
    drawn = draw_ordinary(signature, np.random.default_rng(seed), steps=1, rows=rows)
    inputs = {name: array[0] for name, array in drawn.items()}
    memory = {each.name: each.fresh(rows) for each in signature.memory}
    truth: Mapping[str, TorchValue] = {}
    if against is not None:
        truth = original_for(bundle, against, {}).graph_values(signature, inputs, memory)
    found = []
    for node in artifact_values(bundle.files[POLICY], signature, inputs, memory):
        expected = truth.get(node.name)
        known = expected is not None and expected.value.shape == node.value.shape
        found.append(
            {
                "name": node.name,
                "operator": node.operator,
                "dtype": node.value.dtype.name,
                "shape": list(node.value.shape),
                **_range(node.value),
                "off_by": _distance(expected.value, node.value) if expected and known else None,
                "where": expected.where if expected else "",
            }
        )
    return found


def _table(rows: list[dict[str, Any]], *, compared: bool) -> Table:
    columns = ["value", "operator", "type", ">min", ">max", ">not finite"]
    made = table(*columns, *([">off by", "line"] if compared else []), title="Values of one step")
    for row in rows:
        limits = ["" if row[key] is None else f"{row[key]:.4g}" for key in ("min", "max")]
        beside = ["" if row["off_by"] is None else f"{row['off_by']:.1e}", row["where"]]
        made.add_row(
            row["name"],
            row["operator"],
            f"{row['dtype']} {shape_text(row['shape'])}",
            *limits,
            str(row["not_finite"] or ""),
            *(beside if compared else []),
        )
    return made


def _range(value: Array) -> dict[str, Any]:
    if value.dtype.kind not in "fiub" or not value.size:
        return {"min": None, "max": None, "not_finite": 0}
    numbers = value.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    return {
        "min": float(finite.min()) if finite.size else None,
        "max": float(finite.max()) if finite.size else None,
        "not_finite": int(numbers.size - finite.size),
    }


def _distance(one: Array, other: Array) -> float:
    gap = np.abs(one.astype(np.float64) - other.astype(np.float64))
    return float(np.nanmax(gap)) if gap.size else 0.0
