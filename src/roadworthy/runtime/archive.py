"""What can be known of a `.pt2` archive without PyTorch, and without running it."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

from roadworthy.errors import BundleCorrupt, RoadworthyError
from roadworthy.spec.bundle import SIGNATURE_KEY
from roadworthy.spec.signature import Signature

METADATA_KEY = "roadworthy.metadata"
CPU_KEY = "roadworthy.cpu"
# The graphs in an archive; `model` is the name under which `torch.export.load` looks.
STEP, SUBSTEP = "model", "substep"


def is_archive(data: bytes) -> bool:
    """Whether this is a `.pt2`: each is a zip, and no ONNX file begins like one."""
    return data.startswith(b"PK")


class Archive:
    """A `.pt2` file's table of contents and its extra files: a plain zip so far."""

    def __init__(self, data: bytes, *, where: str) -> None:
        self.where = where
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as opened:
                self.names = opened.namelist()
                self._extra = {
                    name.partition("/extra/")[2]: opened.read(name)
                    for name in self.names
                    if "/extra/" in name
                }
        except (zipfile.BadZipFile, ValueError, EOFError, OSError, NotImplementedError) as error:
            raise BundleCorrupt(
                f"this is not a .pt2 archive: {error}",
                where=where,
                hint="copy the file again from its source",
            ) from error

    @property
    def target(self) -> str:
        """Which backend wrote it."""
        return (
            "aoti" if any("/data/aotinductor/" in name for name in self.names) else "torch_export"
        )

    def extra(self, key: str) -> Any:
        """The JSON under `key`, or None."""
        return json.loads(self._extra[key]) if key in self._extra else None

    @property
    def signature(self) -> Signature | None:
        """The signature that the file carries; None in a file that Roadworthy did not write."""
        try:
            data = self.extra(SIGNATURE_KEY)
            return None if data is None else Signature.from_json(data)
        except (ValueError, KeyError, TypeError, AttributeError, RoadworthyError) as error:
            raise BundleCorrupt(
                "the signature inside the file is damaged",
                where=self.where,
                hint="copy the file again from its source, or load the bundle folder",
            ) from error
