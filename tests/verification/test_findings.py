"""What a certificate says besides its verdict: where a difference begins, and odd ports."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw
from tests.conftest import Exported

ExportOnce = Callable[[str], Exported]


def shifted(source: rw.Source, which: int) -> rw.Source:
    """The source with one weight of its module moved; the module is a copy of its own."""
    with torch.no_grad():
        list(source.module.parameters())[which].view(-1)[0] += 0.05
    return source


@pytest.mark.parametrize(
    ("name", "which", "node", "line"),
    [
        ("normalized_sb3", 0, "'linear' (Gemm)", "networks.py"),
        ("normalized_sb3", -1, "'actions' (Gemm)", "return self.net(obs)"),
        ("lstm", -1, "'actions' (Gemm)", "return self.head(features.squeeze(0)), h, c"),
        ("keeps_hidden", -1, "'actions' (Gemm)", "return self.head(self.hidden)"),
    ],
)
def test_the_difference_is_traced_to_its_node_and_line(
    export_once: ExportOnce, name: str, which: int, node: str, line: str
) -> None:
    exported = export_once(name)
    certificate = rw.verify(exported.folder, against=shifted(exported.case.make(), which))
    (finding,) = [each for each in certificate.findings if each.code == "RW301"]
    assert finding.what.startswith(f"the difference begins at {node}: ")
    assert line in finding.where
    assert "weight" in finding.hint
    with pytest.raises(rw.RoadworthyError) as caught:
        certificate.raise_if_failed()
    assert finding in caught.value.findings


def test_elements_are_called_by_their_names(tmp_path: Path) -> None:
    def source(bias: float) -> rw.Source:
        net = nn.Linear(4, 3)
        with torch.no_grad():
            net.weight.copy_(torch.arange(12.0).reshape(3, 4) / 10)
            net.bias.copy_(torch.tensor([0.0, bias, 0.0]))
        about = {"actions": rw.About(elements=("hip", "knee", "ankle"))}
        return rw.Source(net, example={"obs": torch.zeros(1, 4)}, about=about)

    rw.export(source(0.0), tmp_path / "b")
    certificate = rw.verify(tmp_path / "b", against=source(0.1))
    assert certificate.checks[-1].first_failure is not None
    assert str(certificate.checks[-1].first_failure).startswith("actions[0][knee] at step 0: ")


class Odd(nn.Module):
    """An input and a memory that lead nowhere, an output that stands still, one at its limit."""

    def forward(self, obs: Tensor, ignored: Tensor, h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        still = torch.cat([obs[:, :1], torch.full_like(obs[:, :1], 0.5)], dim=-1)
        return still, (obs * 1e6).clamp(-1.0, 1.0), h + obs.sum(-1, keepdim=True)


def odd() -> rw.Source:
    return rw.Source(
        Odd(),
        example={"obs": torch.zeros(1, 3), "ignored": torch.zeros(1, 2)},
        memory={"h": torch.zeros(1, 1)},
        outputs=("actions", "stuck"),
        about={
            "actions": rw.About(elements=("hip", "knee")),
            "stuck": rw.About(low=-1.0, high=1.0),
        },
    )


def test_odd_ports_are_findings_and_no_failures(tmp_path: Path) -> None:
    rw.export(odd(), tmp_path / "b")
    certificate = rw.verify(tmp_path / "b").raise_if_failed()
    found = {finding.code: finding for finding in certificate.findings}
    assert set(found) == {"RW310", "RW311", "RW312", "RW313"}
    assert found["RW310"].where == "ignored"
    assert found["RW310"].what == "the input does not change any output"
    assert found["RW311"].where == "h"
    assert found["RW312"].where == "actions[knee]"
    assert found["RW312"].what == "the output is always 0.5, whatever comes in"
    assert found["RW313"].where == "stuck"
    assert found["RW313"].what.startswith("the output is at its limit in ")
    assert {finding.severity for finding in found.values()} == {"warning"}
    assert rw.Certificate.from_json(certificate.to_json()) == certificate


class Diverging(nn.Module):
    def forward(self, obs: Tensor) -> Tensor:
        return torch.log(obs[:, :1])


def test_values_that_are_not_finite_are_counted(tmp_path: Path) -> None:
    rw.export(Diverging(), tmp_path / "b", example={"obs": torch.ones(1, 2)})
    (finding,) = [f for f in rw.verify(tmp_path / "b").findings if f.code == "RW314"]
    assert finding.where == "actions"
    assert "values are NaN or infinite, on inputs in range" in finding.what


def test_good_policies_raise_no_warning(exported: Exported) -> None:
    certificate = rw.Certificate.from_bytes(exported.bundle.files["certificate.json"])
    assert [finding for finding in certificate.findings if finding.severity != "note"] == []


class Baked(nn.Module):
    """Reads the example behind torch's back: what it saw becomes part of the graph."""

    def forward(self, obs: Tensor) -> Tensor:
        return obs * SECRET[0]


SECRET = [1.0]


def test_a_graph_that_depends_on_the_example_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What differs between two captures is found, by whatever way it came in."""
    from roadworthy.capture import capture

    plain = capture._graph

    def leaking(*arguments: object) -> object:
        SECRET[0] += 1.0
        return plain(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(capture, "_graph", leaking)
    with pytest.raises(rw.RoadworthyError) as caught:
        rw.export(Baked(), tmp_path / "b", example={"obs": torch.zeros(1, 2)})
    (finding,) = caught.value.findings
    assert finding.code == "RW125"
    assert finding.what.startswith("two examples gave two different graphs")
    assert list(tmp_path.iterdir()) == []


class HoldsNan(nn.Module):
    """A constant that is no number, hidden by a mask: two captures of it are the same graph."""

    def forward(self, obs: Tensor) -> Tensor:
        unknown = torch.tensor([float("nan"), 1.0])
        return torch.where(torch.isnan(unknown), obs, obs * unknown)


def test_a_constant_that_is_no_number_is_no_other_graph(tmp_path: Path) -> None:
    rw.export(HoldsNan(), tmp_path / "b", example={"obs": torch.zeros(1, 2)})


def test_a_warning_of_a_successful_export_is_said_in_python(tmp_path: Path) -> None:
    actor = nn.Linear(4, 3)
    actor.bias.data[1] = 1e7
    with pytest.warns(
        rw.RoadworthyWarning, match=r"\[RW325\] actions: the original chose the same"
    ):
        rw.export(actor, tmp_path / "b", example={"input": torch.zeros(1, 4)}, action=rw.Argmax())


class MixesManyRows(nn.Module):
    """Rows stay apart in the batches that people try by hand."""

    def forward(self, obs: Tensor) -> Tensor:
        rows = torch.ones_like(obs[:, :1]).sum()
        return obs * 2.0 + torch.where(rows > 20, obs.mean(), torch.zeros(()))


def test_rows_that_mix_only_in_large_batches_are_refused(tmp_path: Path) -> None:
    with pytest.raises(rw.CertificateFailed) as caught:
        rw.export(MixesManyRows(), tmp_path / "out", example={"obs": torch.zeros(1, 4)})
    assert "batch: rows of a batch influence each other" in str(caught.value)


class Queue(nn.Module):
    """The oldest of three is pushed out before anything reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(12, 2)
        self.q = deque([torch.zeros(1, 4)] * 3, maxlen=3)

    def forward(self, obs: Tensor) -> Tensor:
        self.q.append(obs)
        return self.net(torch.cat(list(self.q), -1))


def test_a_queue_that_is_declared_as_one_is_not_called_idle_for_its_oldest(tmp_path: Path) -> None:
    example = {"obs": torch.zeros(1, 4)}
    bundle = rw.export(Queue(), tmp_path / "b", example=example, memory={"q": "q"})
    assert len(bundle.signature.memory) == 3
    assert all(each.code != "RW311" for each in bundle.certificate.findings)


def test_a_difference_of_an_operator_that_departs_is_answered_by_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from roadworthy.api import publish

    # Else the file would be written once more with whole sigmoids, and pass.
    monkeypatch.setattr(publish, "has_sigmoids", lambda program: False)

    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.head = nn.GRUCell(4, 8), nn.Linear(8, 2)

        def forward(self, obs: Tensor, ctx: Tensor) -> Tensor:
            return self.head(self.cell(obs, ctx))

    torch.manual_seed(0)
    module, example = Gated(), {"obs": torch.zeros(1, 4), "ctx": torch.zeros(1, 8)}
    with pytest.raises(rw.CertificateFailed) as caught:
        rw.export(module, tmp_path / "b", example=example)
    (said,) = [each for each in caught.value.findings if each.code == "RW301"]
    assert "where RW340 names this line, give the inputs the limits that they have" in said.hint
    rw.export(module, tmp_path / "b", example=example, about={"ctx": rw.About(low=-1, high=1)})
