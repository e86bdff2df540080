"""`roadworthy explain` and `roadworthy doctor`."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from roadworthy.cli.app import run

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs the command in this process: exit code, stdout, stderr."""
    monkeypatch.setenv("COLUMNS", "300")

    def called(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            run(list(words))
        printed = capsys.readouterr()
        return int(stopped.value.code or 0), printed.out, printed.err

    return called


def test_explain_prints_the_page_of_a_finding(call: Call) -> None:
    code, out, _ = call("explain", "rw112")
    assert code == 0
    assert "RW112: state that was not declared" in out
    assert 'memory={"hidden": "hidden"}' in out


def test_explain_gives_its_parts_as_json(call: Call) -> None:
    _, out, _ = call("explain", "RW112", "--json")
    assert json.loads(out)["title"] == "state that was not declared"


def test_explain_answers_an_unknown_code_with_the_nearest(call: Call) -> None:
    code, _, err = call("explain", "RW301")
    assert code == 2
    assert "there is no finding 'RW301'" in err
    assert "did you mean" in err
