"""AOTInductor. Each compilation takes ten seconds and more: three of them stand for all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

import roadworthy as rw
from roadworthy.errors import BundleError, ExportError
from tests.environment.environments import ENVIRONMENTS
from tests.recurrent import Lstm

FILE = "policy.aoti.pt2"


def source() -> rw.Source:
    """A recurrent network that chooses: floats and whole numbers, memory, any batch."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        memory = {"h": torch.zeros(1, 1, 16), "c": torch.zeros(1, 1, 16)}
        example = {"obs": torch.randn(1, 6)}
        return rw.Source(Lstm(), example=example, memory=memory, action=rw.Argmax())


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> rw.Bundle:
    scratch = tmp_path_factory.mktemp("scratch")
    folder = tmp_path_factory.mktemp("aoti") / "chooser"
    environment, random, threads = dict(os.environ), torch.get_rng_state(), torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(scratch))
        made = rw.export(source(), folder, targets=["onnx", "torch_export", "aoti"])
    # torch.export, which captures, makes this one; what was compiled must not be in it.
    left = [path for path in scratch.rglob("*") if path.is_file()]
    assert left == []
    kept = {**environment, "TORCHINDUCTOR_CACHE_DIR": None}
    assert {**os.environ, "TORCHINDUCTOR_CACHE_DIR": None} == kept
    assert torch.equal(torch.get_rng_state(), random)
    assert torch.get_num_threads() == threads
    return made


def test_every_target_of_one_program_is_certified(bundle: rw.Bundle) -> None:
    certificate = rw.Certificate.from_bytes(bundle.files["certificate.json"])
    assert certificate.passed
    names = {"replay", "batch", "reset", "live"}
    for target in ("onnx", "torch_export", "aoti"):
        assert {each.name for each in certificate.checks if each.target == target} >= names
    assert bundle.targets["aoti"] == FILE


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_library_chooses_as_the_module_does(bundle: rw.Bundle, rows: int) -> None:
    policy = rw.load(bundle.folder, engine="aoti", trust=True)
    module = source().module.eval()
    values = torch.randn(100, rows, 6, generator=torch.Generator().manual_seed(rows))
    h = c = torch.zeros(1, rows, 16)
    worst = 0.0
    for obs in values:
        with torch.no_grad():
            logits, h, c = module(obs, h, c)
        assert np.array_equal(policy.act(obs.numpy()), logits.argmax(-1).numpy())
        worst = max(worst, float(np.abs(policy.memory["h"] - h.numpy()).max()))
    assert worst <= 1e-5


def test_archive_holds_no_source_and_no_path_of_this_machine(bundle: rw.Bundle) -> None:
    with zipfile.ZipFile(bundle.folder / FILE) as archive:
        names = [name.rpartition("/")[2] for name in archive.namelist() if "aotinductor" in name]
        data = b"".join(archive.read(name) for name in archive.namelist())
    assert sorted(names) == ["policy.wrapper.so", "policy.wrapper_metadata.json"]
    places = [Path.cwd(), Path.home(), tempfile.gettempdir(), "site-packages", bundle.folder.parent]
    assert not [place for place in places if f"{place}/".encode() in data]


def test_lone_library_runs_with_the_signature_inside(bundle: rw.Bundle, tmp_path: Path) -> None:
    lone = Path(shutil.copy(bundle.folder / FILE, tmp_path))
    policy = rw.load(lone, trust=True)
    assert policy.signature == bundle.signature
    obs = np.ones(6, np.float32)
    assert policy.act(obs) == rw.load(bundle.folder).act(obs)


def test_library_is_not_opened_without_trust(bundle: rw.Bundle) -> None:
    with pytest.raises(BundleError) as caught:
        rw.load(bundle.folder, engine="aoti")
    assert str(caught.value) == (
        f"[RW211] {FILE}: the file is code: it holds a compiled library that is loaded into this "
        "process\n  → trust=True (--trust), only for files that you made or whose origin you know"
    )


def test_library_for_another_processor_is_refused(bundle: rw.Bundle) -> None:
    """PyTorch believes this variable, so the processor seems to lack what the library uses."""
    script = f"import roadworthy as rw\nrw.load({str(bundle.folder)!r}, engine='aoti', trust=True)"
    less = os.environ | {"ATEN_CPU_CAPABILITY": "default"}
    run = subprocess.run([sys.executable, "-c", script], env=less, capture_output=True, text=True)
    made_for = torch.backends.cpu.get_cpu_capability()
    what = f"[RW212] {FILE}: compiled for a processor with {made_for}, this one has DEFAULT"
    assert what in run.stderr
    assert "export on this kind of machine, or load with engine='onnx'" in run.stderr


@pytest.mark.slow
def test_environment_of_two_rates_is_certified_as_a_library(tmp_path: Path) -> None:
    env, actor = ENVIRONMENTS["pd_four_ticks"]()
    bundle = rw.export_environment(env, actor, tmp_path / "pd", targets=["aoti"])
    certificate = rw.Certificate.from_bytes(bundle.files["certificate.json"])
    assert certificate.passed
    assert {check.target for check in certificate.checks} == {"aoti"}
    assert bundle.signature.decimation == 4


def test_missing_compiler_is_named_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.delenv("CXX", raising=False)
    said: list[str] = []
    options = rw.ExportOptions(progress=said.append)
    with pytest.raises(ExportError) as caught:
        rw.export(source(), tmp_path / "chooser", targets=["onnx", "aoti"], options=options)
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
        rw.export(source(), tmp_path / "chooser", targets=["aoti"])


def test_temporary_folder_with_a_space_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "my files"))
    with pytest.raises(ExportError) as caught:
        rw.export(source(), tmp_path / "chooser", targets=["aoti"])
    assert str(caught.value) == (
        f"[RW130] {tmp_path / 'my files'}: AOTInductor compiles in the temporary folder, and takes "
        "its name apart at the space\n  → set TMPDIR to a folder without one"
    )
