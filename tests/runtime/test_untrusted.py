"""Files that somebody else made: what they may ask for, and what a first load costs."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import roadworthy as rw
from roadworthy.runtime import canary
from roadworthy.spec.onnx_file import external_data
from roadworthy.spec.onnx_wire import NotAModel
from tests import hostile

OBS = np.ones(hostile.WIDTH, np.float32)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and a process that has seen no file."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(canary, "_seen", set())
    return tmp_path / "cache" / "roadworthy" / "known-1"


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The commands of all processes that were started."""
    started: list[Any] = []
    real = subprocess.Popen

    class Recorded(real):  # type: ignore[type-arg,misc,valid-type]
        def __init__(self, command: Any, **options: Any) -> None:
            started.append(command)
            super().__init__(command, **options)

    monkeypatch.setattr(subprocess, "Popen", Recorded)
    return started


def write(folder: Path, data: bytes) -> Path:
    path = folder / "policy.onnx"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("place", hostile.EXTERNAL)
@pytest.mark.parametrize("tried", [True, False])
def test_external_data_is_refused_wherever_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, tried: bool
) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(4 * hostile.WIDTH))
    monkeypatch.chdir(tmp_path)
    data = hostile.EXTERNAL[place]().SerializeToString()
    folder = hostile.sealed(tmp_path / "bundle", {"policy.onnx": data})
    for path in (folder, write(tmp_path, data)):
        with pytest.raises(rw.BundleError) as caught:
            rw.load(path, canary=tried)
        assert caught.value.findings[0].code == "RW203"
        assert "the values of the tensor 'w' are in another file" in str(caught.value)


def test_policy_without_external_data_has_none() -> None:
    assert external_data(hostile.smooth()) is None


def test_field_that_readers_understand_differently_is_no_model() -> None:
    group = struct.pack("BB", 100 << 3 & 127 | 3 | 128, 100 >> 4)  # a group, which others skip
    for data in (group, b"\x3a\x7f", b"\xff" * 20):
        with pytest.raises(NotAModel):
            external_data(data)


def test_first_load_starts_one_child_and_later_ones_none(
    tmp_path: Path, cache: Path, children: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, hostile.smooth())
    assert np.allclose(rw.load(path).act(OBS), 0.1)
    assert len(children) == 1
    assert len(list(cache.iterdir())) == 1
    rw.load(path)
    monkeypatch.setattr(canary, "_seen", set())  # as in another process
    rw.load(path)
    assert len(children) == 1


def test_other_file_is_tried_too(tmp_path: Path, children: list[Any]) -> None:
    rw.load(write(tmp_path, hostile.smooth()))
    rw.load(write(tmp_path, hostile.loop(3)))
    assert len(children) == 2


def test_switched_off_it_starts_no_child_and_touches_no_cache(
    tmp_path: Path, cache: Path, children: list[Any]
) -> None:
    rw.load(write(tmp_path, hostile.smooth()), canary=False)
    rw.verify(hostile.sealed(tmp_path / "bundle"), canary=False).raise_if_failed()
    assert children == []
    assert not cache.exists()


def test_cache_that_cannot_be_written_is_done_without(
    tmp_path: Path, children: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "below"))
    path = write(tmp_path, hostile.smooth())
    rw.load(path)
    rw.load(path)
    assert len(children) == 1  # this process remembers


def test_cache_does_not_grow_for_ever(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canary, "MOST_REMEMBERED", 4)
    for number in range(10):
        canary.remember([str(number).encode()])
    assert 0 < len(list(cache.iterdir())) <= 4


def test_loop_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canary, "BASE_SECONDS", 1)
    monkeypatch.setattr(canary, "MOST_WAIT_S", 20)
    with pytest.raises(
        rw.BundleError, match=r"child process, which (computed|did not come)"
    ) as got:
        rw.load(write(tmp_path, hostile.loop(2**60)))
    assert got.value.findings[0].code == "RW204"
    assert "canary=False (--no-canary)" in got.value.findings[0].hint


def test_constant_of_gigabytes_is_refused(tmp_path: Path, cache: Path) -> None:
    folder = hostile.sealed(tmp_path / "b", {"policy.onnx": hostile.huge_constant(2**31)})
    for use in (rw.load, rw.verify):
        with pytest.raises(
            rw.BundleError, match=r"child process, which asked for more than \d+ MiB"
        ):
            use(folder)
    assert not cache.exists()


def test_child_that_crashes_is_no_crash_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canary, "FINE", -9)  # as if the code of a good end were another one
    with pytest.raises(rw.BundleError, match="child process, which ended with code 0"):
        rw.load(write(tmp_path, hostile.smooth()))


def test_no_interpreter_to_start_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(rw.BundleError, match="no child process can be started") as caught:
        rw.load(write(tmp_path, hostile.smooth()))
    assert "canary=False" in caught.value.findings[0].hint
    rw.load(write(tmp_path, hostile.smooth()), canary=False)


def test_child_imports_nothing_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = "import pathlib; pathlib.Path(__file__).with_suffix('.ran').touch()"
    for name in ("numpy", "onnxruntime", "resource"):
        (tmp_path / f"{name}.py").write_text(trap)
    path = write(tmp_path, hostile.smooth())
    monkeypatch.chdir(tmp_path)
    rw.load(path)
    assert not list(tmp_path.glob("*.ran"))


def test_file_that_fails_in_the_child_says_so_here(tmp_path: Path) -> None:
    broken = hostile.smooth().replace(b"Identity", b"Identita")
    with pytest.raises(rw.BundleError, match=r"onnxruntime [\d.]+ cannot load the model"):
        rw.load(write(tmp_path, broken))


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="no users")
def test_somebody_elses_word_does_not_count(
    tmp_path: Path, cache: Path, children: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, hostile.smooth())
    rw.load(path)
    monkeypatch.setattr(canary, "_seen", set())
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    rw.load(path)
    assert len(children) == 2
