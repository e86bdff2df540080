"""Which engine runs a bundle, and what is said before code is opened."""

from __future__ import annotations

import io
import os
import pickle
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import roadworthy as rw
from roadworthy.errors import BundleCorrupt, BundleError, UsageError
from roadworthy.runtime.torch_engines import TorchEngine
from tests.conftest import Exported

ExportOnce = Callable[..., Exported]


@pytest.fixture
def folder(export_once: ExportOnce, tmp_path: Path) -> Path:
    return Path(shutil.copytree(export_once("mlp", "torch_export").folder, tmp_path / "mlp"))


def refusal(*args: Any, **kwargs: Any) -> str:
    with pytest.raises((BundleError, UsageError)) as caught:
        rw.load(*args, **kwargs)
    return str(caught.value)


def test_code_is_not_opened_without_trust(folder: Path) -> None:
    assert refusal(folder, engine="torch_export") == (
        "[RW211] policy.pt2: the file is code: reading it may unpickle objects of its author's "
        "choice\n  → pass trust=True (--trust), only for files that you made or whose origin "
        "you know"
    )
    assert "[RW211]" in refusal(folder / "policy.pt2")


def test_bundle_without_onnx_says_what_it_has(folder: Path) -> None:
    assert refusal(folder) == (
        f"[RW210] {folder}: the bundle has no onnx target, only torch_export"
        "\n  → load with engine='torch_export', trust=True, or export with targets=['onnx', …]"
    )


def test_engine_that_the_bundle_lacks_is_named_with_those_it_has(export_once: ExportOnce) -> None:
    folder = export_once("mlp").folder
    assert refusal(folder, engine="aoti", trust=True) == (
        f"[RW210] {folder}: the bundle has no aoti target, only onnx"
        "\n  → load with engine='onnx', or export with targets=['aoti', …]"
    )
    assert "no torch_export target" in refusal(folder / "policy.onnx", engine="torch_export")


def test_unknown_engine_is_answered_with_the_nearest(folder: Path) -> None:
    expected = "[RW001] there is no target 'onx'\n  → did you mean 'onnx'?"
    assert refusal(folder, engine="onx") == expected
    assert refusal(folder / "nowhere", engine="onx") == expected
    assert "did you mean 'wasm'?" in refusal(folder, engine="wasn")


def test_lone_archive_is_not_taken_for_another_engine(folder: Path) -> None:
    text = refusal(folder / "policy.pt2", engine="onnx", trust=True)
    assert "the bundle has no onnx target, only torch_export" in text


class Payload:
    """What an attacker would put into a pickle."""

    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.witness),)


def poisoned(data: bytes, witness: Path) -> bytes:
    """The archive with a constant that is a pickle of another's making."""
    config = (
        '{"config": {"c": {"path_name": "opaque_obj_0", "is_param": false, "use_pickle": true,'
        ' "tensor_meta": null}}}'
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w") as new:
        for name in old.namelist():
            is_config = name.endswith("model_constants_config.json")
            new.writestr(name, config.encode() if is_config else old.read(name))
        new.writestr("archive/data/constants/opaque_obj_0", pickle.dumps(Payload(witness)))
    return buffer.getvalue()


def test_refusal_without_trust_has_its_reason(folder: Path, tmp_path: Path) -> None:
    witness = tmp_path / "code-was-run"
    path = tmp_path / "policy.pt2"
    path.write_bytes(poisoned((folder / "policy.pt2").read_bytes(), witness))
    assert "[RW211]" in refusal(path)
    assert not witness.exists()
    rw.load(path, trust=True)
    assert witness.exists()  # trust is not a formality


def test_changed_archive_is_refused_before_it_is_opened(folder: Path, tmp_path: Path) -> None:
    witness = tmp_path / "code-was-run"
    path = folder / "policy.pt2"
    path.write_bytes(poisoned(path.read_bytes(), witness))
    with pytest.raises(BundleCorrupt, match=r"policy\.pt2 is not the file that was certified"):
        rw.load(folder, engine="torch_export", trust=True)
    assert not witness.exists()


@pytest.mark.parametrize("cut", [2, 100, 5000])
def test_half_an_archive_is_refused(folder: Path, tmp_path: Path, cut: int) -> None:
    (tmp_path / "half.pt2").write_bytes((folder / "policy.pt2").read_bytes()[:cut])
    with pytest.raises(BundleCorrupt) as caught:
        rw.load(tmp_path / "half.pt2", trust=True)
    assert "this is not a .pt2 archive" in str(caught.value)


def test_foreign_archive_is_refused(tmp_path: Path) -> None:
    plain = torch.export.export(torch.nn.Linear(2, 2), (torch.zeros(1, 2),))
    torch.export.save(plain, tmp_path / "foreign.pt2")
    assert "has no signature: Roadworthy did not write it" in refusal(
        tmp_path / "foreign.pt2", trust=True
    )


def test_archive_that_torch_cannot_read_names_both_versions(folder: Path, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(folder / "policy.pt2") as old, zipfile.ZipFile(buffer, "w") as new:
        for name in old.namelist():
            later = name.endswith("archive_version")
            new.writestr(name, b"99" if later else old.read(name))
    (tmp_path / "later.pt2").write_bytes(buffer.getvalue())
    text = refusal(tmp_path / "later.pt2", trust=True)
    assert text.startswith(
        f"[RW212] {tmp_path / 'later.pt2'}: torch {torch.__version__} cannot load it: "
        "Saved archive version 99 does not match"
    )
    assert "use the torch that manifest.json names under provenance" in text


def bound(graph: Any, rows: int, threads: int = 1) -> Callable[[], None]:
    signature = rw.Signature.from_json(SIGNATURE)
    engine = TorchEngine([graph], signature, where="policy.pt2", threads=threads)
    obs, actions = np.ones((rows, 2), np.float32), np.zeros((rows, 2), np.float32)
    return engine.bind({"obs": obs}, {"actions": actions})


SIGNATURE = {
    "inputs": [{"name": "obs", "dtype": "float32", "shape": ["batch", 2]}],
    "outputs": [{"name": "actions", "dtype": "float32", "shape": ["batch", 2]}],
    "memory": [],
    "action": None,
    "period_s": None,
    "decimation": 1,
}


@pytest.mark.parametrize(
    ("value", "got"),
    [(torch.zeros(1, 2), "float32 (1, 2)"), (torch.zeros(3, 2).double(), "float64 (3, 2)")],
)
def test_result_that_does_not_fit_is_neither_broadcast_nor_cast(
    value: torch.Tensor, got: str
) -> None:
    with pytest.raises(BundleError) as caught:
        bound(lambda tensors: [value], rows=3)()
    assert f"actions: expected torch.float32 (3, 2), got torch.{got}" in str(caught.value)


def test_step_runs_on_one_thread_and_leaves_the_number_of_the_process() -> None:
    before, seen = torch.get_num_threads(), []

    def graph(tensors: Any) -> Any:
        seen.append(torch.get_num_threads())
        return tensors

    try:
        torch.set_num_threads(3)
        bound(graph, rows=1)()
        bound(graph, rows=1, threads=2)()
        assert seen == [1, 2]
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_graph_that_raises_is_explained() -> None:
    def broken(tensors: Any) -> Any:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(BundleError) as caught:
        bound(broken, rows=1)()
    assert str(caught.value).startswith("[RW200] policy.pt2: PyTorch cannot run the graph: mat1")


def test_loading_leaves_no_gradients_and_no_aliases(folder: Path) -> None:
    policy = rw.load(folder, engine="torch_export", trust=True)
    first = policy.act(np.zeros(6, np.float32))
    kept = first.copy()
    policy.act(np.ones(6, np.float32))
    assert np.array_equal(first, kept)


WITHOUT_TORCH = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "onnx", "onnxscript", "onnx_ir"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
import roadworthy as rw

print(rw.verify(sys.argv[1]).raise_if_failed().findings[0])
rw.load(sys.argv[1]).reset()
for ask in (
    lambda: rw.load(sys.argv[1], engine="torch_export", trust=True),
    lambda: rw.verify(sys.argv[1], trust=True),
):
    try:
        ask()
    except rw.RoadworthyError as error:
        print(error)
"""


def test_robot_without_pytorch_runs_onnx_and_says_what_it_cannot(
    export_once: ExportOnce, tmp_path: Path
) -> None:
    folder = str(export_once("discrete", "onnx", "torch_export").folder)
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_TORCH, folder],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    missing = "[RW002] torch is not installed\n  → pip install 'roadworthy[export]'\n"
    note = (
        "[RW213] torch_export: was not run: policy.pt2 is code\n  → trust=True (--trust) runs it\n"
    )
    assert run.stdout == note + missing + missing
