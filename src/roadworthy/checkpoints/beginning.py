"""How files begin that may be checkpoints: all that is looked at before PyTorch is imported."""

from __future__ import annotations

import struct
from pathlib import Path

ZIP, PICKLE = b"PK\x03\x04", b"\x80"
_HEADER_BYTES = 16 * 2**20


def looks_like_a_checkpoint(path: Path) -> bool:
    """Whether a file begins as checkpoints do. Nothing of it is loaded."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(16)
    return start.startswith((ZIP, PICKLE)) or is_safetensors(start, path.stat().st_size)


def is_safetensors(start: bytes, size: int) -> bool:
    """Whether a file of this size begins as safetensors do: the size of a header, and JSON."""
    if len(start) < 10:
        return False
    (header,) = struct.unpack("<Q", start[:8])
    return 2 <= header <= min(size - 8, _HEADER_BYTES) and start[8:9] == b"{"
