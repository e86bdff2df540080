"""How much a file may ask for. Whatever asks for more is refused before it is read or unpacked."""

from __future__ import annotations

from roadworthy.errors import BundleError

KIBI, MEBI, GIBI = 2**10, 2**20, 2**30

# A file of a bundle, as it lies on the disk.
FILE_BYTES = 4 * GIBI
SUMS_BYTES = MEBI
# manifest.json, certificate.json, and a signature inside another file; the rest of it nests less.
JSON_BYTES, JSON_DEPTH = 64 * MEBI, 64
# All arrays of trace.npz, unpacked.
TRACE_BYTES = GIBI
# The notes in a `.pt2`, which are read before anybody trusted the file.
NOTES_BYTES = 64 * MEBI
# One row of a port or of a memory.
ROW_BYTES = GIBI
# Ticks from one decision to the next: a day's thought at 10 kHz is no policy.
DECIMATION = 10_000


_COPY_AGAIN = "the file is damaged, or somebody made it so: copy it again from its source"


def refuse_larger(
    what: str, size: int, most: int, *, where: str = "", hint: str = _COPY_AGAIN
) -> None:
    """An error if `size` bytes are more than `most`."""
    if size > most:
        raise BundleError(
            f"{what} {size_text(size)}, at most {size_text(most)} is read",
            code="RW204",
            where=where,
            hint=hint,
        )


def size_text(size: int) -> str:
    """`1.5 GiB`: a number of bytes as a person writes it."""
    for unit, name in ((GIBI, "GiB"), (MEBI, "MiB"), (KIBI, "KiB")):
        if size >= unit:
            return f"{size / unit:.4g} {name}"
    return f"{size} bytes"
