"""What the page knows of a bundle, whatever runs it: its golden steps and its sliders."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import numpy as np

from roadworthy.show.influence import element_name
from roadworthy.show.playground.environments import PageEnvironment
from roadworthy.spec.bundle import POLICY, Bundle
from roadworthy.spec.port import BATCH, Array, Port
from roadworthy.spec.signature import Signature
from roadworthy.spec.trace import Trace, exponents, refuse_unfit

# More sliders than these help nobody: the other elements keep the first recorded step.
MOST_SLIDERS = 64
# Of a trace that is larger the page gets the first steps.
TRACE_BYTES = 4_000_000


def contents(bundle: Bundle, env: PageEnvironment | None) -> dict[str, Any]:
    """What bundle.js holds beside its engine, as JSON."""
    signature = bundle.signature
    trace = bundle.trace
    refuse_unfit(trace, signature)
    table = signature.action.table if signature.action else ()
    return {
        "name": bundle.folder.resolve().name,
        "sha256": hashlib.sha256(bundle.files[POLICY]).hexdigest(),
        "signature": signature.to_json(),
        "dims": _dims(signature, trace),
        "trace": _trace(trace),
        "sliders": [slider for port in signature.observed for slider in _sliders(port, trace)],
        "first": {port.name: _first(port, trace) for port in signature.observed},
        "outputs": [_output(port, trace) for port in signature.outputs],
        "action": signature.action_output,
        "words": list(table) if table else None,
        "codes": list(table) if table and all(isinstance(each, int) for each in table) else None,
        "env": env.name if env else None,
        "observed": signature.observed[0].name,
    }


def assignment(name: str, data: object) -> str:
    """A script that makes the data known to the others: a page from disk may not fetch files."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return f"window.Roadworthy = window.Roadworthy || {{}};\nRoadworthy.{name} = {text};\n"


def encoded(array: Array) -> dict[str, Any]:
    """An array for arrays.js: its bytes, the lowest first, as base64."""
    little = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<")))
    return {
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "base64": base64.b64encode(little.tobytes()).decode(),
    }


def _trace(trace: Trace) -> dict[str, Any]:
    """The recorded steps, or as many as there is room for."""
    arrays = [*trace.inputs.values(), *trace.outputs.values()]
    each = sum(array[0].nbytes for array in arrays)
    steps = min(trace.steps, max(1, TRACE_BYTES // max(each, 1)))
    return {
        "steps": steps,
        "rows": trace.rows,
        "resets": encoded(trace.resets[:steps]),
        "inputs": {name: encoded(array[:steps]) for name, array in trace.inputs.items()},
        "outputs": {name: encoded(array[:steps]) for name, array in trace.outputs.items()},
        "allowed": {
            name: encoded(exponents(array[:steps])) for name, array in trace.allowed.items()
        },
    }


def _dims(signature: Signature, trace: Trace) -> dict[str, int]:
    """The sizes that symbolic dimensions had when the trace was recorded, but for the batch."""
    found = {}
    for port in signature.inputs:
        for dim, size in zip(port.shape, trace.inputs[port.name].shape[1:], strict=True):
            if isinstance(dim, str) and dim != BATCH:
                found[dim] = int(size)
    return found


def _rows(port: Port, values: Array) -> Array:
    """(steps, elements): the first row of each step, flat."""
    axis = port.batch_axis
    row = values if axis is None else np.take(values, 0, axis=axis + 1)
    return row.reshape(len(row), -1)


def _first(port: Port, trace: Trace) -> dict[str, Any]:
    return encoded(_rows(port, trace.inputs[port.name])[0])


def _sliders(port: Port, trace: Trace) -> list[dict[str, Any]]:
    flat = _rows(port, trace.inputs[port.name])
    count = flat.shape[1]
    if count > MOST_SLIDERS:
        return []
    shape = tuple(int(dim) for dim in port.shape if isinstance(dim, int)) or (1,)
    fits = int(np.prod(shape)) == count
    low, high = (
        np.broadcast_to(np.asarray(limit, dtype=float), shape).reshape(-1)
        if limit is not None and fits
        else np.full(count, np.nan)
        for limit in (port.about.low, port.about.high)
    )
    names = [element_name(port, i) if fits else f"{port.name}[{i}]" for i in range(count)]
    return [
        _slider(port, i, names[i], (float(low[i]), float(high[i])), flat[:, i])
        for i in range(count)
    ]


def _slider(
    port: Port, element: int, name: str, limits: tuple[float, float], seen: Array
) -> dict[str, Any]:
    """One slider; where nobody said limits, between what was recorded mostly."""
    low, high = limits
    whole = not port.dtype.startswith("float")
    finite = seen[np.isfinite(seen.astype(np.float64))].astype(np.float64)
    usual = np.percentile(finite, (2, 98)) if finite.size else np.asarray((-1.0, 1.0))
    low = low if np.isfinite(low) else float(np.floor(usual[0]))
    high = high if np.isfinite(high) else float(np.ceil(usual[1]))
    if port.dtype == "bool":
        low, high = 0.0, 1.0
    if not high > low:
        high = low + 1.0
    start = round(low) if whole else min(max(0.0, low), high)
    return {
        "port": port.name, "element": element, "name": name, "unit": port.about.unit, "low": low,
        "high": high, "start": start, "integer": whole,
    }  # fmt: skip


def _output(port: Port, trace: Trace) -> dict[str, Any]:
    count = min(_rows(port, trace.outputs[port.name]).shape[1], MOST_SLIDERS)
    fixed = [dim for dim in port.shape if isinstance(dim, str) and dim != BATCH] == []
    names = [element_name(port, i) if fixed else f"{port.name}[{i}]" for i in range(count)]
    return {"name": port.name, "unit": port.about.unit, "elements": names}
