"""The net holds: a byte that changed is seen, a text that changed, a case that ends its process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import roadworthy as rw
from tests import fingerprints
from tests.fingerprinted import moved, results
from tests.fingerprinted.children import ROOT


def told(before: results.Result, after: results.Result) -> list[str]:
    return list(fingerprints.differences({"case": before}, {"case": after}))


def test_one_byte_that_changed_is_seen_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "policy.onnx").write_bytes(b"weights")
    (tmp_path / "manifest.json").write_bytes(b"{}")
    before = results.sums(tmp_path)
    assert told(before, results.sums(tmp_path)) == []
    (tmp_path / "policy.onnx").write_bytes(b"weighty")
    assert told(before, results.sums(tmp_path)) == ["case: policy.onnx"]
    (tmp_path / "manifest.json").unlink()
    assert told(before, results.sums(tmp_path)) == ["case: -manifest.json, policy.onnx"]


def test_a_text_that_changed_is_shown() -> None:
    def refused(hint: str) -> results.Result:
        def make(folder: Path) -> object:
            raise rw.UsageError(f"no {folder}", where="obs", hint=hint)

        return results.seen(make)

    before, after = refused("say memory="), refused("say ignore=")
    assert before == {"refused": "[RW001] obs: no TMP/bundle\n  → say memory="}
    assert told(before, before) == []
    assert told(before, after) == ["case: refused\n    -  → say memory=\n    +  → say ignore="]


def test_a_case_that_is_gone_or_new_is_seen_and_a_test_that_moved_is_the_same() -> None:
    before = {"tests/a/test_a.py::test_one": {"x": "1"}, "old": {}}
    after = {"tests/b/test_b.py::test_one": {"x": "1"}, "new": {}}
    assert list(fingerprints.differences(before, after)) == ["new: is new", "old: is gone"]


def test_shares_are_apart_and_together_everything() -> None:
    names = [f"case {n}" for n in range(100)]
    shares = [[n for n in names if fingerprints.in_share(n, f"{i}/3")] for i in (1, 2, 3)]
    assert sorted(name for share in shares for name in share) == sorted(names)
    assert all(20 < len(share) < 50 for share in shares)


@pytest.mark.slow
def test_the_commands_record_and_compare(tmp_path: Path) -> None:
    store = tmp_path / "store.json"

    def call(verb: str) -> subprocess.CompletedProcess[str]:
        words = [verb, str(store), "--suite", "policies", "failing", "--only", "rsample"]
        command = [sys.executable, "-m", "tests.fingerprints", *words]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert call("record").returncode == 0
    recorded = json.loads(store.read_text())
    assert sorted(recorded["failing"]) == ["rsample after", "rsample before"]
    assert recorded["failing"]["rsample before"]["refused"].startswith("[RW111] ")
    again = call("compare")
    assert (again.returncode, again.stdout) == (0, "0 differences in 2 cases\n")
    recorded["failing"]["rsample after"]["policy.onnx"] = "0" * 64
    store.write_text(json.dumps(recorded))
    seen = call("compare")
    assert seen.returncode == 1
    assert seen.stdout.splitlines()[0] == "failing/rsample after: policy.onnx"


@pytest.mark.parametrize(
    ("now", "then"),
    [
        ('"source": "tests.verdicts.unusual.Chaos"', '"source": "tests.acceptance.unusual.Chaos"'),
        ("hidden_inputs.py:57 (x)", "disguised.py:57 (x)"),
        ("test_hidden_inputs.py:5", "test_disguised.py:5"),
        ("tests/capture/failures/values.py:3", "tests/failing/values.py:3"),
        ("tests.targets.test_c.X, targets.py:9", "tests.contract.test_c.X, targets.py:9"),
    ],
)
def test_what_has_moved_is_compared_under_its_old_name(now: str, then: str) -> None:
    assert moved.as_recorded(now) == then


@pytest.mark.parametrize("name", moved.MOVED)
def test_what_is_listed_as_moved_is_there(name: str) -> None:
    place = ROOT / "tests" / name.replace(".", "/")
    assert place.is_dir() or place.with_suffix(".py").is_file()
