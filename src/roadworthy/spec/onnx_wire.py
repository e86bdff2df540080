"""The wire format of protobuf: what is needed to read an ONNX file, and no more."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator

# A number as it stands (varint, or the bits of a fixed one), or text or a message.
Field = int | memoryview


class NotAModel(ValueError):
    """The bytes are no ONNX file, or one in a form that no exporter writes."""


def fields(message: memoryview) -> Iterator[tuple[int, Field]]:
    """Number and content of each field; numbers of fixed size as their bits."""
    place, end = 0, len(message)
    while place < end:
        tag, place = varint(message, place)
        kind = tag & 7
        if kind == 0:
            value, place = varint(message, place)
            yield tag >> 3, value
            continue
        if kind == 2:  # text, or a message
            size, place = varint(message, place)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:  # groups, which onnx.proto does not have and other readers would skip
            raise NotAModel("it holds a kind of field that ONNX does not have")
        if place + size > end:
            raise NotAModel("it ends in the middle of a field")
        content = message[place : place + size]
        yield tag >> 3, content if kind == 2 else int.from_bytes(content, "little")
        place += size


def grouped(message: memoryview) -> defaultdict[int, list[Field]]:
    """Number → contents of each field, in the order of the file."""
    found = defaultdict[int, list[Field]](list)
    for number, content in fields(message):
        found[number].append(content)
    return found


def content(field: Field) -> memoryview:
    if isinstance(field, int):
        raise NotAModel("a number stands where a message should")
    return field


def number(field: Field) -> int:
    if not isinstance(field, int):
        raise NotAModel("a message stands where a number should")
    return field


def text(field: Field) -> str:
    return str(content(field), "utf-8")


def last_text(several: list[Field]) -> str:
    """A text that is there once, or not at all: the last counts, as protobuf says."""
    return text(several[-1]) if several else ""


def varint(message: memoryview, place: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and the place behind it."""
    value = shift = 0
    while place < len(message) and shift < 70:
        byte = message[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value & (2**64 - 1), place
    raise NotAModel("it ends in the middle of a number")


def signed(value: int) -> int:
    """A varint as the 64-bit number with a sign that it stands for."""
    return value - (1 << 64) if value >> 63 else value


def real(bits: int) -> float:
    """A fixed field of four bytes as the float that it holds."""
    return float(struct.unpack("<f", struct.pack("<I", bits & (2**32 - 1)))[0])


def integers(field: Field) -> list[int]:
    """A repeated number, packed or not."""
    if isinstance(field, int):
        return [signed(field)]
    found, place = [], 0
    while place < len(field):
        value, place = varint(field, place)
        found.append(signed(value))
    return found
