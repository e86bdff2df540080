"""Reading a bundle: whatever is not what was certified is refused before anything parses it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import roadworthy as rw
from roadworthy.errors import BundleCorrupt, BundleError
from roadworthy.spec.sealing import new_bundle
from roadworthy.spec.targets import TARGETS
from tests.conftest import Exported

FILES = ["SHA256SUMS", "certificate.json", "manifest.json", "policy.onnx", "trace.npz"]


@pytest.fixture
def folder(export_once: Callable[[str], Exported], tmp_path: Path) -> Path:
    return Path(shutil.copytree(export_once("lstm").folder, tmp_path / "lstm"))


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls of every parser, as they happen: proof that none happened."""
    calls: list[str] = []
    parsers = (
        (json, "loads"), (json, "load"), (np, "load"), (np.lib.format, "read_magic"),
        (onnxruntime, "InferenceSession"),
    )  # fmt: skip
    for owner, name in parsers:
        real = getattr(owner, name)

        def recorded(*args: Any, real: Any = real, name: str = name, **kwargs: Any) -> Any:
            calls.append(name)
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, recorded)
    return calls


def positions(size: int) -> list[int]:
    """Both ends of a file, and forty places between them."""
    spread = range(0, size, max(1, size // 40))
    return sorted({*range(min(8, size)), *spread, *range(max(0, size - 8), size)})


def test_whole_bundle_is_parsed(folder: Path, parsed: list[str]) -> None:
    rw.verify(folder).raise_if_failed()
    assert {"loads", "read_magic", "InferenceSession"} <= set(parsed)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("use", [rw.load, rw.verify, rw.Bundle.open], ids=lambda f: f.__name__)
def test_one_flipped_bit_anywhere_is_refused_before_any_parser(
    folder: Path, parsed: list[str], name: str, use: Callable[[Path], Any]
) -> None:
    whole = (folder / name).read_bytes()
    for index, position in enumerate(positions(len(whole))):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << index % 8
        (folder / name).write_bytes(damaged)
        with pytest.raises(BundleCorrupt):
            use(folder)
    assert parsed == []


def test_damaged_file_is_named_with_both_sums(folder: Path) -> None:
    data = (folder / "policy.onnx").read_bytes()
    (folder / "policy.onnx").write_bytes(data + b"\x00")
    expected, got = (hashlib.sha256(each).hexdigest()[:12] for each in (data, data + b"\x00"))
    with pytest.raises(BundleCorrupt) as caught:
        rw.load(folder)
    assert str(caught.value) == (
        f"[RW201] {folder}: policy.onnx is not the file that was certified: "
        f"SHA-256 expected {expected}…, got {got}…"
        "\n  → copy the bundle again from its source, or export it again"
    )


@pytest.mark.parametrize("name", FILES[1:])
@pytest.mark.parametrize("how", ["missing", "empty", "half", "link", "folder"])
def test_lost_file_is_refused(folder: Path, parsed: list[str], name: str, how: str) -> None:
    path = folder / name
    data = path.read_bytes()
    path.unlink()
    if how == "empty":
        path.write_bytes(b"")
    if how == "half":
        path.write_bytes(data[: len(data) // 2])
    if how == "link":
        (folder.parent / "outside").write_bytes(data)
        path.symlink_to(folder.parent / "outside")
    if how == "folder":
        path.mkdir()
    with pytest.raises(
        BundleCorrupt, match=f"{name} is (missing|a link|not the file that was certified)"
    ):
        rw.load(folder)
    assert parsed == []


@pytest.mark.parametrize("lines", range(4))
def test_sums_cut_at_a_line_are_damaged(folder: Path, lines: int) -> None:
    sums = folder / "SHA256SUMS"
    sums.write_text("".join(sums.read_text().splitlines(keepends=True)[:lines]))
    with pytest.raises(BundleCorrupt, match="SHA256SUMS is damaged"):
        rw.load(folder)


@pytest.mark.parametrize("extra", ["\n", "junk\n", "é", f"{'0' * 64}  ../outside\n", " "])
def test_sums_with_anything_else_are_damaged(folder: Path, extra: str) -> None:
    with (folder / "SHA256SUMS").open("a", encoding="utf-8") as sums:
        sums.write(extra)
    with pytest.raises(BundleCorrupt, match="SHA256SUMS is damaged") as caught:
        rw.load(folder)
    assert caught.value.findings[0].hint == "copy the bundle again from its source"


def test_missing_sums_are_no_bundle(folder: Path) -> None:
    (folder / "SHA256SUMS").unlink()
    with pytest.raises(BundleError, match="is not a bundle: it has no SHA256SUMS"):
        rw.load(folder)


def test_file_is_no_folder(folder: Path) -> None:
    with pytest.raises(BundleError, match=r"policy\.onnx is not a folder"):
        rw.Bundle.open(folder / "policy.onnx")
    with pytest.raises(rw.RoadworthyError, match=r"pass the folder: a lone \.onnx"):
        rw.verify(folder / "policy.onnx")


def test_sha256sum_agrees(exported: Exported) -> None:
    command = ["sha256sum", "--strict", "-c", "SHA256SUMS"]
    run = subprocess.run(command, cwd=exported.folder, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [f"{name}: OK" for name in FILES[1:]]


def test_bytes_that_were_compared_are_the_bytes_that_run(folder: Path) -> None:
    bundle = rw.Bundle.open(folder)
    whole = (folder / "policy.onnx").read_bytes()
    (folder / "policy.onnx").write_bytes(b"swapped after the comparison")
    assert bundle.files["policy.onnx"] == whole


def resealed(bundle: rw.Bundle, folder: Path, targets: dict[str, list[str]]) -> Path:
    """The bundle once more, with right sums and a manifest that names other files."""
    with new_bundle(folder) as partial:
        for name, data in bundle.files.items():
            (partial / name).write_bytes(data)
        (partial / "more" / "deep").mkdir(parents=True)
        (partial / "more" / "deep" / "weights.bin").write_bytes(b"1234")
        manifest = json.loads(bundle.files["manifest.json"]) | {"targets": targets}
        (partial / "manifest.json").write_text(json.dumps(manifest))
    return folder


@pytest.fixture
def opened(folder: Path, monkeypatch: pytest.MonkeyPatch) -> rw.Bundle:
    """A bundle, opened before its row of the table names more than one file."""
    bundle = rw.Bundle.open(folder)
    row = dataclasses.replace(TARGETS["onnx"], files=("policy.onnx", "more/deep/weights.bin"))
    monkeypatch.setitem(TARGETS, "onnx", row)
    return bundle


def test_target_of_several_files_has_them_in_order(opened: rw.Bundle, tmp_path: Path) -> None:
    listed = {"onnx": ["policy.onnx", "more/deep/weights.bin"]}
    bundle = rw.Bundle.open(resealed(opened, tmp_path / "several", listed))
    assert bundle.targets == {"onnx": ("policy.onnx", "more/deep/weights.bin")}
    assert list(bundle.files_of("onnx")) == listed["onnx"]
    assert bundle.files_of("onnx")["more/deep/weights.bin"] == b"1234"


@pytest.mark.parametrize(
    ("targets", "named"),
    [
        ({"onnx": ["policy.onnx", "more/lost.bin"]}, "more/lost.bin"),
        ({"onnx": []}, "a target without files, or no target at all"),
        ({}, "a target without files, or no target at all"),
    ],
)
def test_target_whose_files_are_not_covered_is_refused(
    folder: Path, tmp_path: Path, targets: dict[str, list[str]], named: str
) -> None:
    other = resealed(rw.Bundle.open(folder), tmp_path / "other", targets)
    with pytest.raises(BundleCorrupt) as caught:
        rw.Bundle.open(other)
    assert f"manifest.json names {named}, which SHA256SUMS does not cover" in str(caught.value)


def test_changed_file_in_a_folder_of_the_bundle_is_refused(
    opened: rw.Bundle, tmp_path: Path
) -> None:
    listed = {"onnx": ["policy.onnx", "more/deep/weights.bin"]}
    several = resealed(opened, tmp_path / "several", listed)
    (several / "more" / "deep" / "weights.bin").write_bytes(b"1235")
    with pytest.raises(BundleCorrupt, match=r"more/deep/weights\.bin is not the file"):
        rw.load(several)
