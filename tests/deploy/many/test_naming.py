"""Which files are meant, how their folders are called, and what makes work worth doing again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import roadworthy as rw
from roadworthy.cli.many import is_emitted, is_wanted, with_ray_address
from roadworthy.cli.options import ManyAtOnce
from roadworthy.deploy.many import naming, records
from roadworthy.deploy.many.task import Outcome, Task


def test_names_are_the_paths_as_they_were_given() -> None:
    sources = [
        "runs/a/model_10.pt",
        "./runs/b/model_10.pt",
        "/abs/x.zip",
        "pol.py:actor",
        "m:actor",
    ]
    assert naming.folder_names(sources) == [
        "runs-a-model_10", "runs-b-model_10", "abs-x", "pol-actor", "m-actor",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "sources",
    [
        ["a/model.pt", "a/model.zip"],
        ["a-b/c.pt", "a/b-c.pt"],
        ["A.pt", "a.pt"],
        ["../a.pt", "a.pt"],
        ["ä.pt", "ö.pt"],
        ["..pt", ".hidden"],
    ],
)
def test_no_two_sources_get_one_folder(sources: list[str]) -> None:
    names = naming.folder_names(sources)
    assert len({name.lower() for name in names}) == len(sources)
    assert all(name and not name.startswith(".") and "/" not in name for name in names)


def test_patterns_that_the_shell_left_alone_are_matched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for place in ("runs/a/model_1.pt", "runs/b/deep/model_2.pt", "runs/b/other.pt", "odd[1].pt"):
        Path(place).parent.mkdir(parents=True, exist_ok=True)
        Path(place).touch()
    assert naming.expanded(["runs/**/model_*.pt", "runs/a/model_1.pt"]) == [
        "runs/a/model_1.pt", "runs/b/deep/model_2.pt",
    ]  # fmt: skip
    assert naming.expanded(["odd[1].pt"]) == ["odd[1].pt"]
    with pytest.raises(rw.UsageError, match=r"no file matches 'none/\*'"):
        naming.expanded(["none/*"])


def test_content_and_neighbours_are_part_of_what_decides(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    model, config = tmp_path / "run" / "model.pt", tmp_path / "run" / "config.yml"
    model.write_bytes(b"1")
    config.write_text("activation: elu")
    before = naming.content_of(str(model)), naming.neighbours_of(str(model))
    config.write_text("activation: relu")
    assert naming.content_of(str(model)) == before[0]
    assert naming.neighbours_of(str(model)) != before[1]
    model.write_bytes(b"2")
    assert naming.content_of(str(model)) != before[0]
    assert naming.content_of("CartPole-v1") == "CartPole-v1"


def test_work_is_done_when_key_and_bundle_are_the_same(tmp_path: Path) -> None:
    bundle = tmp_path / "out" / "a"
    bundle.mkdir(parents=True)
    (bundle / "SHA256SUMS").write_text("sums")
    task = Task(
        name="a", words=(), cwd=str(tmp_path), key="k", result=str(bundle),
        record=str(records.record_of(bundle, "export")),
    )  # fmt: skip
    assert records.finished(task) is None
    records.keep(Outcome(task=task, code=0, printed="{}"), source="a.pt")
    known = records.finished(task)
    assert known is not None
    assert known.skipped
    other = Task(name="a", words=(), cwd="", key="other", result=task.result, record=task.record)
    assert records.finished(other) is None
    (bundle / "SHA256SUMS").write_text("another bundle")
    assert records.finished(task) is None
    for damaged in ("{", "[]", json.dumps({"seal": "", "said": 3}), json.dumps({"said": "{}"})):
        Path(task.record).write_text(damaged)
        assert records.finished(task) is None


def test_a_record_that_came_along_with_files_is_overlooked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could claim a certificate that never was, or name a file of code to compare with."""
    bundle = tmp_path / "theirs" / "a"
    bundle.mkdir(parents=True)
    record = records.record_of(bundle, "verify")
    task = Task(name="a", words=(), cwd="", key="k", record=str(record))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "their cache"))
    records.keep(Outcome(task=task, code=0, printed='{"passed": true}'), source="evil.py:policy")
    assert records.finished(task) is not None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "our cache"))
    assert records.finished(task) is None
    assert records.read(record) == {}


def test_a_record_of_ours_counts_in_its_place_alone(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    one, other = (records.record_of(tmp_path / name, "verify") for name in "ab")
    task = Task(name="a", words=(), cwd="", key="k", record=str(one))
    records.keep(Outcome(task=task, code=0, printed="{}"))
    other.write_bytes(one.read_bytes())
    assert records.read(one)["key"] == "k"
    assert records.read(other) == {}


def test_ray_takes_an_address_or_none() -> None:
    assert with_ray_address(["verify", "--ray", "out/a"]) == ["verify", "--ray", "auto", "out/a"]
    assert with_ray_address(["verify", "a", "--ray"]) == ["verify", "a", "--ray", "auto"]
    assert with_ray_address(["a", "--ray", "--json"]) == ["a", "--ray", "auto", "--json"]
    for address in ("auto", "10.0.0.1:6379", "ray://head:10001"):
        assert with_ray_address(["--ray", address, "b"]) == ["--ray", address, "b"]


def test_emitted_files_are_told_from_a_bundle_that_lost_its_manifest(tmp_path: Path) -> None:
    (tmp_path / "SHA256SUMS").write_text("0  policy.onnx\n")
    assert is_emitted(tmp_path)
    (tmp_path / "SHA256SUMS").write_text("0  manifest.json\n0  policy.onnx\n")
    assert not is_emitted(tmp_path)


def test_two_ways_to_do_the_same_are_refused() -> None:
    with pytest.raises(rw.UsageError, match="--jobs and --ray are two ways"):
        is_wanted(["a"], ManyAtOnce(jobs=2, ray="auto"))
    assert is_wanted(["a"], ManyAtOnce(jobs=1))
    assert is_wanted(["runs/*.pt"], ManyAtOnce())
    assert not is_wanted(["a"], ManyAtOnce())
