"""Values on their way into a port: accepted, cast without loss, or refused with the reason."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from roadworthy.errors import Finding, PortMismatch, did_you_mean
from roadworthy.spec.port import BATCH, Array, Port, shape_text
from roadworthy.spec.signature import Signature


class PrecisionWarning(UserWarning):
    """A float64 value was rounded to the float32 of its port; said once per port."""


class NotANumberWarning(UserWarning):
    """NaN went into a policy, or is in its memory; said once per policy."""


# Steps from one look for NaN to the next: each look costs half as much as a small step.
LOOK_EVERY = 128


def first_nan(values: Mapping[str, Array], *, kind: str = "") -> str:
    """Where the first NaN is, such as `obs[0][3]`; nothing where there is none."""
    for name, array in values.items():
        if array.dtype.kind == "f" and np.isnan(array).any():
            place = np.argwhere(np.isnan(array))[0]
            return f"{kind}{name}" + "".join(f"[{index}]" for index in place)
    return ""


def warn_nan(where: str) -> None:
    """Says where NaN was seen, to whoever called the policy."""
    hint = (
        "policy.reset() starts the memory anew, and a NaN that goes in comes back"
        if where.startswith("memory ")
        else "look for a sensor that failed or a division by zero; the actions may be NaN too"
    )
    warnings.warn(
        f"{where}: not a number (said once): {hint}", NotANumberWarning, stacklevel=_depth()
    )


def flat(inputs: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Inputs by port: what is nested, as the observations of a Dict space are, by dotted names."""
    found: dict[str, Any] = {}
    for name, value in inputs.items():
        inside = isinstance(value, Mapping)
        found |= flat(value, f"{above}{name}.") if inside else {f"{above}{name}": value}
    return found


def arrays(
    signature: Signature, inputs: Mapping[str, Any], cast: Callable[[Port, Any], Any]
) -> dict[str, Any]:
    """Every input as `cast` makes it of its port's dtype; all that is wrong is raised together."""
    findings = list(_name_findings(signature, inputs))
    result: dict[str, Any] = {}
    for port in signature.inputs:
        if port.name in inputs:
            try:
                result[port.name] = cast(port, inputs[port.name])
            except PortMismatch as error:
                findings += error.findings
    if findings:
        raise PortMismatch(findings=findings)
    return result


def dims(signature: Signature, values: Mapping[str, Any]) -> tuple[dict[str, int], bool]:
    """The size of every symbolic dimension, and whether the values came without a batch axis."""
    lacking = [
        port.batch_axis is not None and values[port.name].ndim == len(port.shape) - 1
        for port in signature.inputs
    ]
    unbatched = any(lacking)
    sizes: dict[str, int] = {BATCH: 1} if unbatched else {}
    findings: list[Finding] = []
    for port in signature.inputs:
        value = values[port.name]
        shape = value.shape
        if unbatched and port.batch_axis is not None:
            if value.ndim == len(port.shape):
                findings.append(_mixed(port, value))
                continue
            shape = (*shape[: port.batch_axis], 1, *shape[port.batch_axis :])
        if not _fits(port, shape, sizes):
            findings.append(_wrong_shape(port, value, sizes))
    if findings:
        raise PortMismatch(findings=findings)
    return sizes, unbatched


def _fits(port: Port, shape: tuple[int, ...], sizes: dict[str, int]) -> bool:
    if len(shape) != len(port.shape):
        return False
    for dim, size in zip(port.shape, shape, strict=True):
        expected = sizes.setdefault(dim, size) if isinstance(dim, str) else dim
        if size != expected or size == 0:
            return False
    return True


def cast(port: Port, value: Any, noted: set[str]) -> Array:
    """The value as an array of the port's dtype, or an error; `noted` are ports warned about."""
    try:
        array: Array = np.asarray(value)
    except Exception as error:  # whatever an object's __array__ raises
        raise PortMismatch(
            f"expected {port}, got a {type(value).__name__} that NumPy cannot read: {error}",
            where=port.name,
            hint="pass a NumPy array; lists need rows of equal length",
        ) from error
    target = np.dtype(port.dtype)
    if array.dtype == target:
        return array
    if rounds(port, array.dtype, array.shape):
        return _rounded(port, array, noted)
    return array.astype(target)


def rounds(port: Port, dtype: np.dtype[Any], shape: tuple[int, ...]) -> bool:
    """Whether a value of `dtype` is rounded to that of its port; what loses more is refused."""
    target = np.dtype(port.dtype)
    if dtype.kind == target.kind and np.can_cast(dtype, target, "safe"):
        return False
    if dtype == np.float64 and target == np.float32:
        return True
    raise PortMismatch(
        f"expected {port}, got {dtype} {shape_text(shape)}",
        where=port.name,
        hint=_dtype_hint(port, dtype),
    )


def _rounded(port: Port, array: Array, noted: set[str]) -> Array:
    with np.errstate(over="ignore"):
        rounded = array.astype(np.float32)
    if not np.array_equal(np.isfinite(rounded), np.isfinite(array)):
        raise PortMismatch(
            f"a float64 value of {np.nanmax(np.abs(array)):.3g} overflows float32",
            where=port.name,
            hint="clip the value, or look for a sensor that reads infinity",
        )
    warn_rounded(port, noted)
    return rounded


def warn_rounded(port: Port, noted: set[str]) -> None:
    """Says, once a port, that its values are rounded."""
    if port.name not in noted:
        noted.add(port.name)
        warnings.warn(
            f"{port.name}: float64 values are rounded to float32 (said once)",
            PrecisionWarning,
            stacklevel=_depth(),
        )


def _depth() -> int:
    """How far up the stack the caller is who knows nothing of this package."""
    depth, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("roadworthy."):
        depth, frame = depth + 1, frame.f_back
    return depth - 1


def _dtype_hint(port: Port, dtype: np.dtype[Any]) -> str:
    cast = f"pass {port.name}.astype(np.{port.dtype})"
    if port.dtype == "bool":
        return f"pass {port.name} != 0, or say which values mean True"
    if dtype == np.uint8 and port.dtype.startswith("float"):
        return f"{cast}, divided by 255 if the policy was trained on [0, 1]"
    if dtype.kind == "f" and np.dtype(port.dtype).kind in "iu":
        return f"{cast} if the fractions do not matter"
    return f"{cast} if that is what the policy was trained on"


def _name_findings(signature: Signature, inputs: Mapping[str, Any]) -> list[Finding]:
    known = [port.name for port in signature.inputs]
    missing = [port.name for port in signature.observed if port.name not in inputs]
    findings = []
    for name in inputs:
        if name not in known:
            memory = next((m for m in signature.memory if name in (m.name, m.input)), None)
            hint = (
                "memory is fed back by the policy itself: leave it out"
                if memory
                else did_you_mean(str(name), missing or known)
            )
            findings.append(Finding(code="RW011", where=str(name), what="no such input", hint=hint))
    return findings + [
        Finding(code="RW011", where=port.name, what=f"missing input, expected {port}")
        for port in signature.inputs
        if port.name in missing
    ]


def _wrong_shape(port: Port, value: Any, sizes: Mapping[str, int]) -> Finding:
    axis, rows = port.batch_axis, sizes.get(BATCH)
    other_rows = axis is not None and value.ndim == len(port.shape) and value.shape[axis] != rows
    expected = f"{port} with batch = {rows}" if other_rows and rows else f"{port}"
    hint = ""
    fixed = tuple(dim for dim in port.shape if dim != BATCH)
    if value.shape[-1:] != fixed[-1:] and fixed and isinstance(fixed[-1], int):
        hint = f"the last axis must be {fixed[-1]}; check the order and number of elements"
    elif value.ndim > len(port.shape):
        hint = f"drop the extra axes: {port.name}.reshape({', '.join(map(str, (-1, *fixed)))})"
    elif (
        axis is None
        and value.ndim == len(port.shape)
        and value.shape[1:] == fixed[1:]
        and isinstance(fixed[0], int)
    ):
        number = "one row" if fixed[0] == 1 else f"{fixed[0]} rows"
        hint = f"this policy was exported for {number}, no more and no fewer"
    if 0 in value.shape:
        is_batch = axis is not None and value.ndim > axis and not value.shape[axis]
        hint = (
            "the batch is empty: pass at least one row"
            if is_batch
            else "an axis is empty: none may be"
        )
    got = f"{value.dtype} {shape_text(value.shape)}"
    return Finding(code="RW012", where=port.name, what=f"expected {expected}, got {got}", hint=hint)


def _mixed(port: Port, value: Any) -> Finding:
    return Finding(
        code="RW012",
        where=port.name,
        what=f"got {shape_text(value.shape)} with a batch axis, while another input has none",
        hint="give every input a batch axis, or none",
    )
