"""Where values lie in the work area: those that do not live at the same time share their place."""

from __future__ import annotations

from dataclasses import dataclass

from roadworthy.targets.c.elementwise import C_TYPES
from roadworthy.targets.c.statements import Statement, flat, touched
from roadworthy.targets.c.values import Buffer

ALIGNED = 16  # elements


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Offset of each work buffer in the area of its C type, and the size of each area."""

    offsets: dict[int, int]
    sizes: dict[str, int]


def planned(statements: tuple[Statement, ...]) -> Plan:
    """Places for all work buffers: large ones first, each at the lowest that is free.

    A buffer lives from the first statement that touches it to the last, in the order of the
    text: what is written before two branches and read in the second stays through the first.
    """
    spans: dict[int, tuple[Buffer, int, int]] = {}
    for time, statement in enumerate(flat(statements)):
        for buffer in touched(statement):
            if buffer.role == "work":
                first = spans[id(buffer)][1] if id(buffer) in spans else time
                spans[id(buffer)] = (buffer, first, time)
    offsets: dict[int, int] = {}
    sizes: dict[str, int] = {}
    placed: dict[str, list[tuple[int, int, int, int]]] = {}
    for buffer, first, last in sorted(spans.values(), key=lambda span: (-span[0].size, span[1])):
        kind = C_TYPES[buffer.dtype.name]
        step = ALIGNED if buffer.size >= ALIGNED else 1
        size = -(-buffer.size // step) * step
        offset = 0
        for start, end, begins, ends in sorted(placed.setdefault(kind, [])):
            if begins <= last and first <= ends and start < offset + size and offset < end:
                offset = -(-end // step) * step
        placed[kind].append((offset, offset + size, first, last))
        offsets[id(buffer)] = offset
        sizes[kind] = max(sizes.get(kind, 0), offset + size)
    return Plan(offsets, sizes)
