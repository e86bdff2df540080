"""Statements as lines of C."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from roadworthy.spec.port import Array
from roadworthy.targets.c.constants import SHORT, Constants, literal
from roadworthy.targets.c.elementwise import C_TYPES, expression, wide
from roadworthy.targets.c.loops import Nest, tabled
from roadworthy.targets.c.planning import Plan
from roadworthy.targets.c.statements import Branch, Call, Scatter, Statement, Store
from roadworthy.targets.c.values import Buffer, Leaf, Value

# So few elements without a common stride are written one by one, without a table.
FEW = 4
_INDENT = "    "


@dataclass(slots=True, eq=False)
class Writer:
    """Turns statements into lines; constants and tables of places gather on the way."""

    plan: Plan
    names: dict[int, str]
    constants: Constants = field(default_factory=Constants)

    def lines(self, statements: Sequence[Statement], depth: int = 1) -> Iterator[str]:
        for each in statements:
            for line in self._lines(each):
                yield _INDENT * depth + line
            if isinstance(each, Branch):
                yield _INDENT * depth + f"if ({self._element(each.condition)}) {{"
                yield from self.lines(each.then, depth + 1)
                yield _INDENT * depth + "} else {"
                yield from self.lines(each.otherwise, depth + 1)
                yield _INDENT * depth + "}"

    def _lines(self, statement: Statement) -> list[str]:
        if isinstance(statement, Call):
            return statement.text(self.address)
        if isinstance(statement, Store):
            return self._store(statement)
        if isinstance(statement, Scatter):
            return self._scatter(statement)
        return []

    def address(self, buffer: Buffer) -> str:
        base, offset = self._place(buffer)
        return f"{base} + {offset}" if offset else base

    def _place(self, buffer: Buffer) -> tuple[str, int]:
        if buffer.role in ("input", "output"):
            return self.names[id(buffer)], 0
        if buffer.data is not None:
            kind, offset = self.constants.offset(buffer.data)
            return f"c{SHORT[kind]}", offset
        return SHORT[C_TYPES[buffer.dtype.name]], self.plan.offsets[id(buffer)]

    def _element(self, leaf: Leaf) -> str:
        base, offset = self._place(leaf.buffer)
        return f"{base}[{offset + int(leaf.index.flat[0])}]"

    # ------------------------------------------------------------------ loops
    def _store(self, store: Store) -> list[str]:
        count = len(store.places)
        columns = _Columns(store.value, store.value.shape)
        places = np.asarray(store.places)
        order = np.argsort(places, kind="stable")
        if not (np.diff(places) > 0).all() and (np.diff(places[order]) > 0).all():
            columns.reorder(order)
            places = places[order]
        base, offset = self._place(store.target)
        half = store.target.dtype == np.float16 and store.target.role == "output"

        def body(at: Callable[[int], str]) -> list[str]:
            value = self._value(store.value, columns, at)
            target = f"{base}[{at(-1)}]"
            return [f"{target} = {_stored(value, store.target.dtype, half=half)};"]

        return self._looped([places + offset, *self._offsets(columns)], body, count)

    def _scatter(self, scatter: Scatter) -> list[str]:
        columns = _Columns(scatter.value, scatter.value.shape)
        columns.add(scatter.place, scatter.value.shape)
        base, offset = self._place(scatter.target)
        count = int(np.prod(scatter.value.shape, dtype=np.int64))

        def body(at: Callable[[int], str]) -> list[str]:
            value = self._value(scatter.value, columns, at)
            place = self._value(scatter.place, columns, at)
            target = f"{base}[{offset} + {place}]"
            kind, real = C_TYPES[scatter.target.dtype.name], scatter.target.dtype.kind == "f"
            sides = (target, value) if real else (f"({wide(kind)}){e}" for e in (target, value))
            old, new = sides
            # What is no number stays, and what meets one becomes none.
            lost = f" || {value} != {value}" if real else ""
            joined = {
                "none": value,
                "add": f"{old} + {new}",
                "mul": f"{old} * {new}",
                "max": f"{target} <= {value}{lost} ? {value} : {target}",
                "min": f"{target} >= {value}{lost} ? {value} : {target}",
            }[scatter.how]
            return [f"{target} = {joined if real else f'({kind})({joined})'};"]

        return self._looped([np.zeros(count, np.int64), *self._offsets(columns)], body, count)

    def _offsets(self, columns: _Columns) -> list[Array]:
        """The places of each column in the area that its buffer lies in."""
        return [
            places + (self._place(leaf.buffer)[1] if leaf.buffer.role != "iota" else 0)
            for leaf, places in zip(columns.leaves, columns.places, strict=True)
        ]

    def _looped(
        self,
        columns: list[Array],
        body: Callable[[Callable[[int], str]], list[str]],
        count: int,
    ) -> list[str]:
        """The body once for each element; `at(i)` is the place in column i, −1 the target's."""
        nest, tables = tabled(columns)
        if tables and count <= FEW:
            lines = []
            for element in range(count):
                lines += body(_fixed(columns, element))
            return lines
        named = {}
        for column in tables:
            largest = int(columns[column].max())
            kind = np.uint8 if largest < 256 else np.uint16 if largest < 65536 else np.int32
            c_type, start = self.constants.offset(columns[column].astype(kind))
            named[column] = (f"c{SHORT[c_type]}", start)

        def at(column: int) -> str:
            plain = _affine(nest, column + 1)
            if column + 1 not in named:
                return plain
            base, start = named[column + 1]
            return f"{base}[{start} + {plain}]"

        lines = []
        for depth, extent in enumerate(nest.extents):
            name = f"i{depth}"
            lines.append(_INDENT * depth + f"for (int {name} = 0; {name} < {extent}; {name}++) {{")
        depth = len(nest.extents)
        lines += [_INDENT * depth + line for line in body(at)]
        return lines + [_INDENT * each + "}" for each in reversed(range(depth))]

    # ------------------------------------------------------------------ expressions
    def _value(self, value: Value, columns: _Columns, at: Callable[[int], str]) -> str:
        if isinstance(value, Leaf):
            return self._leaf(value, columns, at)
        args = [self._value(each, columns, at) for each in value.args]
        if value.op == "Lookup" and value.source is not None:
            base, offset = self._place(value.source)
            return f"{base}[{offset} + {args[0]}]" if offset else f"{base}[{args[0]}]"
        if value.op == "Wrap":
            return f"rw_wrap({args[0]}, {args[1]})"
        return expression(value, args)

    def _leaf(self, leaf: Leaf, columns: _Columns, at: Callable[[int], str]) -> str:
        if leaf.buffer.data is not None and leaf.buffer.size == 1:
            return literal(leaf.buffer.data[0])
        place = at(columns.column(leaf))
        if leaf.buffer.role == "iota":
            return f"(int64_t)({place})"
        base, _ = self._place(leaf.buffer)
        text = f"{base}[{place}]"
        half = leaf.dtype == np.float16 and leaf.buffer.role in ("input", "output")
        return f"rw_from_half({text})" if half else text


class _Columns:
    """The leaves of a value that a loop must find, each once, with their places in loop order."""

    def __init__(self, value: Value, shape: tuple[int, ...]) -> None:
        self.leaves: list[Leaf] = []
        self.places: list[Array] = []
        self._of: dict[int, int] = {}
        self.add(value, shape)

    def add(self, value: Value, shape: tuple[int, ...]) -> None:
        if isinstance(value, Leaf):
            if not (value.buffer.data is not None and value.buffer.size == 1):
                self._of[id(value)] = self._column(
                    value, np.broadcast_to(value.index, shape).ravel()
                )
            return
        for each in value.args:
            self.add(each, shape)

    def _column(self, leaf: Leaf, places: Array) -> int:
        for column, (known, held) in enumerate(zip(self.leaves, self.places, strict=True)):
            if known.buffer is leaf.buffer and np.array_equal(held, places):
                return column
        self.leaves.append(leaf)
        self.places.append(places)
        return len(self.leaves) - 1

    def reorder(self, order: Array) -> None:
        self.places = [each[order] for each in self.places]

    def column(self, leaf: Leaf) -> int:
        return self._of[id(leaf)]


def _fixed(columns: list[Array], element: int) -> Callable[[int], str]:
    return lambda column: str(int(columns[column + 1][element]))


def _affine(nest: Nest, column: int) -> str:
    """`start + i0 * stride + …` for one column."""
    terms = [str(nest.starts[column])] if nest.starts[column] or not nest.extents else []
    for depth, stride in enumerate(each[column] for each in nest.strides):
        if stride:
            times = f"i{depth}" if abs(stride) == 1 else f"i{depth} * {abs(stride)}"
            terms.append(times if stride > 0 else f"- {times}")
    text = " + ".join(terms or ["0"]).replace("+ - ", "- ")
    return f"0 {text}" if text.startswith("- ") else text


def _stored(value: str, dtype: np.dtype, *, half: bool) -> str:
    if half:
        return f"rw_to_half({value})"
    return value if dtype.kind == "f" else f"({C_TYPES[dtype.name]})({value})"
