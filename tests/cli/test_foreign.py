"""Files of others, and paths that are not there."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import torch

from tests import hostile
from tests.cli.conftest import roadworthy


def test_foreign_file_is_shown_with_what_it_leaves_open(tmp_path: Path) -> None:
    (tmp_path / "foreign.onnx").write_bytes(hostile.smooth(signature=None))
    done = roadworthy("inspect", "foreign.onnx", cwd=tmp_path)
    assert done.code == 0, done.err
    shown = " ".join(done.out.split())
    for text in (
        "Roadworthy did not write this file",
        "input obs float32 (batch, 3)", "input last_in float32 (batch, 3)",
        "output actions float32 (batch, 3)", "operators Mul×2", "Identity×1", "opsets ONNX 20",
        "producer somebody", "Unknown what memory which outputs must be fed back as inputs",
        "proof whether it behaves like the policy", "→ rw.export(module, folder, …) writes a file",
    ):  # fmt: skip
        assert text in shown


@pytest.mark.parametrize("flags", [(), ("--flash", "1")], ids=" ".join)
def test_what_nobody_can_measure_is_not_passed_over(flags: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "foreign.onnx").write_bytes(hostile.smooth(signature=None))
    done = roadworthy("inspect", "foreign.onnx", "--c", *flags, cwd=tmp_path)
    assert done.code == 2
    assert "--c is asked of a policy that Roadworthy has exported as ONNX" in done.err
    assert "roadworthy export policy.py:actor -o walker" in " ".join(done.err.split())


def test_foreign_file_as_json(tmp_path: Path) -> None:
    whole = hostile.smooth(signature=None)
    (tmp_path / "foreign.onnx").write_bytes(whole)
    shown = roadworthy("inspect", "foreign.onnx", "--json", cwd=tmp_path).json()
    assert shown["signature"] is None
    assert shown["ports"][0] == {
        "side": "input", "name": "obs", "dtype": "float32", "shape": ["batch", 3],
    }  # fmt: skip
    assert shown["operators"] == {"Mul": 2, "Identity": 1, "Add": 1}
    assert shown["external_data"] is None
    assert set(shown["unknown"]) == {"memory", "meaning", "action", "period", "proof"}
    assert shown["files"]["foreign.onnx"]["bytes"] == len(whole)


@pytest.mark.parametrize("data", [b"", b"print('hello')", b"\x00" * 40])
def test_file_that_is_no_model_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "script.onnx").write_bytes(data)
    for more in ((), ("--graph",), ("--operators",), ("--json",)):
        done = roadworthy("inspect", "script.onnx", *more, cwd=tmp_path)
        assert done.code == 2
        assert "script.onnx is no ONNX file, or a damaged one" in done.err + done.out


def graph_of(node: onnx.NodeProto, opset: str) -> bytes:
    """A file of one node, whose operator onnx does not know."""
    ports = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "ab"]
    graph = onnx.helper.make_graph([node], "graph", ports[:1], ports[1:])
    imported = [onnx.helper.make_opsetid(opset, 1)] if opset else []
    model = onnx.helper.make_model(graph, opset_imports=imported)
    return bytes(model.SerializeToString())


WHOLE = hostile.smooth()
DAMAGED = {"text": b"hello, this is text", "cut off": WHOLE[: len(WHOLE) // 2], "ELF": b"\x7fELF"}
UNKNOWN_OPERATORS = {
    "another domain": graph_of(onnx.helper.make_node("Mystery", "a", "b", domain="my"), "my"),
    "no domain imported": graph_of(onnx.helper.make_node("Mystery", "a", "b", domain="my"), ""),
    "EPContext": graph_of(
        onnx.helper.make_node("EPContext", "a", "b", domain="com.microsoft"), "com.microsoft"
    ),
}


@pytest.mark.parametrize("more", [(), ("--graph",), ("--operators",)])
@pytest.mark.parametrize("kind", DAMAGED)
def test_bundle_with_a_damaged_model_is_a_finding(
    tmp_path: Path, kind: str, more: tuple[str, ...]
) -> None:
    hostile.sealed(tmp_path / "bundle", {"policy.onnx": DAMAGED[kind]})
    done = roadworthy("inspect", "bundle", *more, cwd=tmp_path)
    assert done.code == 2
    assert "RW200" in done.err
    assert "this is no ONNX file, or a damaged one" in done.err


@pytest.mark.parametrize("more", [(), ("--graph",), ("--operators",)])
@pytest.mark.parametrize("kind", UNKNOWN_OPERATORS)
def test_operators_that_onnx_does_not_know_are_shown(
    tmp_path: Path, kind: str, more: tuple[str, ...]
) -> None:
    (tmp_path / "foreign.onnx").write_bytes(UNKNOWN_OPERATORS[kind])
    done = roadworthy("inspect", "foreign.onnx", *more, cwd=tmp_path)
    assert done.code == 0, done.err
    assert ("EPContext" if kind == "EPContext" else "Mystery") in done.out


@pytest.mark.parametrize(
    "words",
    [("inspect", "/nothing"), ("verify", "/nothing"), ("run", "/nothing", "--env", "CartPole-v1"),
     ("inspect", "/nothing", "--values"), ("export", "/nothing.py:actor", "-o", "x")],
)  # fmt: skip
def test_missing_path_is_said_without_listing_its_folder(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    done = roadworthy(*words, cwd=tmp_path)
    assert done.code == 2
    assert "/nothing" in done.err
    assert "does not exist" in done.err
    for name in ("etc", "usr", "bin"):
        assert f"'{name}'" not in done.err


def test_a_hint_says_where_the_file_lies(tmp_path: Path) -> None:
    (tmp_path / "my runs").mkdir()
    torch.save({"model": {"weight": torch.zeros(2, 3)}}, tmp_path / "my runs" / "walker.pt")
    done = roadworthy("inspect", "my runs/walker.pt", "--c", cwd=tmp_path)
    assert done.code == 2
    assert "roadworthy export 'my runs/walker.pt' -o walker" in " ".join(done.err.split())
    done = roadworthy("inspect", "my runs/walker.pt", "--flash", "1", cwd=tmp_path)
    assert "roadworthy inspect 'my runs/walker.pt' --c --flash" in " ".join(done.err.split())
