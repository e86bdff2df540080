"""What can be known of a `.pt2` archive without PyTorch, and without running it."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from typing import Any

from roadworthy.errors import BundleCorrupt
from roadworthy.spec.bundle import SIGNATURE_KEY
from roadworthy.spec.json_file import from_json
from roadworthy.spec.limits import MEBI, NOTES_BYTES, refuse_larger
from roadworthy.spec.manifest import read_signature
from roadworthy.spec.signature import Signature

METADATA_KEY = "roadworthy.metadata"
CPU_KEY = "roadworthy.cpu"
# How many times its own size an archive may unpack to.
MOST_TIMES = 4
_UNREADABLE = (ValueError, EOFError, OSError, RuntimeError, struct.error)
# The graphs in an archive; `model` is the name under which `torch.export.load` looks.
STEP, SUBSTEP = "model", "substep"
_LIBRARIES = "/data/aotinductor/"


def is_archive(data: bytes) -> bool:
    """Whether this is a `.pt2`: each is a zip, and no ONNX file begins like one."""
    return data.startswith(b"PK")


def graphs_alone(data: bytes) -> bytes:
    """The archive without the libraries in it, which PyTorch would load along with the graphs."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w") as new:
        for name in old.namelist():
            if _LIBRARIES not in name:
                new.writestr(name, old.read(name))
    return buffer.getvalue()


class Archive:
    """A `.pt2` file's table of contents and its extra files: a plain zip so far."""

    def __init__(self, data: bytes, *, where: str) -> None:
        self.where = where
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as opened:
                self.names = opened.namelist()
                entries = opened.infolist()
                # A `.pt2` is stored as it is; one that unpacks to far more was made to.
                whole = sum(each.file_size for each in entries)
                refuse_larger("it unpacks to", whole, MOST_TIMES * len(data) + MEBI, where=where)
                notes = [each for each in entries if "/extra/" in each.filename]
                size = sum(each.file_size for each in notes)
                refuse_larger("its notes unpack to", size, NOTES_BYTES, where=where)
                # zipfile reads no more of an entry than the size that was just looked at.
                self._extra = {
                    each.filename.partition("/extra/")[2]: opened.read(each) for each in notes
                }
        except (zipfile.BadZipFile, zlib.error, *_UNREADABLE) as error:
            raise BundleCorrupt(
                f"this is not a .pt2 archive: {error}",
                where=where,
                hint="copy the file again from its source",
            ) from error

    @property
    def target(self) -> str:
        """Which backend wrote it."""
        return "aoti" if any(_LIBRARIES in name for name in self.names) else "torch_export"

    def extra(self, key: str) -> Any:
        """The JSON under `key`, or None."""
        if key not in self._extra:
            return None
        return from_json(self._extra[key], where=f"{self.where}: {key}")

    @property
    def signature(self) -> Signature | None:
        """The signature that the file carries; None in a file that Roadworthy did not write."""
        data = self.extra(SIGNATURE_KEY)
        if data is None:
            return None
        return read_signature(data, where=f"{self.where}, the signature inside")
