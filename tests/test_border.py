"""Nothing without a finding comes out of the calls that users make."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import roadworthy as rw
from roadworthy.errors import lines
from roadworthy.errors.unforeseen import answers

CALLS = ("export", "export_environment", "verify", "diagnose", "load", "play", "discover",
         "to_source", "export_policy_as_onnx")  # fmt: skip


class Unreadable:
    """An object of the user's whose own code fails when it is looked at."""

    def __fspath__(self) -> str:
        raise RuntimeError("the disk is\nnot mounted")


def interrupted() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("name", CALLS)
def test_every_call_of_users_stands_behind_the_border(name: str) -> None:
    call = getattr(rw, name)
    assert inspect.unwrap(call) is not call
    assert call.__doc__ == inspect.unwrap(call).__doc__


def test_a_mistake_of_ours_names_our_line_and_asks_for_a_report() -> None:
    with pytest.raises(rw.InternalError) as caught:
        answers(lines.place_of)(None)  # type: ignore[arg-type]
    (finding,) = caught.value.findings
    assert finding.code == "RW900"
    assert finding.where.startswith("errors/lines.py:")
    assert finding.what.startswith("Roadworthy did not foresee this: TypeError: expected string")
    assert "please report it with its traceback" in finding.hint
    assert isinstance(caught.value.__cause__, TypeError)


def test_an_error_of_the_users_code_names_their_line() -> None:
    with pytest.raises(rw.UsageError) as caught:
        rw.load(Unreadable())  # type: ignore[arg-type]
    (finding,) = caught.value.findings
    assert finding.code == "RW003"
    assert finding.where.startswith("test_border.py:")
    assert finding.what == "code that Roadworthy called raised RuntimeError: the disk is"
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_what_the_operating_system_refuses_is_said_with_the_path(tmp_path: Path) -> None:
    place = tmp_path / ("x" * 300)
    with pytest.raises(rw.BundleError) as caught:
        answers(place.read_bytes)()
    (finding,) = caught.value.findings
    assert (finding.code, finding.where) == ("RW206", str(place))
    assert finding.what == "File name too long"
    assert finding.hint.startswith("check the path, its rights and the space on the disk")


def test_findings_pass_as_they_are(tmp_path: Path) -> None:
    with pytest.raises(rw.BundleError) as caught:
        rw.load(tmp_path / "nothing")
    assert caught.value.findings[0].code == "RW200"
    assert caught.value.__cause__ is None


def test_interrupts_pass_through() -> None:
    with pytest.raises(KeyboardInterrupt):
        answers(interrupted)()


def test_a_missing_argument_is_told_by_python_itself() -> None:
    with pytest.raises(TypeError, match="folder"):
        rw.export("policy.zip")  # type: ignore[call-arg]
