"""Sizes are compared with their limits before anything is unpacked; nothing foreign is followed."""

from __future__ import annotations

import io
import os
import resource
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import roadworthy as rw
from roadworthy.runtime.archive import Archive
from roadworthy.spec import limits
from roadworthy.spec.trace import Trace
from tests import hostile


def memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def zipped(entries: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in entries.items():
            made.writestr(name, data)
    return buffer.getvalue()


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def npz(**changes: bytes) -> bytes:
    whole = {"resets": hostile.trace().resets, "in:obs": hostile.trace().inputs["obs"],
             "out:actions": hostile.trace().outputs["actions"]}  # fmt: skip
    return zipped({f"{name}.npy": npy(array) for name, array in whole.items()} | changes)


def header(shape: tuple[int, ...], dtype: str = "<f4") -> bytes:
    buffer = io.BytesIO()
    fields = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, fields)
    return buffer.getvalue()


def test_trace_as_numpy_writes_it_is_read() -> None:
    read, expected = Trace.from_bytes(npz()), hostile.trace()
    assert np.array_equal(read.outputs["actions"], expected.outputs["actions"])
    by_columns = npz(**{"in:obs.npy": npy(np.asfortranarray(expected.inputs["obs"]))})
    assert np.array_equal(Trace.from_bytes(by_columns).inputs["obs"], expected.inputs["obs"])


def test_trace_beyond_its_limit_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    before = memory_mb()
    monkeypatch.setattr("roadworthy.spec.trace.TRACE_BYTES", limits.MEBI)
    bomb = npz(**{"in:more.npy": header((2**20,)) + bytes(2**22)})
    with pytest.raises(
        rw.BundleError, match=r"it unpacks to 4.* MiB, at most 1 MiB is read"
    ) as got:
        Trace.from_bytes(bomb)
    assert got.value.findings[0].code == "RW204"
    few = np.zeros((1, 1000), np.float32)  # one row, named a thousand times
    order = np.zeros((1000, 2), np.int32)
    rows = npz(**{"in.rows:more.npy": npy(few), "in.order:more.npy": npy(order)})
    with pytest.raises(rw.BundleError, match="at most 1 MiB is read"):
        Trace.from_bytes(rows)
    assert memory_mb() - before < 50


@pytest.mark.parametrize(
    "entry",
    [header((2**50,)), header((10**18, 10**18)), header((2, 3)) + bytes(8),
     header((1,), "|O") + bytes(8), header((-1,)), b"\x93NUMPY", b"", b"nonsense"],
)  # fmt: skip
def test_array_that_is_not_what_its_header_says_is_refused(entry: bytes) -> None:
    with pytest.raises(rw.BundleError, match=r"trace\.npz cannot be read"):
        Trace.from_bytes(npz(**{"in:obs.npy": entry}))


@pytest.mark.parametrize("cut", [0, 10, 100, -30, -1])
def test_trace_cut_short_is_refused(cut: int) -> None:
    with pytest.raises(rw.BundleError, match=r"trace\.npz cannot be read"):
        Trace.from_bytes(npz()[:cut])


RECORDED = hostile.trace()


def outputs(trace: Trace, change: Callable[[np.ndarray], Any]) -> bytes:
    changed = {name: change(array) for name, array in trace.outputs.items()}
    made = Trace(inputs=trace.inputs, outputs=changed, resets=trace.resets)
    return made.to_bytes()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (Trace(inputs=RECORDED.inputs, outputs={}, resets=RECORDED.resets).to_bytes(),
         "the output 'actions' is not in it"),
        (Trace(inputs={}, outputs=RECORDED.outputs, resets=RECORDED.resets).to_bytes(),
         "the input 'obs' is not in it"),
        (outputs(RECORDED, lambda a: a[:5]), r"the output 'actions' is float32 \(5, 2, 3\)"),
        (outputs(RECORDED, lambda a: a[..., :1]), "the output 'actions' is float32"),
        (outputs(RECORDED, lambda a: a.astype(np.float64)), "actions' is float64"),
        (npz(**{"resets.npy": npy(np.zeros((0, 2), bool))}), "cannot be read"),
        (npz(**{"resets.npy": npy(np.zeros(12))}), "cannot be read"),
        (npz(**{"allowed:nobody.npy": npy(np.zeros((12, 2, 3), np.int8))}), "not that of an out"),
    ],
)  # fmt: skip
def test_trace_of_nothing_or_of_another_policy_is_refused_by_verify(
    tmp_path: Path, data: bytes, said: str
) -> None:
    folder = hostile.sealed(tmp_path / "bundle", {"trace.npz": data})
    with pytest.raises(rw.BundleError, match=said):
        rw.verify(folder, canary=False)


def test_archive_that_unpacks_to_far_more_is_not_unpacked(tmp_path: Path) -> None:
    before = memory_mb()
    bomb = zipped({"archive/extra/roadworthy.signature": bytes(300 * limits.MEBI)})
    (tmp_path / "policy.pt2").write_bytes(bomb)
    made = memory_mb()
    for open_it in (lambda: rw.load(tmp_path / "policy.pt2"), lambda: Archive(bomb, where="p.pt2")):
        with pytest.raises(rw.BundleError, match="it unpacks to 300 MiB, at most") as caught:
            open_it()
        assert caught.value.findings[0].code == "RW204"
    assert memory_mb() - made < 50
    assert made - before < 2000


def test_file_beyond_its_limit_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = hostile.sealed(tmp_path / "bundle")
    with (folder / "policy.onnx").open("r+b") as file:
        file.truncate(limits.FILE_BYTES + 1)  # sparse: it takes no room on the disk
    real = Path.read_bytes
    monkeypatch.setattr(
        Path, "read_bytes", lambda p: pytest.fail("read") if p.suffix == ".onnx" else real(p)
    )
    with pytest.raises(rw.BundleError, match="it has 4 GiB, at most 4 GiB is read"):
        rw.load(folder)


@pytest.mark.parametrize("name", ["policy.onnx", "SHA256SUMS"])
def test_file_that_the_system_does_not_give_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder = hostile.sealed(tmp_path / "bundle")
    real = Path.read_bytes

    def read(path: Path) -> bytes:
        if path.name == name:  # as a broken disk answers
            raise OSError(5, "Input/output error", str(path))
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", read)
    for path in (folder, folder / name):
        with pytest.raises(rw.BundleError, match=f"{name}: it cannot be read: Input/output error"):
            rw.load(path)


@pytest.mark.parametrize("link", ["SHA256SUMS", "policy.onnx", "more", "extra.txt"])
def test_link_anywhere_is_refused(tmp_path: Path, link: str) -> None:
    folder = tmp_path / "bundle"
    hostile.sealed(folder)
    outside = tmp_path / "outside"
    if link == "more":  # a folder of an entry
        with rw_new(folder) as partial:
            for name, data in hostile.files().items():
                (partial / name).write_bytes(data)
            (partial / "more").mkdir()
            (partial / "more" / "file").write_bytes(b"1")
    if (folder / link).exists():
        (folder / link).rename(outside)
    else:
        outside.write_text("1")
    (folder / link).symlink_to(outside)
    for use in (rw.load, rw.verify, rw.Bundle.open):
        with pytest.raises(rw.BundleCorrupt) as caught:
            use(folder)
        assert f"{link} is a link: a bundle is the files that were certified" in str(caught.value)
        assert caught.value.findings[0].code == "RW202"


@pytest.mark.parametrize("name", ["notes.txt", ".hidden", "more/deep.bin", "SHA256SUMS.old"])
def test_file_that_nobody_listed_is_refused(tmp_path: Path, name: str) -> None:
    folder = hostile.sealed(tmp_path / "bundle")
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("1")
    with pytest.raises(rw.BundleCorrupt, match=f"{name} is not listed in SHA256SUMS") as caught:
        rw.load(folder)
    assert caught.value.findings[0].hint.startswith(f"move {name} out of the folder")


def test_queue_in_place_of_a_file_is_refused_at_once(tmp_path: Path) -> None:
    folder = hostile.sealed(tmp_path / "bundle")
    (folder / "trace.npz").unlink()
    os.mkfifo(folder / "trace.npz")
    with pytest.raises(rw.BundleCorrupt, match=r"trace\.npz is missing"):
        rw.load(folder)


def test_link_to_a_whole_bundle_is_fine(tmp_path: Path) -> None:
    hostile.sealed(tmp_path / "v1")
    (tmp_path / "current").symlink_to("v1")
    assert rw.Bundle.open(tmp_path / "current").targets == {"onnx": ("policy.onnx",)}


rw_new = hostile.new_bundle
