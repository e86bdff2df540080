"""Numbers as C writes them: single ones, and those that the file holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from roadworthy.spec.port import Array
from roadworthy.targets.c.elementwise import C_TYPES

SHORT = {
    "float": "f", "double": "d", "int8_t": "i8", "int16_t": "i16", "int32_t": "i32",
    "int64_t": "i64", "uint8_t": "u8", "uint16_t": "u16", "uint32_t": "u32", "uint64_t": "u64",
}  # fmt: skip
# A constant that the engine hands over instead of compiling it.
HANDED = ("float", "double")


@dataclass(slots=True, eq=False)
class Constants:
    """Every constant of the file, by its C type; equal ones are stored once."""

    parts: dict[str, list[Array]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    _seen: dict[tuple[str, bytes], int] = field(default_factory=dict)

    def offset(self, data: Array) -> tuple[str, int]:
        """The C type and the place of some numbers, which are added where they are new."""
        kind = C_TYPES[data.dtype.name]
        flat = np.ascontiguousarray(data.astype(np.float32) if data.dtype == np.float16 else data)
        key = (kind, flat.tobytes())
        if key not in self._seen:
            # Weights begin where a vector begins.
            start = self.sizes.get(kind, 0)
            start = -(-start // 16) * 16 if flat.size >= 16 else start
            gap = start - self.sizes.get(kind, 0)
            held = self.parts.setdefault(kind, [])
            held += [np.zeros(gap, flat.dtype)] if gap else []
            held.append(flat.ravel())
            self.sizes[kind] = start + flat.size
            self._seen[key] = start
        return kind, self._seen[key]

    def arrays(self) -> dict[str, Array]:
        return {kind: np.concatenate(parts) for kind, parts in self.parts.items()}


def declared(kind: str, array: Array) -> Iterator[str]:
    """The lines of a constant array."""
    name = f"c{SHORT[kind]}"
    if kind in HANDED:
        yield from _texts(kind, name, np.ascontiguousarray(array).tobytes())
    else:
        yield f"static const {kind} rw_{name}[{array.size}] = {{"
        # C has no numbers below zero: what is negated must fit, and the lowest of a type does not.
        lowest = {-(2**63): "INT64_MIN", -(2**31): "INT32_MIN"}
        suffix = "u" if kind in ("uint64_t", "uint32_t") else ""
        whole = map(int, array.tolist())
        yield from _wrapped([lowest.get(each, f"{each}{suffix}") for each in whole])
        yield "};"
    yield ""


# Bytes as C writes them in a text; quotes, and what it might take for a trigraph, as numbers.
_LETTERS = tuple(
    chr(byte) if 32 <= byte < 127 and chr(byte) not in '\\"?' else f"\\{byte:03o}"
    for byte in range(256)
)
# Bytes in one text: C99 wants no compiler to take more than 4095.
_TEXT = 4080


# Some compilers warn of a text without the zero behind it, which C99 leaves out where it is full.
_UNTERMINATED = """\
#if defined(__clang__)
#if __has_warning("-Wunterminated-string-initialization")
#pragma clang diagnostic ignored "-Wunterminated-string-initialization"
#endif
#elif defined(__GNUC__) && __GNUC__ >= 15
#pragma GCC diagnostic ignored "-Wunterminated-string-initialization"
#endif"""


def _texts(kind: str, name: str, data: bytes) -> Iterator[str]:
    """Numbers as texts: a compiler reads them ten times as fast as numbers."""
    count = -(-len(data) // _TEXT)
    length = -(-len(data) // (8 * count)) * 8  # alike, so that hardly a byte is left over
    size = count * length // (4 if kind == "float" else 8)
    yield _UNTERMINATED
    yield f"static const union {{ char bytes[{count}][{length}]; {kind} values[{size}]; }}"
    yield f"rw_{name} = {{{{"
    for start in range(0, len(data), length):
        yield '"' + "".join(map(_LETTERS.__getitem__, data[start : start + length])) + '",'
    yield "}};"


def _wrapped(words: list[str], each: int = 12) -> Iterator[str]:
    for start in range(0, len(words), each):
        yield ",".join(words[start : start + each]) + ","


def literal(number: np.generic) -> str:
    """A number as C writes it, to the last bit."""
    if number.dtype.kind == "f":
        value = float(number)
        suffix = "" if number.dtype == np.float64 else "f"
        if value != value:
            return "NAN"
        if abs(value) == float("inf"):
            return "HUGE_VAL" + suffix.upper() if value > 0 else f"(-HUGE_VAL{suffix.upper()})"
        digits = 17 if number.dtype == np.float64 else 9
        text = f"{value:.{digits}g}"
        text = text if any(each in text for each in ".e") else f"{text}.0"
        text += suffix
    elif number.dtype == bool:
        text = "1" if number else "0"
    elif number.dtype.itemsize == 8:
        whole = int(number)
        if whole == np.iinfo(np.int64).min and number.dtype.kind == "i":
            return "INT64_MIN"
        text = f"UINT64_C({whole})" if number.dtype.kind == "u" else f"INT64_C({abs(whole)})"
        text = text if whole >= 0 else f"-{text}"
    else:
        whole = int(number)
        if whole == -(2**31):
            return "INT32_MIN"
        text = (
            f"{whole}u" if number.dtype.kind == "u" and number.dtype.itemsize == 4 else str(whole)
        )
    return f"({text})" if text.startswith("-") else text
