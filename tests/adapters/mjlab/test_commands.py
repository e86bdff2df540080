"""A task and a checkpoint on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import roadworthy

ACTOR = Path(__file__).parents[3] / "examples" / "mjlab" / "actor.pt"


def test_a_task_and_a_checkpoint_make_a_bundle(tmp_path: Path) -> None:
    said = ["--task", "Mjlab-Cartpole-Swingup", "--checkpoint", str(ACTOR)]
    told = roadworthy(
        "export", *said, "-o", "out", "--emit", "exploy", "--json", cwd=tmp_path
    ).json()
    assert [Path(each).name for each in told["emitted"]] == ["out.exploy"]
    assert (tmp_path / "out.exploy" / "policy.onnx").is_file()
    assert [port["name"] for port in told["signature"]["inputs"]] == [
        "cartpole.joint_pos",
        "cartpole.joint_vel",
    ]


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ([], "expected SOURCE or --task, got neither"),
        (["--task", "Mjlab-Cartpole-Swingup"], "--task and --checkpoint belong together"),
        (["--task", "Mjlab-Cartpol-Swingup", "--checkpoint", str(ACTOR)], "did you mean"),
    ],
)
def test_half_a_task_is_answered(said: list[str], answer: str, tmp_path: Path) -> None:
    result = roadworthy("export", *said, "-o", "out", cwd=tmp_path)
    assert result.code != 0
    assert answer in " ".join(result.err.split())
