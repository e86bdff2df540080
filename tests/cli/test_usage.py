"""How soon a mistake in a call is answered: before anything that takes long is imported.

How many milliseconds that is, benchmarks/start_up.py says.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import hostile

P = """
import torch
from torch import nn

class Actor(nn.Module):
    pass

actor = Actor()

if torch.cuda.is_available():
    fast = actor

def make_env():
    return None
"""
EXPORT = ("export", "p.py:actor", "-o", "b")
# A wrong command line, and what it is told.
USAGE: list[tuple[tuple[str, ...], str]] = [
    ((*EXPORT, "--input", "obs=abc"), "cannot read --input 'obs=abc'"),
    ((*EXPORT, "--input", "obs=float33:4"), "cannot read --input"),
    ((*EXPORT, "--memory", "h"), "cannot read --memory 'h'"),
    ((*EXPORT, "--set", "h"), "cannot read --set 'h'"),
    ((*EXPORT, "--set", "net=nobody.py:net"), "nobody.py does not exist"),
    ((*EXPORT, "--constant", "h"), "cannot read --constant 'h'"),
    ((*EXPORT, "--target", "onx"), "did you mean 'onnx'?"),
    ((*EXPORT, "--opset", "11"), "opset 11 is not supported"),
    ((*EXPORT, "--ir-version", "3"), "ir_version 3 is not supported"),
    ((*EXPORT, "--opset", "eleven"), "Invalid value for '--opset'"),
    ((*EXPORT, "--seed", "-1"), "Invalid value for '--seed'"),
    ((*EXPORT, "--exploration", "determinstic"), "did you mean 'deterministic'?"),
    ((*EXPORT, "--env", "nobody.py:make_env"), "nobody.py does not exist"),
    ((*EXPORT, "--env", "p.py:make_en"), "did you mean 'make_env'?"),
    ((*EXPORT, "--env", "nobody:make_env"), "No module named 'nobody'"),
    ((*EXPORT, "--inputs", "obs=4"), "No such option"),
    (("export", "p.py:actor"), "Missing option '-o'"),
    (
        ("inspect", "p.py", "--flash", "4K"),
        "--flash, --ram and --size are asked of the policy as C",
    ),
    (("export", "p.py:actor", "-o", "p.py"), "p.py is a file"),
    (("export", "p.py:actor", "-o", "p.py/walker"), "a part of the path is a file"),
    (("export", "p.py:actor", "-o", "thesis"), "chapter.txt"),
    (("export", "nobody.py:actor", "-o", "b"), "nobody.py does not exist"),
    (("export", "p.py:actr", "-o", "b"), "did you mean 'actor'?"),
    (("export", "p.py:Actor", "-o", "b"), "is a class, not a trained policy"),
    (("export", "p.py", "-o", "b"), "with NAME one of actor, fast, make_env"),
    (("export", "star.py", "-o", "b"), "with NAME one of the names in the file"),
    (("export", "model.zip", "-o", "b"), "model.zip does not exist"),
    (("export", "runs/model.pt", "-o", "b"), "there is no folder runs"),
    (("export", "nobody.module:actor", "-o", "b"), "No module named 'nobody'"),
    (("doctor", "p.py:actor", "--input", "obs=abc"), "cannot read --input 'obs=abc'"),
    (("doctor", "p.py:actr"), "did you mean 'actor'?"),
    (("doctor", "nobody.py:x"), "nobody.py does not exist"),
    (("doctor", "p.py:actor", "--exploration", "none"), "--exploration 'none' is not known"),
    (("verify", "nobody"), "nobody does not exist"),
    (("verify", "walker", "--against", "nobody.py:x"), "nobody.py does not exist"),
    (("verify", "walker", "--against", "p.py:actr"), "did you mean 'actor'?"),
    (("verify", "thesis", "--against", "p.py:actor"), "thesis"),
    (("verify", "walker", "--against", "p.py:actor", "--episodes", "5"), "without an environment"),
    (("verify", "walker", "--env", "CartPole-v1"), "there is none"),
    (("verify", "walker", "--against", "p.py:actor", "--env", "p.py:mak"), "'make_env'"),
    (("verify", "walker", "--episodes", "0"), "Invalid value for '--episodes'"),
    (("verify", "walker", "--seed", "-1"), "Invalid value for '--seed'"),
    (("inspect", "nobody"), "nobody does not exist"),
    (("inspect", "lone.onnx", "--values"), "--values needs the folder"),
    (("inspect", "walker", "--values", "--against", "nobody.py:x"), "nobody.py does not exist"),
    (("inspect", "walker", "--values", "--seed", "-1"), "Invalid value for '--seed'"),
    (("inspect", "walker", "--graph", "--target", "onx"), "onx"),
    (("bench", "nobody"), "nobody"),
    (("bench", "walker", "--engine", "onx"), "onx"),
    (("bench", "walker", "--batch", "0"), "Invalid value for '--batch'"),
    (("run", "nobody", "--env", "CartPole-v1"), "nobody does not exist"),
    (("run", "walker"), "Missing option '--env'"),
    (("run", "walker", "--env", "nobody.py:make"), "nobody.py does not exist"),
    (
        ("run", "walker", "--env", "CartPole-v1", "--episodes", "0"),
        "Invalid value for '--episodes'",
    ),
    (("explain", "RW9999"), "RW9999"),
    (("exprt", "p.py:actor"), "exprt"),
]
# All of them one after the other: as long as none of them imports PyTorch, it is not there.
CALLS = """
import contextlib, io, json, sys
from roadworthy.cli.app import run
for words in json.loads(sys.argv[1]):
    said, code = io.StringIO(), 0
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        try:
            run(words)
        except SystemExit as leaving:
            code = leaving.code
    print(json.dumps([code, said.getvalue(), list(sys.modules)]))
"""
ALONE = """
import json, sys
from roadworthy.cli.app import run
try:
    run(sys.argv[1:])
except SystemExit as leaving:
    print(json.dumps([leaving.code, list(sys.modules)]))
"""
# Each of them takes longer to import than an answer may take.
HEAVY = {"gymnasium", "matplotlib", "onnx", "onnxscript", "pandas", "scipy", "torch", "torchrl"}


def _python(script: str, *words: str, cwd: Path) -> list[str]:
    path = ":".join(each for each in sys.path if each)
    done = subprocess.run(
        [sys.executable, "-c", script, *words], cwd=cwd, capture_output=True, text=True,
        env={"PYTHONPATH": path, "PATH": "", "COLUMNS": "300"}, check=True,
    )  # fmt: skip
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("desk")
    (folder / "p.py").write_text(P)
    (folder / "star.py").write_text("from p import *\nimport torch\nraise SystemExit(7)\n")
    (folder / "thesis").mkdir()
    (folder / "thesis" / "chapter.txt").write_text("years of work")
    hostile.sealed(folder / "walker")
    (folder / "lone.onnx").write_bytes(hostile.smooth())
    return folder


@pytest.fixture(scope="module")
def answers(desk: Path) -> dict[tuple[str, ...], Any]:
    lines = _python(CALLS, json.dumps([words for words, _ in USAGE]), cwd=desk)
    calls = [words for words, _ in USAGE]
    return {words: json.loads(line) for words, line in zip(calls, lines, strict=True)}


@pytest.mark.parametrize(("words", "message"), USAGE, ids=[" ".join(w) for w, _ in USAGE])
def test_mistake_in_a_call_is_answered_before_pytorch_is_imported(
    answers: dict[tuple[str, ...], Any], words: tuple[str, ...], message: str
) -> None:
    code, said, modules = answers[words]
    assert code == 2, said
    assert message in " ".join(said.split())
    assert not HEAVY & set(modules)


@pytest.mark.parametrize("words", [USAGE[0][0], ("verify", "nobody"), ("inspect", "nobody")])
def test_mistake_in_the_first_words_is_answered_without_onnxruntime_too(
    desk: Path, words: tuple[str, ...]
) -> None:
    (line,) = _python(ALONE, *words, cwd=desk)
    code, modules = json.loads(line)
    assert code == 2
    assert not (HEAVY | {"onnxruntime"}) & set(modules)
