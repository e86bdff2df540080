"""From a path to a policy, or to the reason why there is none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

import roadworthy as rw
from roadworthy.errors import BundleCorrupt, BundleError
from roadworthy.spec.sealing import new_bundle
from tests.conftest import Exported


def test_missing_path_is_answered_with_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "walker").mkdir()
    with pytest.raises(BundleError) as caught:
        rw.load(tmp_path / "walkr")
    expected = f"[RW200] {tmp_path / 'walkr'} does not exist\n  → did you mean 'walker'?"
    assert str(caught.value) == expected


def test_folder_without_sums_is_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="is not a bundle: it has no SHA256SUMS"):
        rw.load(tmp_path)


def test_foreign_onnx_is_refused(tmp_path: Path) -> None:
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    same = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1])
    node = onnx.helper.make_node("Identity", ["x"], ["y"])
    graph = onnx.helper.make_graph([node], "foreign", [value], [same])
    opset = [onnx.helper.make_opsetid("", 20)]
    model = onnx.helper.make_model(graph, opset_imports=opset, ir_version=10)
    (tmp_path / "foreign.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(BundleError, match="has no signature: Roadworthy did not write it"):
        rw.load(tmp_path / "foreign.onnx")


@pytest.mark.parametrize("data", [b"", b"not a model", b"\x00" * 64])
def test_file_that_is_no_model_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "policy.onnx").write_bytes(data)
    with pytest.raises(BundleError, match=r"onnxruntime [\d. ]*cannot load the model"):
        rw.load(tmp_path / "policy.onnx")


def test_half_a_model_is_refused(tmp_path: Path, export_once: Callable[[str], Exported]) -> None:
    data = export_once("mlp").bundle.files["policy.onnx"]
    (tmp_path / "policy.onnx").write_bytes(data[: len(data) // 2])
    with pytest.raises(BundleError, match="cannot load the model"):
        rw.load(tmp_path / "policy.onnx")


def test_bundle_of_a_later_format_is_refused(
    tmp_path: Path, export_once: Callable[[str], Exported]
) -> None:
    with new_bundle(tmp_path / "later") as partial:
        for name, data in export_once("mlp").bundle.files.items():
            (partial / name).write_bytes(data)
        manifest = json.loads((partial / "manifest.json").read_bytes()) | {"version": 99}
        (partial / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(BundleError, match="version 99; this release reads version 2") as caught:
        rw.load(tmp_path / "later")
    assert not isinstance(caught.value, BundleCorrupt)


def test_lone_file_with_a_damaged_signature_is_refused(
    tmp_path: Path, export_once: Callable[[str], Exported]
) -> None:
    data = export_once("lstm").bundle.files["policy.onnx"]
    start = data.index(b'{"inputs"')
    raised: set[str] = set()
    for index, position in enumerate(range(start, len(data) - 40, 7)):
        damaged = bytearray(data)
        damaged[position] ^= 1 << index % 8
        (tmp_path / "policy.onnx").write_bytes(damaged)
        try:
            rw.load(tmp_path / "policy.onnx", canary=False)
        except rw.RoadworthyError:
            continue
        except Exception as error:
            raised.add(type(error).__name__)
    assert raised == set()
