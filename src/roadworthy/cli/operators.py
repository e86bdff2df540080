"""`roadworthy inspect --operators`: what the graph is made of, and what it asks of a runtime."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from roadworthy.backends.operators import first_precision_change, operators, port_dtypes
from roadworthy.cli.console import out, table


def described(model: bytes) -> dict[str, Any]:
    """The operators, dtypes and first change of precision of a file, as JSON."""
    used = operators(model)
    change = first_precision_change(model)
    return {
        "operators": [asdict(each) for each in used],
        "dtypes": port_dtypes(model),
        "needs_opset": max((each.since for each in used if "." not in each.name), default=1),
        "precision_change": asdict(change) if change else None,
    }


def show(model: bytes) -> None:
    """The same, as tables."""
    used = operators(model)
    console = out()
    dtypes = table("port", "dtype", title="Ports")
    for name, dtype in port_dtypes(model).items():
        dtypes.add_row(name, dtype)
    console.print(dtypes, "")
    listed = table("operator", ">count", ">since opset", title="Operators")
    for each in used:
        listed.add_row(each.name, str(each.count), str(each.since))
    console.print(listed, "")
    change = first_precision_change(model)
    needs = max((each.since for each in used if "." not in each.name), default=1)
    console.print(f"needs      opset {needs} or later", markup=False)
    console.print(f"precision  {change or 'the same from end to end'}", markup=False)
