"""torch.export: the captured graph itself, for those who stay with PyTorch."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch.export.pt2_archive._package import package_pt2

from roadworthy.capture.program import Program
from roadworthy.errors import ExportError
from roadworthy.errors.quiet import quiet
from roadworthy.spec.targets import TARGETS
from roadworthy.targets.backend import Settings
from roadworthy.targets.graphs import extra_files, fitting, without_notes


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchExportBackend:
    """Writes `policy.pt2`, which `torch.export.load` reads as well."""

    filename: str = TARGETS["torch_export"].files[0]

    @classmethod
    def configured(cls, settings: Settings) -> TorchExportBackend:
        return cls()

    def lower(self, program: Program, folder: Path) -> Sequence[Path]:
        graphs = fitting(program)
        # A buffer, not a path: the archive would carry the name of its file.
        buffer = io.BytesIO()
        try:
            with quiet(), without_notes(graphs.values()):
                package_pt2(buffer, exported_programs=graphs, extra_files=extra_files(program))
        except Exception as error:  # serialisation raises what it likes
            raise ExportError(
                f"torch.export cannot write the graph: {type(error).__name__}: {error}",
                code="RW105",
                hint="leave torch_export out of targets=[…]; ONNX may still work",
            ) from error
        path = folder / self.filename
        path.write_bytes(buffer.getvalue())
        return [path]
