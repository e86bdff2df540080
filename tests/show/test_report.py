"""A report is one file that says what the certificate says, and cannot be broken into."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import roadworthy as rw
from roadworthy.runtime.gym.returns import compare_returns
from roadworthy.show.graph import blocks
from roadworthy.show.influence import influence
from roadworthy.show.recording import chosen, replayed
from roadworthy.spec.bundle import POLICY, TRACE
from roadworthy.spec.certificate import Certificate, Check, Difference
from roadworthy.spec.html import Html, joined, tag
from roadworthy.spec.onnx_file import outline
from roadworthy.spec.trace import Trace
from tests.conftest import Exported

MOST_BYTES = 1_500_000
ATTACK = "<script>alert(1)</script>"


def sections(text: str) -> list[str]:
    return re.findall(r'<section id="(\w+)"', text) or re.findall(r'<section[^>]* id="(\w+)"', text)


@pytest.mark.parametrize("name", ["mlp", "lstm", "discrete"])
def test_report_is_one_small_file_that_asks_for_nothing(
    name: str, export_once: Callable[[str], Exported], tmp_path: Path
) -> None:
    place = rw.report(export_once(name).folder, tmp_path / "report.html")
    text = place.read_text()
    assert place.stat().st_size < MOST_BYTES
    assert re.findall(r'(?:src|href)="(?!data:|#)', text) == []
    assert "@import" not in text
    assert '<strong id="verdict" class="verdict passed">passed</strong>' in text
    expected = {"checks", "differences", "overlay", "latency", "graph", "findings", "provenance"}
    memory = {"memory"} if name == "lstm" else set()
    assert expected | memory <= set(sections(text))
    for digest in export_once(name).folder.joinpath("SHA256SUMS").read_text().split()[::2]:
        assert digest in text


def test_names_of_strangers_stay_text(tmp_path: Path) -> None:
    about = {
        ATTACK: rw.About(unit="<b>m</b>", description=ATTACK, elements=(ATTACK, '"><img src=x>'))
    }
    source = rw.Source(torch.nn.Linear(2, 1), example={ATTACK: torch.zeros(1, 2)}, about=about)
    rw.export(source, tmp_path / "odd")
    text = rw.report(tmp_path / "odd", tmp_path / "report.html").read_text()
    assert ATTACK not in text
    assert "<img src=x>" not in text
    assert "<b>m</b>" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    site = rw.web(tmp_path / "odd", tmp_path / "site", engine="onnx")
    assert ATTACK not in (site / "index.html").read_text()


def test_what_is_no_html_is_escaped() -> None:
    assert tag("p", "<i>", Html("<i></i>"), title='"') == '<p title="&quot;">&lt;i&gt;<i></i></p>'
    assert joined(["a", None, ["&", 1]]) == "a&amp;1"


def failing() -> Certificate:
    worst = Difference(
        port="actions", absolute=0.5, relative=1.0, step=3, index=(0, 1), expected=0.5, got=1.0,
        failures=2, allowed=1e-6,
    )  # fmt: skip
    check = Check(
        name="replay", claim="<u>it repeats</u>", passed=False, steps=9, differences=(worst,),
        first_failure=worst,
    )  # fmt: skip
    finding = rw.Finding(code="RW320", what="the normaliser is missing", hint="pass normalizer=")
    return Certificate(checks=(check,), seed=0, findings=(finding,))


def test_failed_certificate_says_so_with_the_page_of_its_finding(tmp_path: Path) -> None:
    text = rw.report(failing(), tmp_path / "report.html").read_text()
    assert '<strong id="verdict" class="verdict failed">failed</strong>' in text
    assert "the normaliser is missing" in text
    assert "Why it matters" in text
    assert "<u>" not in text


def test_certificate_shows_itself_in_a_notebook() -> None:
    shown = failing()._repr_html_()
    assert ">FAILED</b>" in shown
    assert "&lt;u&gt;it repeats" in shown
    assert "RW320" in shown


def test_returns_of_the_closed_loop_are_in_the_picture(tmp_path: Path) -> None:
    earned = {"original": [10.0, 12.0, 11.0], "artifact": [10.0, 12.0, 14.0]}
    compared = compare_returns(*earned.values(), margin=None, seed=0)
    facts = {"returns": compared.to_json(), "each_return": earned}
    check = Check(name="closed loop", claim="they play alike", passed=True, steps=33, facts=facts)
    certificate = Certificate(checks=(check,), seed=0)
    text = rw.report(certificate, tmp_path / "report.html").read_text()
    assert "returns" in sections(text)
    assert text.count("<circle") == 3 + 3 + 3
    assert "episode 2: 14" in text
    assert "episode 2: 3" in text  # the paired difference
    assert type(compared).from_json(compared.to_json()) == compared


def test_certificate_alone_is_not_played(tmp_path: Path) -> None:
    with pytest.raises(rw.UsageError, match="a certificate alone cannot be played"):
        rw.report(failing(), tmp_path / "report.html", env="CartPole-v1")


def test_report_into_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(rw.UsageError, match="there is no folder"):
        rw.report(failing(), tmp_path / "none" / "report.html")


def test_departure_is_the_first_step_out_of_tolerance(
    export_once: Callable[[str], Exported],
) -> None:
    exported = export_once("lstm")
    policy = rw.load(exported.folder)
    trace = Trace.from_bytes(exported.bundle.files[TRACE])
    assert set(replayed(policy, trace).departures.values()) == {None}
    port = exported.bundle.signature.outputs[0].name
    moved = trace.outputs[port].copy()
    moved[17:20, 1] += 1.0
    replay = replayed(policy, replace(trace, outputs={**trace.outputs, port: moved}))
    assert replay.departures[port] == 17
    first = chosen(replay, 2)[0]
    assert first.row == 1
    assert first.start <= 17 < first.stop


def test_influence_has_the_signs_of_a_linear_policy(tmp_path: Path) -> None:
    layer = torch.nn.Linear(3, 2, bias=False)
    weights = torch.tensor([[1.0, -2.0, 0.0], [0.0, 0.5, -4.0]])
    layer.weight.data = weights
    bundle = rw.export(layer, tmp_path / "linear", example={"obs": torch.zeros(1, 3)})
    found = influence(rw.load(tmp_path / "linear"), Trace.from_bytes(bundle.files[TRACE]))
    assert found is not None
    assert found.columns == ("obs[0]", "obs[1]", "obs[2]")
    assert found.values.shape == (2, 3)
    strong = np.abs(found.values) > 1e-3
    assert np.array_equal(np.sign(found.values) * strong, np.sign(weights.numpy()))


def test_graph_has_every_node_and_every_weight(export_once: Callable[[str], Exported]) -> None:
    onnx = pytest.importorskip("onnx")
    model = export_once("lstm").bundle.files[POLICY]
    found, truth = outline(model), onnx.load_from_string(model).graph
    assert [node.operator for node in found.nodes] == [node.op_type for node in truth.node]
    assert [node.inputs for node in found.nodes] == [tuple(node.input) for node in truth.node]
    assert {name: shape for name, (_, shape) in found.weights.items()} == {
        each.name: tuple(each.dims) for each in truth.initializer
    }
    assert sum(len(block.nodes) for block in blocks(found)) == len(truth.node)


def test_what_was_assumed_and_what_normalises_stand_in_the_report(tmp_path: Path) -> None:
    actor = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    torch.save(actor.state_dict(), tmp_path / "weights.pt")
    said = {"activation": "tanh", "normalizer": "none", "output": "plain"}
    rw.export(tmp_path / "weights.pt", tmp_path / "assumed", assume=said)
    text = rw.report(tmp_path / "assumed", tmp_path / "report.html").read_text()
    assert re.search(r"<td[^>]*>activation</td><td[^>]*>tanh</td><td[^>]*>ASSUMED</td>", text)
    statistics = rw.EpsInsideRoot(mean=np.ones(4), var=np.ones(4), eps=1e-8, clip=5.0)
    example = {"obs": torch.zeros(1, 4)}
    rw.export(actor, tmp_path / "normed", example=example, normalizer=statistics)
    text = rw.report(tmp_path / "normed", tmp_path / "report.html").read_text()
    assert "obs: EpsInsideRoot over 4 elements, clipped to ±5" in text


def test_a_report_is_written_over_a_report_and_over_nothing_else(
    export_once: Callable[[str], Exported], tmp_path: Path
) -> None:
    folder, other = export_once("mlp").folder, tmp_path / "train.py"
    other.write_text("import torch")
    with pytest.raises(rw.UsageError, match="is no report"):
        rw.report(folder, other)
    assert other.read_text() == "import torch"
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    for name in ("policy.onnx", "report.html"):
        with pytest.raises(rw.UsageError, match="is a bundle"):
            rw.report(folder, folder / name)
    assert before == {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    rw.report(folder, tmp_path / "report.html")
    rw.report(folder, tmp_path / "report.html")
