"""The wire format of protobuf: what is needed to read an ONNX file, and no more."""

from __future__ import annotations

import struct
from collections.abc import Iterator

# A number as it stands (varint, or the bits of a fixed one), or text or a message.
Field = int | memoryview


def fields(message: memoryview) -> Iterator[tuple[int, int, Field]]:
    """Number, wire type and content of each field; IndexError where the message is cut short."""
    place = 0
    while place < len(message):
        tag, place = varint(message, place)
        kind = tag & 7
        if kind == 0:
            value, place = varint(message, place)
            yield tag >> 3, kind, value
            continue
        if kind == 2:
            size, place = varint(message, place)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise IndexError(f"wire type {kind}")
        if place + size > len(message):
            raise IndexError("a field reaches past the end")
        content = message[place : place + size]
        yield tag >> 3, kind, content if kind == 2 else int.from_bytes(content, "little")
        place += size


def varint(message: memoryview, place: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and the place behind it."""
    value = shift = 0
    while True:
        byte = message[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place
        if shift > 63:
            raise IndexError("a number of more than 64 bits")


def signed(value: int) -> int:
    """A varint as the 64-bit number with a sign that it stands for."""
    return value - (1 << 64) if value >> 63 else value


def real(bits: int) -> float:
    """A fixed field of four bytes as the float that it holds."""
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def integers(kind: int, content: Field) -> list[int]:
    """A repeated number, packed or not."""
    if isinstance(content, int):
        return [signed(content)]
    found, place = [], 0
    while place < len(content):
        value, place = varint(content, place)
        found.append(signed(value))
    return found
