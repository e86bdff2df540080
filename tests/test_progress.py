"""Long work shows its stage where someone looks, and leaves nothing behind."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import roadworthy as rw
from roadworthy.errors.progress import told

SLOW = """
import sys, time
from roadworthy.errors.progress import told
with told({progress}) as say:
    say("the first stage")
    time.sleep(2.6)
    say("the second stage")
"""


def on_a_terminal(code: str) -> str:
    """What a program writes to a terminal that is its stderr."""
    outer, inner = pty.openpty()
    try:
        with subprocess.Popen([sys.executable, "-c", code], stderr=inner) as process:
            assert process.wait(timeout=300) == 0
        os.close(inner)
        inner = -1
        return os.read(outer, 65536).decode()
    finally:
        os.close(outer)
        if inner >= 0:
            os.close(inner)


def test_a_terminal_shows_each_stage_and_is_clean_afterwards() -> None:
    shown = on_a_terminal(SLOW.format(progress="None"))
    assert "the first stage" in shown  # which said nothing more itself
    assert "the second stage" in shown
    assert shown.endswith("\r\x1b[2K")


@pytest.mark.parametrize("progress", ["False", "lambda stage: None"])
def test_nothing_is_shown_where_nobody_asked(progress: str) -> None:
    said = SLOW.format(progress=progress) + "sys.stderr.write('end')"
    assert on_a_terminal(said) == "end"


def test_short_work_is_silent_on_a_terminal() -> None:
    code = SLOW.format(progress="None").replace("2.6", "0.01") + "sys.stderr.write('end')"
    assert on_a_terminal(code) == "end"


def test_without_a_terminal_nothing_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    with told(True) as say:
        say("a stage")
    assert capsys.readouterr() == ("", "")


def test_export_and_verify_say_their_stages(tmp_path: Path) -> None:
    said: list[str] = []
    module = torch.nn.Linear(3, 2)
    rw.export(module, tmp_path / "b", example={"obs": torch.zeros(1, 3)}, progress=said.append)
    assert said[0] == "capturing the module"
    assert "stepping beside the live module" in said
    checked: list[str] = []
    rw.verify(tmp_path / "b", progress=checked.append)
    assert "replaying the trace" in checked


def test_an_option_that_is_said_to_export_itself_is_answered_with_the_line(tmp_path: Path) -> None:
    with pytest.raises(rw.UsageError) as caught:
        rw.export(
            torch.nn.Linear(3, 2),
            tmp_path / "b",
            example={"obs": torch.zeros(1, 3)},
            allow_uncertified=True,
        )
    assert "options=rw.ExportOptions(allow_uncertified=True)" in str(caught.value)
