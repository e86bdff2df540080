"""What is written: one file, the declared names, nothing of the machine it was written on."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import roadworthy as rw
from roadworthy.spec.trace import Trace
from tests.conftest import Exported
from tests.policies import CASES

FILES = ["certificate.json", "manifest.json", "policy.onnx", "trace.npz"]


def graph(exported: Exported) -> onnx.ModelProto:
    return onnx.load_from_string((exported.folder / "policy.onnx").read_bytes())


def ports(values: object) -> list[tuple[str, tuple[int | str, ...]]]:
    return [
        (v.name, tuple(d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim))
        for v in values
    ]


def test_graph_has_the_declared_names_and_shapes(exported: Exported) -> None:
    signature, written = exported.bundle.signature, graph(exported).graph
    inputs = [(p.name, p.shape) for p in signature.inputs]
    outputs = [(p.name, p.shape) for p in signature.outputs]
    assert ports(written.input) == inputs + [(m.input, m.shape) for m in signature.memory]
    assert ports(written.output) == outputs + [(m.output, m.shape) for m in signature.memory]


def test_first_axis_is_the_batch_unless_it_is_fixed(exported: Exported) -> None:
    first = {port.shape[0] for port in exported.bundle.signature.inputs}
    assert first == {exported.source.batch or "batch"}


def test_bundle_is_five_files_and_weights_are_inside_the_model(exported: Exported) -> None:
    assert sorted(path.name for path in exported.folder.iterdir()) == ["SHA256SUMS", *FILES]
    assert sorted(exported.bundle.files) == FILES
    stored = graph(exported).graph.initializer
    assert all(each.data_location == onnx.TensorProto.DEFAULT for each in stored)


def test_graph_carries_no_notes_of_the_exporter(exported: Exported) -> None:
    model = graph(exported)
    keys = [entry.key for entry in model.metadata_props]
    assert keys == ["roadworthy.lines", "roadworthy.signature"]
    parts = (model.graph, *model.graph.node, *model.graph.input, *model.graph.value_info)
    assert not any(part.doc_string or len(part.metadata_props) for part in parts)


def test_no_file_names_a_place_on_this_machine(exported: Exported) -> None:
    places = [str(Path.cwd()), str(Path.home()), "site-packages", str(exported.folder.parent)]
    for name, data in exported.bundle.files.items():
        assert not [place for place in places if place.encode() in data], name


def test_certificate_passed_every_check(exported: Exported) -> None:
    from roadworthy.spec.certificate import Certificate

    certificate = Certificate.from_bytes(exported.bundle.files["certificate.json"])
    assert certificate.passed
    # One fixed number of rows leaves nothing to compare between batches.
    batch = [] if exported.source.batch else ["batch"]
    action = exported.bundle.signature.action
    logits = ["logits"] if action is not None and action.kind != "continuous" else []
    free = ["free run"] if exported.bundle.signature.memory else []
    names = [check.name for check in certificate.checks]
    assert names == ["replay", *batch, "reset", "fresh steps", *free, *logits]
    assert exported.bundle.manifest["waivers"] == []


def test_trace_has_many_steps_and_several_episodes(exported: Exported) -> None:
    trace = Trace.from_bytes(exported.bundle.files["trace.npz"])
    assert trace.steps >= 256
    assert trace.episodes >= 3
    assert list(trace.inputs) == [port.name for port in exported.bundle.signature.inputs]


@pytest.mark.parametrize(("opset", "ir_version"), [(18, 8), (19, 9), (20, 10), (22, 11)])
def test_opset_and_ir_version_are_the_ones_asked_for(
    tmp_path: Path, opset: int, ir_version: int
) -> None:
    options = rw.ExportOptions(opset=opset, ir_version=ir_version)
    bundle = rw.export(CASES["lstm"].make(), tmp_path / "lstm", options=options)
    model = onnx.load_from_string(bundle.files["policy.onnx"])
    assert model.ir_version == ir_version
    assert {entry.domain: entry.version for entry in model.opset_import} == {"": opset}
    assert bundle.manifest["opset"] == opset
