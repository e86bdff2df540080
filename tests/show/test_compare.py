"""Two bundles of one signature side by side."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import roadworthy as rw
from tests.cli.conftest import roadworthy


def actor(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two CartPole policies, and one of another signature."""
    folder = tmp_path_factory.mktemp("pair")
    for name, seed in (("old", 0), ("new", 1)):
        rw.export(
            actor(seed), folder / name, example={"obs": torch.zeros(1, 4)}, action=rw.Argmax()
        )
    rw.export(actor(0), folder / "logits", example={"state": torch.zeros(1, 4)}, period_s=0.02)
    return folder


def test_bundle_is_the_same_as_itself(pair: Path) -> None:
    found = rw.compare(pair / "old", pair / "old")
    assert all(gap.worst == 0 and gap.equal == 1 for gaps in found.gaps.values() for gap in gaps)
    assert found.names[0] != found.names[1]


def test_worst_place_is_where_the_two_differ(pair: Path) -> None:
    found = rw.compare(pair / "old", pair / "new", pair / "compare.html")
    (gap,) = found.gaps["recorded observations of old"]
    assert 0 < gap.equal < 1
    assert gap.worst == abs(gap.values[0] - gap.values[1]) == 1
    text = (pair / "compare.html").read_text()
    assert '<strong id="verdict" class="verdict">different</strong>' in text
    assert "recorded observations of new" in text


def test_both_play_the_same_episodes(pair: Path) -> None:
    found = rw.compare(pair / "old", pair / "new", env="CartPole-v1", episodes=3, seed=5)
    played = [rw.play(rw.load(pair / name), "CartPole-v1", 3, seed=5) for name in ("old", "new")]
    assert found.each_return == (played[0].returns, played[1].returns)
    assert found.returns is not None
    assert found.returns.original == np.mean(played[0].returns)
    assert found.steps["episodes of old"] == sum(played[0].steps)


def test_certificate_keeps_the_return_of_every_episode(pair: Path) -> None:
    certificate = rw.verify(pair / "old", against=actor(0), env="CartPole-v1", episodes=2)
    (loop,) = [check for check in certificate.checks if check.name == "closed loop"]
    played = rw.play(rw.load(pair / "old"), "CartPole-v1", 2)
    assert loop.facts["each_return"] == {
        side: [*played.returns] for side in ("original", "artifact")
    }
    place = rw.report(pair / "old", pair / "loop.html", certificate=certificate)
    assert "Returns in the certificate&#x27;s closed loop" in place.read_text()


def test_other_signatures_are_refused_with_everything_that_differs(pair: Path) -> None:
    done = roadworthy("compare", "old", "logits", cwd=pair)
    assert done.code == 2
    for words in (
        "obs: the second has no input of this name",
        "state: the first has no input of this name",
        "actions: the output is int64 (batch,) in the first and float32 (batch, 2) in the second",
        "period_s: the first has None, the second 0.02",
        "the signatures differ, so nothing can be compared",
    ):
        assert words in " ".join(done.err.split()), done.err


def test_command_prints_a_table_and_json(pair: Path) -> None:
    shown = roadworthy("compare", "old", "new", "-o", "c.html", cwd=pair, columns=160)
    assert shown.code == 0, shown.err
    assert "mean distance" in shown.out
    assert "the report is c.html" in shown.out
    data = roadworthy("compare", "old", "new", "--json", cwd=pair).json()
    assert data["names"] == ["old", "new"]
    assert set(data["facts"]) >= {"certificate", "size", "memory"}


def test_report_command_names_its_file(pair: Path) -> None:
    done = roadworthy(
        "report", "old", "-o", "r.html", "--env", "CartPole-v1", "--episodes", "2", cwd=pair
    )
    assert done.code == 0, done.err
    assert done.out.startswith("r.html (")
    assert "Returns in CartPole-v1" in (pair / "r.html").read_text()
