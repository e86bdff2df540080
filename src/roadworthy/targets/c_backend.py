"""C99: one file that any compiler takes, its header, a self-test and what builds them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from roadworthy.capture.program import Program
from roadworthy.errors import BundleError, ExportError
from roadworthy.runtime import compiler
from roadworthy.spec.bundle import POLICY
from roadworthy.spec.targets import TARGETS
from roadworthy.spec.trace import Trace
from roadworthy.targets.backend import Settings
from roadworthy.targets.c.folder.files import written
from roadworthy.targets.c.folder.interface import Interface, interface
from roadworthy.targets.c.folder.selftest import selftest
from roadworthy.targets.c.lowering import Unsupported
from roadworthy.targets.onnx.backend import OnnxBackend


@dataclass(slots=True, eq=False)
class CBackend:
    """Writes `c/` from the ONNX file: the one that lies beside it, or one made for the purpose."""

    settings: Settings = field(default_factory=Settings)
    _own: Interface | None = None

    @classmethod
    def configured(cls, settings: Settings) -> CBackend:
        try:
            compiler.command()
        except BundleError as error:
            raise ExportError(findings=error.findings) from error
        return cls(settings)

    def lower(self, program: Program, folder: Path) -> Sequence[Path]:
        self._own = self._interface(program, self._model(program, folder))
        paths = [folder / name for name in TARGETS["c"].files]
        paths[0].parent.mkdir(exist_ok=True)
        texts = written(self._own)
        for path in paths:
            path.write_text(texts.get(path.name, ""), encoding="ascii")
        return paths

    def add_trace(self, trace: Trace, folder: Path) -> None:
        """Writes the self-test, which holds what the original did."""
        assert self._own is not None
        place = next(name for name in TARGETS["c"].files if name.endswith("selftest.c"))
        (folder / place).write_text(selftest(self._own, trace), encoding="ascii")

    def _model(self, program: Program, folder: Path) -> bytes:
        if (folder / POLICY).is_file():
            return (folder / POLICY).read_bytes()
        with tempfile.TemporaryDirectory() as scratch:
            return OnnxBackend(settings=self.settings).lower(program, Path(scratch))[0].read_bytes()

    def _interface(self, program: Program, model: bytes) -> Interface:
        try:
            return interface(model, program.signature)
        except Unsupported as error:
            found = error.findings[0]
            line = OnnxBackend(settings=self.settings).line(program, found.where)
            raise ExportError(
                found.what, code=found.code, where=line or found.where, hint=found.hint
            ) from error
