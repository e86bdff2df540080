"""A robot's policy writes no file and opens no socket: not at import, not at load, not in steps."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from roadworthy.runtime.telemetry import VARIABLE
from tests import hostile

# Said by Python itself, whoever it is that writes.
AUDITED = """
import sys

found = []

def watch(event, arguments):
    if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        found.append(f"{event} {arguments[0]}")
    elif event.startswith("socket.") or event in (
        "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link", "os.truncate",
        "os.utime", "subprocess.Popen", "os.fork", "os.posix_spawn", "tempfile.mkstemp",
    ):
        found.append(f"{event} {arguments[:1]}")

sys.addaudithook(watch)
"""
STEPS = """
import numpy as np
import roadworthy as rw
policy = rw.load(sys.argv[1], canary={canary})
obs = np.ones(3, np.float32)
for _ in range(1000):
    policy.act(obs)
print("\\n".join(found))
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("home", "tmp", "here"):
        (tmp_path / name).mkdir()
    hostile.sealed(tmp_path / "bundle")
    return tmp_path


def run(place: Path, program: str, *before: str) -> str:
    path = ":".join(each for each in sys.path if each)
    environment = {
        "HOME": str(place / "home"), "TMPDIR": str(place / "tmp"), "PYTHONPATH": path,
        "PYTHONDONTWRITEBYTECODE": "1", "PATH": "/usr/bin:/bin",
    }  # fmt: skip
    done = subprocess.run(
        [*before, sys.executable, "-c", program, str(place / "bundle")],
        cwd=place / "here", env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def left(place: Path) -> list[str]:
    """Every file and folder that was not there before."""
    return sorted(
        path.relative_to(place).as_posix()
        for name in ("home", "tmp", "here")
        for path in (place / name).rglob("*")
    )


def test_thousand_steps_write_nothing_and_open_no_socket(place: Path) -> None:
    assert run(place, AUDITED + STEPS.format(canary=False)) == ""
    assert left(place) == []


def test_first_load_leaves_its_note_and_nothing_else(place: Path) -> None:
    said = run(place, AUDITED + STEPS.format(canary=True)).splitlines()
    assert [line for line in said if line.startswith(("socket", "os.rename", "os.remove"))] == []
    assert [line.split()[0] for line in said if "Popen" in line] == ["subprocess.Popen"]
    known = [each for each in left(place) if (place / each).is_file()]
    assert len(known) == 1
    assert re.fullmatch(r"home/\.cache/roadworthy/known-1/[0-9a-f]{64}", known[0])
    assert run(place, AUDITED + STEPS.format(canary=True)) == ""  # from now on


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_system_calls_say_the_same(place: Path) -> None:
    log = place / "calls"
    calls = "trace=openat,open,creat,mkdir,mkdirat,rename,renameat,renameat2,unlink,socket,connect"
    run(place, "import sys\nfound = []" + STEPS.format(canary=False), "strace", "-f", "-qq", "-e",
        calls, "-o", str(log))  # fmt: skip
    changing = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|mkdir|rename|unlink|creat\(|socket\(|connect\(")
    lines = [line for line in log.read_text().splitlines() if changing.search(line)]
    assert [line for line in lines if "/dev/null" not in line] == []


def test_telemetry_can_be_wanted(place: Path) -> None:
    program = (
        f"import os; os.environ[{VARIABLE!r}] = '0'\n"
        "from roadworthy.runtime.telemetry import silent_onnxruntime\n"
        "import onnxruntime\ncalls = []\n"
        "onnxruntime.disable_telemetry_events = lambda: calls.append(1)\n"
        "silent_onnxruntime()\nprint(calls, os.environ[%r])" % VARIABLE
    )
    assert run(place, program) == "[] 0"


def test_onnxruntime_that_was_there_before_is_told(place: Path) -> None:
    program = (
        "import onnxruntime\ncalls = []\n"
        "onnxruntime.disable_telemetry_events = lambda: calls.append(1)\n"
        "from roadworthy.runtime.telemetry import silent_onnxruntime\n"
        "silent_onnxruntime()\nprint(calls)"
    )
    assert run(place, f"import os; os.environ['{VARIABLE}'] = '1'\n" + program) == "[1]"
