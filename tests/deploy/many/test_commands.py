"""Many at once on the command line: the same bytes by any number of workers, and nothing twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from roadworthy import demo
from tests.cli.conftest import roadworthy

pytestmark = pytest.mark.slow


def files(folder: Path) -> dict[str, bytes]:
    """Everything in the bundles of a folder; records are beside them."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".roadworthy" not in path.parts
    }


def test_any_number_of_workers_gives_the_same_and_nothing_is_done_twice(workshop: Path) -> None:
    sources = ("pol.py:one", "pol.py:broken", "pol.py:two")
    first = roadworthy("export", *sources, "-o", "out", "--jobs", "2", cwd=workshop, columns=120)
    assert first.code == 1
    assert "pol.py:broken\nRW001 pol.py:16: RuntimeError: no such checkpoint" in first.out
    assert "3 policies, 1 failed" in first.out
    assert sorted(each.name for each in (workshop / "out").iterdir()) == [
        ".roadworthy", "pol-one", "pol-two",
    ]  # fmt: skip

    alone = roadworthy("export", "pol.py:one", "pol.py:two", "-o", "again", cwd=workshop)
    assert alone.code == 0
    assert files(workshop / "again") == files(workshop / "out")
    assert roadworthy("export", "pol.py:one", "-o", "plain", cwd=workshop).code == 0
    assert files(workshop / "plain") == files(workshop / "out" / "pol-one")

    (workshop / "out" / "pol-two" / "trace.npz").unlink()
    (workshop / "out" / "pol-two" / "SHA256SUMS").unlink()
    good = ("pol.py:one", "pol.py:two")
    more = roadworthy("export", *good, "-o", "out", "--jobs", "2", "--json", cwd=workshop).json()
    assert [(each["name"], each["exit"], each["skipped"]) for each in more["tasks"]] == [
        ("pol.py:one", 0, True), ("pol.py:two", 2, False),
    ]  # fmt: skip

    words = ("verify", "out/pol-one", "again/pol-two", "--env", "CartPole-v1", "--episodes", "3")
    verified = roadworthy(*words, "--jobs", "2", "--json", cwd=workshop).json()
    checks = {check["name"] for check in verified["tasks"][0]["result"]["checks"]}
    assert {"teacher", "closed loop"} <= checks, "the record of the export names the original"
    assert [each["exit"] for each in verified["tasks"]] == [0, 0]
    repeated = roadworthy(*words, "--jobs", "1", "--json", cwd=workshop).json()
    assert [each["skipped"] for each in repeated["tasks"]] == [True, True]
    for once, twice in zip(verified["tasks"], repeated["tasks"], strict=True):
        assert once["result"] == twice["result"]


def test_a_bundle_is_no_folder_for_many(workshop: Path) -> None:
    assert roadworthy("export", "pol.py:one", "-o", "out", cwd=workshop).code == 0
    refused = roadworthy("export", "pol.py:one", "pol.py:two", "-o", "out", cwd=workshop)
    assert refused.code == 2
    assert "out is a bundle, and many go to folders in it" in refused.err


@pytest.mark.long  # a minute and a half, most of it the start of two workers
def test_ctrl_c_leaves_no_half_written_folder(workshop: Path) -> None:
    words = ["export", "pol.py:one", "pol.py:two", "pol.py:three", "pol.py:four", "-o", "out"]
    running = subprocess.Popen(
        [sys.executable, "-m", "roadworthy", *words, "--jobs", "2"],
        cwd=workshop, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    out = workshop / "out"
    for _ in range(3000):
        if out.is_dir() and any(".partial-" in each.name for each in out.iterdir()):
            break
        assert running.poll() is None, "it ended before it could be interrupted"
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)
    _, said = running.communicate(timeout=300)
    assert running.returncode == 130, said
    assert said == "interrupted; nothing half-written was left behind\n"
    for each in out.iterdir():
        assert ".partial-" not in each.name
        assert each.name == ".roadworthy" or (each / "SHA256SUMS").is_file()


def test_checkpoints_by_a_pattern_are_verified_against_their_files(tmp_path: Path) -> None:
    zipped = (Path(demo.__file__).parent / "ppo_cartpole.zip").read_bytes()
    for place, data in {
        "a/model_1": zipped,
        "b/model_1": zipped,
        "b/model_2": zipped[:999],
    }.items():
        (tmp_path / "runs" / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "runs" / f"{place}.zip").write_bytes(data)
    words = ("export", "runs/**/model_*.zip", "-o", "out", "--jobs", "2")
    made = roadworthy(*words, "--assume", "vecnormalize=none", "--json", cwd=tmp_path)
    assert made.code == 1
    assert [(each["name"], each["exit"]) for each in made.json()["tasks"]] == [
        ("runs/a/model_1.zip", 0), ("runs/b/model_1.zip", 0), ("runs/b/model_2.zip", 2),
    ]  # fmt: skip
    played = roadworthy("verify", "out/*", "--env", "CartPole-v1", "--episodes", "2", "--json",
                        cwd=tmp_path)  # fmt: skip
    assert played.code == 0, played.out
    assert [each["name"] for each in played.json()["tasks"]] == [
        "out/runs-a-model_1", "out/runs-b-model_1",
    ]  # fmt: skip
