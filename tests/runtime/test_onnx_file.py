"""What an ONNX file says of itself is read as onnx reads it, and nonsense is no model."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from roadworthy.spec.onnx_file import metadata
from tests.conftest import Exported


def test_pairs_are_those_that_onnx_reads(exported: Exported) -> None:
    data = exported.bundle.files["policy.onnx"]
    expected = {each.key: each.value for each in onnx.load_from_string(data).metadata_props}
    assert metadata(data) == expected
    assert list(expected) == ["roadworthy.lines", "roadworthy.signature"]


@pytest.fixture
def model() -> bytes:
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    node = onnx.helper.make_node("Identity", ["x"], ["y"])
    graph = onnx.helper.make_graph([node], "g", [value], [value])
    made = onnx.helper.make_model(graph, producer_name="a" * 300, model_version=2**40)
    for key, text in (("empty", ""), ("", "no key"), ("long", "é" * 100_000)):
        entry = made.metadata_props.add()
        entry.key, entry.value = key, text
    return bytes(made.SerializeToString())


def test_odd_pairs_are_read_whole(model: bytes) -> None:
    assert metadata(model) == {"empty": "", "": "no key", "long": "é" * 100_000}


def test_model_cut_anywhere_has_no_pairs_that_it_did_not_have(model: bytes) -> None:
    whole = metadata(model).items()
    for size in [*range(400), *range(400, len(model), 9973), len(model) - 1]:
        assert metadata(model[:size]).items() <= whole


def test_nonsense_is_no_model() -> None:
    rng = np.random.default_rng(0)
    found = [metadata(rng.bytes(int(size))) for size in rng.integers(0, 200, 2000)]
    assert all(isinstance(each, dict) for each in found)
    assert metadata(b"") == metadata(b"\xff" * 64) == {}
