"""What an ONNX file says of itself, read without onnx and without making a session of it."""

from __future__ import annotations

from roadworthy.cfile.protobuf import fields

# Field numbers of onnx.proto.
_METADATA, _KEY, _VALUE = 14, 1, 2


def metadata(model: bytes) -> dict[str, str]:
    """The key-value pairs that the file carries; none where it is no model."""
    found: dict[str, str] = {}
    try:
        for number, _, entry in fields(memoryview(model)):
            if number == _METADATA and not isinstance(entry, int):
                parts = [(part, text) for part, _, text in fields(entry)]
                pair = {p: str(t, "utf-8") for p, t in parts if not isinstance(t, int)}
                found[pair.get(_KEY, "")] = pair.get(_VALUE, "")
    except (IndexError, UnicodeDecodeError):  # cut short, or never one
        return {}
    return found
