"""Whether a bundle and the source it is compared with have the same ports at all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from roadworthy.capture.source import FIRST_INPUT, STARTED, Argument, Attribute, Source
from roadworthy.errors import Finding
from roadworthy.spec.layout import layout_of, unpack
from roadworthy.spec.port import BATCH, Array, Memory, shape_text
from roadworthy.spec.signature import Signature
from roadworthy.spec.tolerance import INITIAL

CODE = "RW321"
_OTHER_CELL = "the bundle may be of another cell, such as a GRU for an LSTM: export again"


def other_ports(signature: Signature, source: Source) -> Finding | None:
    """The finding that a source has other inputs than the bundle; None where it has the same."""
    described = [*source.tensors, *(mask for mask in source.masks if mask not in source.tensors)]
    names = [port.name for port in signature.inputs]
    if sorted(described) == sorted(names):
        return None
    return Finding(
        code="RW001",
        where="against",
        what=f"the Source takes {', '.join(described)}, the bundle {', '.join(names)}",
        hint="pass the Source that the bundle was exported from, or export again",
    )


def contradictions(signature: Signature, source: Source) -> Iterator[Finding]:
    """What the bundle and a `Source` say differently about inputs and memory."""
    yield from _inputs(signature, source)
    yield from _memory(signature, source)


def _inputs(signature: Signature, source: Source) -> Iterator[Finding]:
    tensors = source.tensors
    for port in signature.inputs:
        if port.name not in tensors:
            continue
        own = tensors[port.name]
        dtype, shape = str(own.dtype).removeprefix("torch."), tuple(own.shape)
        if dtype != port.dtype:
            yield Finding(
                code=CODE,
                where=port.name,
                what=f"the original takes {dtype}, the bundle {port.dtype}: values would be cast",
                hint=f"export again with an example in {dtype}",
            )
        if len(shape) != len(port.shape) or not _fits(shape, port.shape):
            yield Finding(
                code=CODE,
                where=port.name,
                what=f"the original takes {shape_text(('batch', *shape[1:]))}, "
                f"the bundle {shape_text(port.shape)}{_axes_said(shape, port.shape)}",
                hint="export again with an example in the shape that the original takes",
            )


def _fits(shape: tuple[int, ...], declared: tuple[int | str, ...]) -> bool:
    return all(
        isinstance(dim, str) or dim == size for size, dim in zip(shape, declared, strict=True)
    )


def _axes_said(shape: tuple[int, ...], declared: tuple[int | str, ...]) -> str:
    same = sorted(map(str, shape[1:])) == sorted(map(str, declared[1:]))
    return ": the axes are swapped (HWC and CHW?)" if same and len(shape) > 2 else ""


def _memory(signature: Signature, source: Source) -> Iterator[Finding]:
    declared = {memory.name: memory for memory in signature.memory}
    known = list(source.memory)
    for name in known:
        ports = [m for m in signature.memory if m.name == name or m.name.startswith(f"{name}.")]
        if not ports:
            yield Finding(
                code=CODE,
                where=f"memory {name}",
                what="the original remembers it, the bundle does not: its state is not fed back",
                hint=f"export again with memory={{{name!r}: …}}",
            )
            continue
        start = _start(name, source.memory[name], ports)
        held = [memory.name for memory in ports]
        if start and sorted(start) != sorted(held):
            yield Finding(
                code=CODE,
                where=f"memory {name}",
                what=f"the original remembers {', '.join(start)}, the bundle {', '.join(held)}",
                hint=_OTHER_CELL,
            )
            continue
        for port, value in start.items():
            yield from _start_problems(declared[port], value)
    first = any(
        isinstance(m, Attribute) and m.initial == FIRST_INPUT for m in source.memory.values()
    )
    for port in declared:
        if first and port in STARTED:
            continue
        if not any(port == name or port.startswith(f"{name}.") for name in known):
            yield Finding(
                code=CODE,
                where=f"memory {port}",
                what="the bundle remembers it, the original does not",
                hint=_OTHER_CELL,
            )


def _start(name: str, value: Any, ports: list[Memory]) -> dict[str, Array]:
    """Where the source says that a memory starts; empty where the module knows it itself."""
    if isinstance(value, Attribute):
        told = value.initial
        if told is None or isinstance(told, str):  # current, first input: the module knows
            return {}
        return {m.name: m.fresh(1) * 0 + np.asarray(told, dtype=m.dtype) for m in ports}
    value = value.initial if isinstance(value, Argument) else value
    leaves = unpack(layout_of(name, value), value)
    return {
        port: np.asarray(leaf.detach().cpu() if hasattr(leaf, "detach") else leaf)
        for port, leaf in leaves.items()
    }


def _layout_said(shape: tuple[int, ...], declared: tuple[int | str, ...]) -> str:
    fixed = [size for size in declared if isinstance(size, int)]
    same = len(shape) == len(declared) and not set(fixed) - set(shape)
    return ": are layers and rows swapped?" if same else ""


def _start_problems(memory: Memory, value: Array) -> Iterator[Finding]:
    where = f"memory {memory.name}"
    if value.ndim != len(memory.shape) or not _fits(value.shape, memory.shape):
        yield Finding(
            code=CODE,
            where=where,
            what=f"the original keeps {value.shape}, the bundle {shape_text(memory.shape)}"
            f"{_layout_said(value.shape, memory.shape)}",
            hint="keep the layout of the original, such as (layers, batch, features)",
        )
        return
    rows = value.shape[memory.shape.index(BATCH)] if BATCH in memory.shape else 1
    fresh = memory.fresh(rows)
    if not INITIAL.close(value, fresh):
        place = np.unravel_index(int(np.abs(fresh - value).argmax()), value.shape)
        yield Finding(
            code=CODE,
            where=where,
            what=f"an episode starts at {value[place]:.6g} in the original and at "
            f"{fresh[place]:.6g} in the bundle",
            hint="reset the policy before the export: what it held became the initial value",
        )
