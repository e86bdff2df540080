"""Every target is the whole policy: certified by itself, with or without the others beside it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import roadworthy as rw
from roadworthy.capture.capture import capture
from roadworthy.capture.program import Program
from roadworthy.errors import BatchSpecialised, ExportError, UsageError
from roadworthy.spec.port import Port
from roadworthy.spec.samples import draw
from roadworthy.spec.targets import TARGETS
from roadworthy.targets import backend as backends
from roadworthy.targets.graphs import fitting, without_notes
from roadworthy.verification.comparison import Comparison
from tests.conftest import Exported
from tests.environment.environments import ENVIRONMENTS
from tests.policies import CASES
from tests.tiers import representative

ExportOnce = Callable[..., Exported]
NOT_RUN = "[RW213] torch_export: was not run: policy.pt2 is code\n  → trust=True (--trust) runs it"


# What differs most in a file of torch.export: memory, choices, dtypes, an axis of any length.
SOME = (
    "mlp", "lstm", "keeps_buffer", "masked_multi_discrete", "half_precision",
    "transformer_any_length",
)  # fmt: skip


@pytest.fixture(params=representative(CASES, SOME))
def torch_exported(request: pytest.FixtureRequest, export_once: ExportOnce) -> Exported:
    """Every policy of the registry as torch.export alone, one after another."""
    return export_once(request.param, "torch_export")


def test_every_policy_is_certified_as_torch_export_alone(torch_exported: Exported) -> None:
    certificate = rw.Certificate.from_bytes(torch_exported.bundle.files["certificate.json"])
    batch = [] if torch_exported.source.batch else ["batch"]
    free = ["free run"] if torch_exported.bundle.signature.memory else []
    action = torch_exported.bundle.signature.action
    # What is behind a choice does not show, where the choice turns does.
    moves = any(
        np.dtype(each.dtype).kind in "fu" for each in torch_exported.bundle.signature.inputs
    )
    behind = ["choices"] if moves and action is not None and action.kind != "continuous" else []
    assert certificate.passed
    assert [(c.target, c.name) for c in certificate.checks] == [
        ("torch_export", name)
        for name in ("replay", *batch, "reset", "fresh steps", *free, *behind)
    ]
    assert torch_exported.bundle.manifest["targets"] == {"torch_export": ["policy.pt2"]}
    assert torch_exported.changed == []


def test_torch_export_names_no_place_on_this_machine(torch_exported: Exported) -> None:
    places = [Path.cwd(), Path.home(), "site-packages", torch_exported.folder.parent, "stack_trace"]
    data = torch_exported.bundle.files["policy.pt2"]
    assert not [place for place in places if str(place).encode() in data]


def test_plain_torch_reads_the_file_too(export_once: ExportOnce) -> None:
    folder = export_once("mlp", "torch_export").folder
    plain = torch.export.load(folder / "policy.pt2").module()
    values = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
    (expected,) = plain(values)
    got = rw.load(folder, engine="torch_export", trust=True).act(values.numpy())
    assert np.array_equal(got, expected.detach().numpy())


def test_lone_archive_runs_with_the_signature_inside(export_once: ExportOnce) -> None:
    exported = export_once("lstm", "torch_export")
    lone = rw.load(exported.folder / "policy.pt2", trust=True)
    whole = rw.load(exported.folder, engine="torch_export", trust=True)
    assert lone.signature == whole.signature
    for step in range(5):
        values = np.full((2, 6), step, np.float32)
        assert np.array_equal(lone.act(values), whole.act(values))


def test_order_of_targets_means_nothing_and_each_is_certified(tmp_path: Path) -> None:
    said: list[str] = []
    options = rw.ExportOptions(progress=said.append)
    source = CASES["discrete"].make()
    targets = ["torch_export", "onnx", "onnx"]
    bundle = rw.export(source, tmp_path / "both", targets=targets, options=options)
    assert bundle.targets == {"onnx": ("policy.onnx",), "torch_export": ("policy.pt2",)}
    certificate = rw.Certificate.from_bytes(bundle.files["certificate.json"])
    assert [check.title for check in certificate.checks] == [
        "replay", "batch", "reset", "fresh steps", "logits",
        "torch_export replay", "torch_export batch", "torch_export reset",
        "torch_export fresh steps", "torch_export choices",
    ]  # fmt: skip
    assert rw.Certificate.from_json(certificate.to_json()) == certificate
    stages = ("writing ONNX", "writing torch.export", "torch_export: comparing resets")
    assert [said.index(stage) for stage in stages] == sorted(said.index(each) for each in stages)


def test_verify_without_trust_notes_what_it_did_not_run(export_once: ExportOnce) -> None:
    folder = export_once("discrete", "onnx", "torch_export").folder
    certificate = rw.verify(folder).raise_if_failed()
    (note,) = certificate.findings
    assert note.severity == "note"
    assert str(note) == NOT_RUN
    assert {check.target for check in certificate.checks} == {"onnx"}
    assert str(certificate).endswith(NOT_RUN)
    assert rw.Certificate.from_json(certificate.to_json()) == certificate
    trusted = rw.verify(folder, trust=True).raise_if_failed()
    assert trusted.findings == ()
    assert {check.target for check in trusted.checks} == {"onnx", "torch_export"}


def test_verify_of_untrusted_targets_alone_has_checked_nothing(export_once: ExportOnce) -> None:
    certificate = rw.verify(export_once("mlp", "torch_export").folder)
    assert not certificate.passed
    with pytest.raises(rw.RoadworthyError) as caught:
        certificate.raise_if_failed()
    assert str(caught.value) == (
        "[RW300] nothing was checked: every target was left out\n  → RW213 says why each was left "
        f"out; verify(…, trust=True) runs those that are code\n{NOT_RUN}"
    )


def test_failed_target_is_named(export_once: ExportOnce) -> None:
    folder = export_once("mlp", "torch_export").folder
    failed = rw.verify(folder, against=nn.Linear(6, 3), trust=True)
    with pytest.raises(rw.RoadworthyError, match=r"\[RW300\] torch_export fresh steps: actions"):
        failed.raise_if_failed()


@pytest.mark.parametrize("name", ["four_robots", "lstm"])
def test_environment_of_two_rates_does_in_torch_export_what_it_does_in_onnx(
    name: str, tmp_path: Path
) -> None:
    env, actor = ENVIRONMENTS[name]()
    targets = ["onnx", "torch_export"]
    bundle = rw.export_environment(env, actor, tmp_path / name, targets=targets)
    certificate = rw.Certificate.from_bytes(bundle.files["certificate.json"])
    assert certificate.passed
    assert {check.target for check in certificate.checks} == set(targets)
    signature = bundle.signature
    ticks = 3 * signature.decimation + 1
    inputs = draw(signature, np.random.default_rng(0), steps=ticks, rows=signature.fixed_rows or 4)
    both = [rw.load(bundle.folder, engine=target, trust=True) for target in targets]
    comparison = Comparison()
    for tick in range(ticks):
        now = {key: array[tick] for key, array in inputs.items()}
        expected, got = (policy.step(now) for policy in both)
        comparison.add(tick, expected, got)
    assert signature.decimation > 1
    assert comparison.first_failure is None
    assert comparison.steps == ticks


@pytest.mark.parametrize(
    ("targets", "text"),
    [
        (["onx"], "[RW001] there is no target 'onx'\n  → did you mean 'onnx'?"),
        ("torch_exprt", "there is no target 'torch_exprt'\n  → did you mean 'torch_export'?"),
        ([], "[RW001] targets is empty\n  → targets=['onnx']"),
    ],
)
def test_unknown_targets_are_refused(targets: list[str], text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        rw.export(
            nn.Linear(6, 3), tmp_path / "x", example={"obs": torch.zeros(1, 6)}, targets=targets
        )
    assert text in str(caught.value)
    assert not (tmp_path / "x").exists()


def test_registry_of_backends_names_the_targets() -> None:
    assert backends.names() == tuple(TARGETS) == ("onnx", "torch_export", "aoti", "c")
    assert all(hasattr(backends.get(name), "lower") for name in backends.names())


def program(graph: torch.export.ExportedProgram) -> Program:
    good = capture(CASES["mlp"].make())
    obs = Port(name="obs", dtype="float32", shape=("batch", 6))
    actions = Port(name="actions", dtype="float32", shape=("batch", 3))
    signature = dataclasses.replace(good.signature, inputs=(obs,), outputs=(actions,))
    return dataclasses.replace(good, signature=signature, graph=graph)


def test_graph_of_one_batch_size_is_refused_with_both_shapes() -> None:
    fixed = torch.export.export(nn.Linear(6, 3), (torch.zeros(2, 6),))
    with pytest.raises(BatchSpecialised) as caught:
        fitting(program(fixed))
    assert [str(each).splitlines()[0] for each in caught.value.findings] == [
        "[RW101] obs: the graph works for one size only: expected ('batch', 6), got ('2', '6')",
        "[RW101] actions: the graph works for one size only: expected ('batch', 3), got ('2', '3')",
    ]


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return obs[:, :3] + self.count


def test_graph_that_would_change_its_constants_is_refused() -> None:
    shapes = {"obs": {0: torch.export.Dim("batch")}}
    counting = torch.export.export(Counts(), (torch.zeros(2, 6),), dynamic_shapes=shapes)
    with pytest.raises(ExportError) as caught:
        fitting(program(counting))
    assert str(caught.value) == (
        "[RW100] forward writes to count, and the next step would not see it\n  → declare it "
        "as memory: memory={'hidden': 'attribute'} (roadworthy explain RW112)"
    )


def test_graph_gets_its_notes_back() -> None:
    graph = capture(CASES["mlp"].make()).graph

    def notes() -> Iterator[str]:
        return (json.dumps(sorted(node.meta)) for node in graph.graph.nodes)

    before = list(notes())
    assert any("stack_trace" in each for each in before)
    with without_notes([graph]):
        assert not any("stack_trace" in each for each in notes())
    assert list(notes()) == before
