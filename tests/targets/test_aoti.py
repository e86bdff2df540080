"""What only AOTInductor does; what it shares with every target is in test_every_target.py."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest
import torch

import roadworthy as rw
from roadworthy.errors import ExportError
from roadworthy.runtime.engine import Artifact
from roadworthy.runtime.torch_engines import graph_names, programs_in
from roadworthy.runtime.trust import judged_files
from roadworthy.spec.targets import TARGETS
from tests.targets.conftest import chooser

pytestmark = pytest.mark.xdist_group("every_target")
FILE = TARGETS["aoti"].files[0]


def test_archive_holds_no_source(whole: rw.Bundle) -> None:
    with zipfile.ZipFile(whole.folder / FILE) as archive:
        inside = [name for name in archive.namelist() if "aotinductor" in name]
        (source,) = (archive.read(name).decode() for name in inside if name.endswith(".cpp"))
    names = sorted(name.rpartition("/")[2] for name in inside)
    assert names == ["policy.wrapper.cpp", "policy.wrapper.so", "policy.wrapper_metadata.json"]
    assert source == "// What the library beside it was compiled from stays behind.\n"


def test_archive_holds_the_graph_for_a_gpu(whole: rw.Bundle) -> None:
    files = judged_files("aoti", {FILE: whole.files[FILE]}, trust=True, where=FILE)
    artifact = Artifact(files=files, signature=whole.signature, where=FILE)
    assert set(programs_in(artifact)) == set(graph_names(whole.signature))


def test_library_for_another_processor_is_refused(whole: rw.Bundle) -> None:
    """PyTorch believes this variable, so the processor seems to lack what the library uses."""
    script = f"import roadworthy as rw\nrw.load({str(whole.folder)!r}, engine='aoti', trust=True)"
    less = os.environ | {"ATEN_CPU_CAPABILITY": "default"}
    run = subprocess.run([sys.executable, "-c", script], env=less, capture_output=True, text=True)
    made_for = torch.backends.cpu.get_cpu_capability()
    what = f"[RW212] {FILE}: compiled for a processor with {made_for}, this one has DEFAULT"
    assert what in run.stderr
    assert "export on this kind of machine, or load with engine='onnx'" in run.stderr


def test_missing_compiler_is_named_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.delenv("CXX", raising=False)
    said: list[str] = []
    options = rw.ExportOptions(progress=said.append)
    with pytest.raises(ExportError) as caught:
        rw.export(chooser(), tmp_path / "chooser", targets=["onnx", "aoti"], options=options)
    assert str(caught.value) == (
        "[RW130] the target aoti needs a C++ compiler, and there is no g++ on the PATH"
        "\n  → apt install g++ (or build-essential), or leave aoti out of the targets"
    )
    assert said == ["capturing the module"]
    assert list(tmp_path.iterdir()) == []


def test_compiler_of_the_environment_is_the_one_that_is_looked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CXX", "another-c++")
    with pytest.raises(ExportError, match=r"there is no another-c\+\+ on the PATH"):
        rw.export(chooser(), tmp_path / "chooser", targets=["aoti"])


def test_temporary_folder_with_a_space_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "my files"))
    with pytest.raises(ExportError) as caught:
        rw.export(chooser(), tmp_path / "chooser", targets=["aoti"])
    assert str(caught.value) == (
        f"[RW130] {tmp_path / 'my files'}: AOTInductor cannot compile in a temporary folder with "
        "a space in its path\n  → set TMPDIR to a folder without a space in its path"
    )
