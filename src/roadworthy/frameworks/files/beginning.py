"""How files begin that may be checkpoints: all that is looked at before PyTorch is imported."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

ZIP, PICKLE = b"PK\x03\x04", b"\x80"
_HEADER_BYTES = 16 * 2**20


def looks_like_a_checkpoint(path: Path) -> bool:
    """Whether a file begins as checkpoints do. Nothing of it is loaded."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(16)
    if start.startswith(ZIP):
        return not _is_program(path)
    return start.startswith(PICKLE) or is_safetensors(start, path.stat().st_size)


def _is_program(path: Path) -> bool:
    """Whether a zip is a `.pt2` of torch.export, which is another thing altogether."""
    try:
        with zipfile.ZipFile(path) as opened:
            return any(name.endswith("archive_format") for name in opened.namelist())
    except (zipfile.BadZipFile, OSError, ValueError):
        return path.suffix == ".pt2"


def is_safetensors(start: bytes, size: int) -> bool:
    """Whether a file of this size begins as safetensors do: the size of a header, and JSON."""
    if len(start) < 10:
        return False
    (header,) = struct.unpack("<Q", start[:8])
    return 2 <= header <= min(size - 8, _HEADER_BYTES) and start[8:9] == b"{"
