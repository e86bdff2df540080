"""What only the target c does; what it shares with every target is in test_every_target.py."""

from __future__ import annotations

import errno
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import roadworthy as rw
from roadworthy.errors import BundleError, ExportError, RoadworthyError
from roadworthy.runtime import compiler
from roadworthy.runtime.trust import written_here
from roadworthy.spec.targets import TARGETS
from tests.conftest import Exported
from tests.targets.conftest import chooser

pytestmark = pytest.mark.xdist_group("every_target")


def test_any_bundle_with_onnx_runs_compiled_and_needs_no_trust(
    export_once: Callable[[str], Exported],
) -> None:
    folder = export_once("lstm").folder
    usual, compiled = rw.load(folder), rw.load(folder, engine="c")
    lone = rw.load(folder / "policy.onnx", engine="c")
    values = np.random.default_rng(0).standard_normal((20, 3, 6)).astype(np.float32)
    for obs in values:
        wanted = usual.step({"obs": obs})["actions"]
        assert np.abs(compiled.step({"obs": obs})["actions"] - wanted).max() <= 1e-5
        assert np.abs(lone.step({"obs": obs})["actions"] - wanted).max() <= 1e-5


def test_written_again_it_gives_the_bits_of_what_was_shipped(whole: rw.Bundle) -> None:
    again = rw.load(whole.folder, engine="c")
    shipped = rw.load(whole.folder, engine="c", trust=True)
    for obs in np.random.default_rng(1).standard_normal((50, 2, 6)).astype(np.float32):
        assert np.array_equal(again.act(obs), shipped.act(obs))
        assert again.memory["h"].tobytes() == shipped.memory["h"].tobytes()


def test_two_policies_of_one_engine_do_not_mix(export_once: Callable[[str], Exported]) -> None:
    folder = export_once("lstm").folder
    one, other, alone = (rw.load(folder, engine="c") for _ in range(3))
    values = np.random.default_rng(2).standard_normal((30, 6)).astype(np.float32)
    for obs in values:
        wanted = alone.act(obs)
        other.act(-obs)
        assert np.array_equal(one.act(obs), wanted)


def test_step_in_c_takes_what_the_step_in_python_takes_and_refuses_the_rest(
    export_once: Callable[[str], Exported],
) -> None:
    """Arrays that are not in one piece, buffers, no dict, no array, other sizes and types."""
    folder = export_once("lstm").folder
    usual, compiled = rw.load(folder), rw.load(folder, engine="c")
    wide = np.random.default_rng(3).standard_normal((40, 2, 12)).astype(np.float32)
    for obs in wide:
        apart = obs[:, ::2]
        wanted = usual.step({"obs": apart})["actions"]
        assert np.abs(compiled.step({"obs": apart})["actions"] - wanted).max() <= 1e-5
    own = compiled.buffers(2)
    own["obs"][...] = wide[0, :, :6]
    given = compiled.step(own)["actions"]
    assert given.flags.owndata
    assert np.abs(given - usual.step({"obs": wide[0, :, :6]})["actions"]).max() <= 1e-5
    for wrong in (None, [], {"obs": None}, {"other": apart}, {"obs": wide[0]}, {}):
        with pytest.raises(RoadworthyError):
            compiled.step(wrong)  # type: ignore[arg-type]
    with pytest.raises(RoadworthyError, match="remembers 2 rows"):
        compiled.step({"obs": wide[0, :1, :6]})


def test_shipped_files_build_with_cmake_alone(whole: rw.Bundle, tmp_path: Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("no cmake here")
    folder = tmp_path / "robots" / "chooser"
    shutil.copytree(whole.folder, folder)
    said = (folder / "c" / "CMakeLists.txt").read_text().splitlines()[1]
    assert said.startswith("#     cmake -S . ")
    words = ["sh", "-e", "-c", said.lstrip("# ")]
    done = subprocess.run(words, cwd=folder / "c", capture_output=True, text=True)
    assert "100% tests passed, 0 tests failed out of 1" in done.stdout, done.stderr
    rw.verify(folder).raise_if_failed()  # nothing was built inside of it


def test_c_alone_is_code_and_needs_trust(tmp_path: Path) -> None:
    bundle = rw.export(chooser(), tmp_path / "chooser", targets=["c"])
    assert bundle.targets == {"c": TARGETS["c"].files}
    with pytest.raises(BundleError, match=r"\[RW211\] c/policy.c: the file is code"):
        rw.load(bundle.folder, engine="c")
    rw.load(bundle.folder, engine="c", trust=True).act(np.zeros(6, np.float32))


@pytest.mark.slow
def test_certificate_with_an_environment_has_the_closed_loop_of_the_compiled_file(
    tmp_path: Path,
) -> None:
    torch.manual_seed(0)
    actor = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
    example = {"obs": torch.zeros(1, 4)}
    rw.export(actor, tmp_path / "x", example=example, action=rw.Argmax(), targets=["onnx", "c"])
    found = rw.verify(tmp_path / "x", against=actor, env="CartPole-v1", episodes=3, trust=True)
    found.raise_if_failed()
    assert [each.target for each in found.checks if each.name == "closed loop"] == ["onnx", "c"]


def test_certificate_states_that_the_bits_do_not_depend_on_the_build(whole: rw.Bundle) -> None:
    found = rw.Certificate.from_bytes(whole.files["certificate.json"])
    (check,) = (each for each in found.checks if each.name == "bits")
    assert (check.target, check.passed, check.steps) == ("c", True, 64)
    assert check.claim == (
        "compiled with this processor's vectors and without any, it gives the same bits"
    )
    assert {each.port for each in check.differences} == {"actions", "memory h", "memory c"}


def test_flags_that_the_file_refuses_are_looked_for_in_cc(
    whole: rw.Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "gcc -ffast-math")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(BundleError, match="CC holds flags that make actions wrong"):
        rw.load(whole.folder, engine="c")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="fuses with -mfma alone")
def test_compiler_that_fuses_is_refused_and_its_flag_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without vectors there is nothing to fuse with, and the two builds differ."""
    monkeypatch.setenv("CC", "gcc -DPOLICY_FAST")
    with pytest.raises(rw.CertificateFailed) as caught:
        rw.export(chooser(), tmp_path / "chooser", targets=["c"])
    assert "c bits" in str(caught.value)
    assert "leave out of CC what lets it fuse sums and products (-DPOLICY_FAST" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_missing_compiler_is_named_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "tcc-of-nobody -O2")
    with pytest.raises(ExportError) as caught:
        rw.export(chooser(), tmp_path / "chooser", targets=["onnx", "c"])
    assert str(caught.value) == (
        "[RW130] the target c needs a C compiler, and there is no tcc-of-nobody, which CC names"
        "\n  → apt install gcc, or pip install ziglang; or leave c out of targets=[…], "
        "or load with engine='onnx'"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [" ", "gcc 'x"])
def test_a_compiler_that_cannot_be_read_is_named(
    words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", words)
    with pytest.raises(BundleError, match=r"RW130.*CC=.* cannot be read as a command"):
        compiler.library(written_here({"policy.c": "int policy;"}))


def test_what_the_linker_says_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "gcc -Wl,--bogus")
    with pytest.raises(BundleError, match=r"cannot compile the policy: .*bogus"):
        compiler.library(written_here({"policy.c": "int policy;"}))


def test_a_cache_that_depends_on_the_working_folder_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    monkeypatch.chdir(tmp_path)
    compiler.library(written_here({"policy.c": "int policy;"}))
    assert list((tmp_path / ".cache" / "roadworthy" / "c").glob("*.so"))
    assert not (tmp_path / "cache").exists()


def test_cache_that_others_may_write_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "roadworthy" / "c"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(BundleError, match="others may write to"):
        compiler.library(written_here({"policy.c": "int policy;"}))


def test_second_load_compiles_nothing(
    whole: rw.Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    rw.load(whole.folder, engine="c")
    first = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.so")}
    rw.load(whole.folder, engine="c")
    assert len(first) == 1
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.so")} == first


def test_half_a_library_in_the_cache_is_compiled_again(
    whole: rw.Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a power cut leaves: to open it would end the process, so a child opens it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    words = "import sys, roadworthy as rw; rw.load(sys.argv[1], engine='c')"
    load = [sys.executable, "-c", words, str(whole.folder)]
    subprocess.run(load, check=True)
    sizes = {place: place.stat().st_size for place in tmp_path.rglob("*.so")}
    for place in sizes:  # the policy, and what steps it
        place.write_bytes(place.read_bytes()[:1000])
    subprocess.run(load, check=True)
    for proof in tmp_path.rglob("*.sha256"):
        proof.write_bytes(b"\xff" * 64)
    subprocess.run(load, check=True)
    assert {place: place.stat().st_size for place in tmp_path.rglob("*.so")} == sizes


def test_where_nothing_can_be_kept_the_engine_works_all_the_same(
    whole: rw.Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    compiler._passing.cache_clear()
    rw.load(whole.folder, engine="c")
    assert list(compiler._passing().glob("*.so"))


def test_full_disk_is_not_blamed_on_the_compiler(
    whole: rw.Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = tmp_path / "cc"
    full.write_text("#!/bin/sh\necho \"Fatal error: 'No space left on device'\" >&2\nexit 1\n")
    full.chmod(0o755)
    monkeypatch.setenv("CC", str(full))
    with pytest.raises(BundleError, match="XDG_CACHE_HOME to a folder on another disk"):
        rw.load(whole.folder, engine="c")


def test_a_library_that_cannot_be_kept_is_not_blamed_on_the_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiler was content, and then the disk is full."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(compiler.CannotCompile) as caught:
        compiler.library(written_here({"policy.c": "int policy;"}))
    assert "No space left on device" in str(caught.value)
    assert "set XDG_CACHE_HOME to a folder on another disk" in str(caught.value)


def test_a_compiler_that_does_not_end_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "cc"
    slow.write_text('#!/bin/sh\ncase "$*" in *--version) echo 1;; *) sleep 60;; esac\n')
    slow.chmod(0o755)
    monkeypatch.setenv("CC", str(slow))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(compiler, "_SECONDS", 1)
    with pytest.raises(compiler.CannotCompile, match="cc is not done with the policy after 1 sec"):
        compiler.library(written_here({"policy.c": "int policy;"}))
