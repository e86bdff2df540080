"""What an ONNX file says of itself, read without onnx and without making a session of it."""

from __future__ import annotations

from collections.abc import Iterator

# Field numbers of onnx.proto.
_METADATA, _KEY, _VALUE = 14, 1, 2


def metadata(model: bytes) -> dict[str, str]:
    """The key-value pairs that the file carries; none where it is no model."""
    found: dict[str, str] = {}
    try:
        for number, entry in _fields(memoryview(model)):
            if number == _METADATA:
                pair = {part: str(text, "utf-8") for part, text in _fields(entry)}
                found[pair.get(_KEY, "")] = pair.get(_VALUE, "")
    except (IndexError, UnicodeDecodeError):  # cut short, or never one
        return {}
    return found


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Number and content of each field of a protobuf message that has a length."""
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        if tag & 7 == 0:  # a number
            _, place = _varint(message, place)
        elif tag & 7 == 2:  # text, or a message
            size, place = _varint(message, place)
            if place + size > len(message):
                raise IndexError
            yield tag >> 3, message[place : place + size]
            place += size
        else:  # eight or four bytes; nothing else exists
            place += 8 if tag & 7 == 1 else 4


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and the place behind it."""
    value = shift = 0
    while True:
        byte = message[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place
