"""The examples of the target c: exported, compiled, run."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cfile.running import STRICT

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "c_file"
# As much of an Arduino as the sketch asks for: ten seconds of it.
ARDUINO = """
#include <cstdio>
enum { A0 = 14, LED_BUILTIN = 13, LOW = 0, HIGH = 1 };
static unsigned long now_us; static int steps, lit;
unsigned long micros() { return now_us; }
int analogRead(int pin) { return pin == A0 + 2 ? 700 : 512; }
void digitalWrite(int, int level) { steps++; lit += level; }
#include "sketch.ino"
int main() {
    setup();
    for (; now_us < 10000000ul; now_us += 1000) loop();
    std::printf("%d %d", steps, lit);
    return 0;
}
"""


def said(words: Sequence[str | Path], folder: Path) -> str:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the examples, with the policy exported."""
    made = tmp_path_factory.mktemp("examples") / "c_file"
    shutil.copytree(EXAMPLES, made)
    assert "c/policy.c, c/policy.h" in said([sys.executable, "export.py"], made)
    return made


def test_robot_balances_its_pole(folder: Path) -> None:
    files = ["robot.c", "cartpole/c/policy.c", "-o", "robot", "-lm"]
    said(["gcc", *STRICT, "-O2", "-Icartpole/c", *files], folder)
    assert "after 500 ticks of 0.02 s the pole is" in said([folder / "robot"], folder)


def test_sketch_steps_at_the_period_of_the_policy(folder: Path) -> None:
    sketch = folder / "sketch"
    for name in ("policy.c", "policy.h"):
        shutil.copy(folder / "cartpole" / "c" / name, sketch)
    (sketch / "arduino.cpp").write_text(ARDUINO)
    said(["gcc", "-c", "policy.c", "-o", "policy.o"], sketch)
    said(["g++", "-Wall", "-Wextra", "arduino.cpp", "policy.o", "-o", "run", "-lm"], sketch)
    assert said([sketch / "run"], sketch) == "500 500"  # it leans right: push right


def test_rollout_reaches_the_most_that_there_is(folder: Path) -> None:
    words = [sys.executable, "rollout.py", "cartpole"]
    assert "mean return 500 over 5 episodes" in said(words, folder)


def test_page_calls_only_what_its_c_shows(folder: Path) -> None:
    """Compiled for this machine: the module itself is run by `make boards`."""
    browser = folder / "browser"
    for name in ("policy.c", "policy.h"):
        shutil.copy(folder / "cartpole" / "c" / name, browser)
    said(["gcc", "-shared", "-fPIC", "policy.c", "page.c", "-o", "page.so", "-lm"], browser)
    import ctypes

    page = ctypes.CDLL(str(browser / "page.so"))
    page.page_obs.restype = ctypes.POINTER(ctypes.c_float)
    page.page_reset()
    obs = page.page_obs()
    for angle, action in ((0.1, 1), (-0.1, 0)):
        obs[0], obs[1], obs[2], obs[3] = 0.0, 0.0, angle, 0.0
        assert page.page_step() == action
    called = {f"exports.{name}" for name in ("page_reset", "page_obs", "page_step", "memory")}
    text = (browser / "policy.mjs").read_text()
    assert all(name in text for name in called)
