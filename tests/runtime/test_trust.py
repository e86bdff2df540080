"""A stranger's bundle runs no code of its author's: not by any verb, engine or list of files."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx
import pytest

import roadworthy as rw
from roadworthy.api.write_c import write_c
from roadworthy.runtime import compiler, torch_engines, trust
from roadworthy.runtime.engine import Artifact
from roadworthy.spec.targets import TARGETS
from roadworthy.targets.c.folder.files import written
from roadworthy.targets.c.folder.interface import interface
from tests import hostile
from tests.cli.conftest import roadworthy

SOURCES = Path(rw.__file__).parent
ROW = list(TARGETS["c"].files)
ISSUE = {"onnx": ["policy.onnx", "c/policy.c", "c/policy.h"]}
# Lists of files that no export writes; every one of them must be refused when the bundle is opened.
LISTS: dict[str, dict[str, list[str]]] = {
    "C behind the ONNX file": ISSUE,
    "C before the ONNX file": {"onnx": ["c/policy.c", "c/policy.h", "policy.onnx"]},
    "C in place of the ONNX file": {"onnx": ["c/policy.c", "c/policy.h"]},
    "C alone, data first": {"c": ["policy.onnx", "c/policy.c", "c/policy.h"]},
    "the two swapped": {"onnx": ROW, "c": ["policy.onnx"]},
    "C in another order": {"onnx": ["policy.onnx"], "c": ROW[::-1]},
    "C without its test": {"onnx": ["policy.onnx"], "c": ROW[:2]},
    "C twice": {"onnx": ["policy.onnx"], "c": [*ROW, "c/policy.c"]},
    "C elsewhere": {"c": ["x/policy.c", "x/policy.h"]},
    "C at the top": {"onnx": ["policy.onnx", "policy.c", "policy.h"]},
    "C in capitals": {"c": ["C/policy.c", "C/policy.h"]},
    "the ONNX file twice": {"onnx": ["policy.onnx", "policy.onnx"]},
    "C for PyTorch": {"onnx": ["policy.onnx"], "torch_export": ["c/policy.c", "c/policy.h"]},
    "ONNX for PyTorch": {"onnx": ["policy.onnx"], "torch_export": ["policy.onnx"]},
    "a library as a graph": {"onnx": ["policy.onnx"], "torch_export": ["policy.aoti.pt2"]},
    "a graph as a library": {"onnx": ["policy.onnx"], "aoti": ["policy.pt2"]},
    "a library as data": {"onnx": ["policy.aoti.pt2"]},
    "C among libraries": {"aoti": ["policy.aoti.pt2", "c/policy.c", "c/policy.h"]},
}
# What right lists may look like: then the C is written anew, or the target refused.
HONEST: dict[str, dict[str, list[str]]] = {
    "all of them": {name: list(row.files) for name, row in TARGETS.items()},
    "C beside the ONNX file": {"onnx": ["policy.onnx"], "c": ROW},
    "C alone": {"c": ROW},
    "a target that nobody knows": {"onnx": ["policy.onnx"], "other": ["c/policy.c", "c/policy.h"]},
}
OBS = np.zeros((1, hostile.WIDTH), np.float32)


def stranger(folder: Path, targets: dict[str, list[str]], marker: Path) -> Path:
    """A whole bundle with right sums, whose C writes a file as soon as it is loaded."""
    texts = written(interface(hostile.smooth(), hostile.SIGNATURE))
    texts["policy.c"] += (
        "\n#include <stdio.h>\n__attribute__((constructor)) static void attack(void)\n"
        f'{{ FILE *file = fopen("{marker}", "w"); if (file) fclose(file); }}\n'
    )
    held = {f"c/{name}": text.encode() for name, text in texts.items()} | {"c/selftest.c": b""}
    listed = {name for files in targets.values() for name in files}
    for name in listed - held.keys() - {"policy.onnx"}:
        held[name] = held.get(f"c/{name.rpartition('/')[2]}", b"PK")
    manifest = json.dumps(hostile.manifest() | {"targets": targets}).encode()
    return hostile.sealed(folder, {**held, "manifest.json": manifest})


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What appears as soon as a compiler sees the stranger's C, or a library of it is loaded."""
    path = tmp_path / "code-was-run"
    real = shutil.which("cc") or shutil.which("gcc")
    spy = tmp_path / "cc"
    spy.write_text(f'#!/bin/sh\ngrep -qs "void attack" ./*.c && : > {path}\nexec {real} "$@"\n')
    spy.chmod(0o755)
    monkeypatch.setenv("CC", str(spy))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return path


@pytest.mark.parametrize("verb", ["load", "bench"])
def test_attack_of_a_stranger_runs_nothing_in_fresh_processes(
    tmp_path: Path, marker: Path, verb: str
) -> None:
    folder = str(stranger(tmp_path / "bundle", ISSUE, marker))
    words = {
        "load": ["-c", f"import roadworthy as rw\nrw.load({folder!r}, engine='c')"],
        "bench": ["-m", "roadworthy", "bench", folder, "--engine", "c"],
    }[verb]
    for _ in range(2):
        run = subprocess.run([sys.executable, *words], capture_output=True, text=True)
        assert not marker.exists()
        assert run.returncode
        told = " ".join(run.stderr.split())  # a terminal wraps where it likes
        assert "expected policy.onnx, got policy.onnx, c/policy.c, c/policy.h" in told


def every_use(folder: Path, tmp_path: Path) -> None:
    """Whatever a user may do with a bundle without trust; refusals are fine."""
    uses: list[Callable[[], object]] = [
        *(
            lambda e=engine, d=device: rw.load(folder, engine=e, device=d, canary=False).step(
                {"obs": OBS}
            )
            for engine in (None, *TARGETS, "wasm")
            for device in ("cpu", "cuda", "wasm")
        ),
        *(lambda p=path: rw.load(p, engine="c") for path in folder.rglob("policy.*")),
        lambda: rw.verify(folder, canary=False),
        lambda: rw.verify(folder, canary=False, device="wasm"),
        lambda: write_c(folder, tmp_path / "c", canary=False),
    ]
    for use in uses:
        with suppress(rw.RoadworthyError):
            use()
    name = str(folder)
    for words in (
        *(("bench", name, "--engine", e, "--rounds", "1") for e in (*TARGETS, "wasm")),
        *(("inspect", name, "--graph", "--target", target) for target in TARGETS),
        ("inspect", name, "--c"),
        ("inspect", name),
        ("verify", name),
        ("c", name, "-o", str(tmp_path / "other")),
        ("report", name, "-o", str(tmp_path / "report.html")),
    ):
        roadworthy(*words, cwd=tmp_path)


@pytest.mark.parametrize("case", LISTS)
def test_files_that_are_not_those_of_the_row_are_refused(
    tmp_path: Path, marker: Path, case: str
) -> None:
    folder = stranger(tmp_path / "bundle", LISTS[case], marker)
    wrong = {name: files for name, files in LISTS[case].items() if name in TARGETS}
    wrong = {n: files for n, files in wrong.items() if tuple(files) != TARGETS[n].files}
    for trusted in (False, True):
        with pytest.raises(rw.BundleError) as caught:
            rw.load(folder, engine="c", trust=trusted)
        assert [(each.code, each.where, each.what) for each in caught.value.findings] == [
            (
                "RW205",
                f"{folder / 'manifest.json'}: targets.{name}",
                f"expected {', '.join(TARGETS[name].files)}, got {', '.join(files)}",
            )
            for name, files in wrong.items()
        ]
        assert all("export it again" in each.hint for each in caught.value.findings)
    every_use(folder, tmp_path)
    assert not marker.exists()


@pytest.mark.parametrize("case", HONEST)
def test_no_verb_and_no_engine_compiles_what_was_not_trusted(
    tmp_path: Path, marker: Path, case: str
) -> None:
    folder = stranger(tmp_path / "bundle", HONEST[case], marker)
    every_use(folder, tmp_path)
    assert not marker.exists()


def test_trust_is_not_a_formality(tmp_path: Path, marker: Path) -> None:
    folder = stranger(tmp_path / "bundle", HONEST["C beside the ONNX file"], marker)
    rw.load(folder, engine="c").step({"obs": OBS})
    assert not marker.exists()
    rw.load(folder, engine="c", trust=True)
    assert marker.exists()


def test_a_path_that_is_written_in_two_ways_is_refused(tmp_path: Path, marker: Path) -> None:
    folder = stranger(tmp_path / "bundle", ISSUE, marker)
    text = (folder / "SHA256SUMS").read_text()
    for other in ("c//policy.c", "./c/policy.c", "c/./policy.c"):
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["targets"] = {"c": [other, *ROW[1:]]}
        (folder / "manifest.json").write_text(json.dumps(manifest))
        names = {line[66:] for line in text.splitlines()} | {other}
        lines = []
        for name in sorted(names):
            done = subprocess.run(
                ["sha256sum", folder / name], capture_output=True, text=True, check=True
            )
            lines.append(f"{done.stdout[:64]}  {name}\n")
        (folder / "SHA256SUMS").write_text("".join(lines))
        with pytest.raises(rw.BundleError, match=r"damaged|expected c/policy\.c, c/policy\.h"):
            rw.load(folder, engine="c")
    assert not marker.exists()


def test_a_lone_file_is_data_whatever_it_is_called(tmp_path: Path, marker: Path) -> None:
    folder = stranger(tmp_path / "bundle", HONEST["C alone"], marker)
    with pytest.raises(rw.BundleError):
        rw.load(folder / "c" / "policy.c", engine="c", canary=False)
    path = tmp_path / "policy.c"
    path.write_bytes(hostile.smooth())
    assert rw.load(path, engine="c").step({"obs": OBS})["actions"].shape == OBS.shape
    assert not marker.exists()


@pytest.mark.parametrize("side", ["wider", "narrower"])
def test_a_model_with_other_ports_than_its_signature_touches_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    """The C goes by the sizes of the graph: beyond buffers of other sizes it would write."""
    monkeypatch.setattr(hostile, "SHAPE", ("batch", {"wider": 30_000, "narrower": 2}[side]))
    folder = hostile.sealed(tmp_path / "bundle", {"policy.onnx": hostile.smooth()})
    with pytest.raises(rw.BundleError, match=r"obs: the model has a port of float32 \(1, "):
        rw.load(folder, engine="c").step({"obs": OBS})


@pytest.mark.parametrize(
    ("end", "begin"), [("*\\", "\\*"), ("*/", "/*"), ("*??/", "??/*"), ("*\\/", "/\\*")]
)
def test_attack_the_words_of_a_port_do_not_leave_their_comment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, begin: str
) -> None:
    """`roadworthy c` compiles and runs what it wrote of a stranger's bundle, without trust."""
    ran = tmp_path / "code-was-run"
    code = "int system(const char *); __attribute__((constructor)) static void a(void) { system("
    words = f'{end} int z; }} q; {code}": > code-was-run"); }} typedef struct {{ {begin}'
    manifest = hostile.manifest()
    manifest["signature"]["inputs"][0] |= {"description": words, "unit": words}
    model = onnx.load_from_string(hostile.smooth())
    model.metadata_props[0].value = json.dumps(manifest["signature"])
    changes = {
        "manifest.json": json.dumps(manifest).encode(),
        "policy.onnx": bytes(model.SerializeToString()),
    }
    folder = hostile.sealed(tmp_path / "bundle", changes)
    monkeypatch.chdir(tmp_path)
    write_c(folder, tmp_path / "c", canary=False)
    assert not ran.exists()
    header = (tmp_path / "c" / "policy.h").read_text()
    comments = re.findall(r"/\*.*?\*/", header, re.DOTALL)
    assert sum("system" in each for each in comments) == 1
    assert "system" not in re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)


def test_only_one_place_says_what_is_trusted() -> None:
    with pytest.raises(TypeError, match="says what is trusted"):
        trust.TrustedCode({"policy.c": b""})
    files = {"policy.c": b"int policy;"}
    for door in (
        compiler.library,
        compiler.wasm_module,
        lambda files: compiler.extension(files, "stepper", []),
        lambda files: compiler.program(Path(os.devnull).parent, files),
    ):
        with pytest.raises(TypeError, match="must judge it first"):
            door(files)  # type: ignore[operator]
    artifact = Artifact(files=files, signature=hostile.SIGNATURE, where="policy.pt2")
    for engine in (torch_engines.AotiEngine, torch_engines.TorchExportEngine):
        with pytest.raises(TypeError, match="must judge it first"):
            engine(artifact)


def test_every_door_to_running_code_is_known() -> None:
    """A new one must demand what was judged_files, and stand here."""
    doors = {
        "CDLL",
        "ExtensionFileLoader",
        "AOTIModelPackageLoader",
        "load_pt2",
        "written_here",
        "judged_files",
    }
    seen: dict[str, set[str]] = {name: set() for name in doors}
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
            if name in doors:
                seen[name].add(path.relative_to(SOURCES).as_posix())
    assert seen == {
        "CDLL": {"runtime/compiler.py", "runtime/c_engine.py", "spec/replacing.py"},
        "ExtensionFileLoader": {"runtime/compiler.py"},
        "AOTIModelPackageLoader": {"runtime/torch_engines.py"},
        "load_pt2": {"runtime/torch_engines.py"},
        "written_here": {
            "api/shrink.py",
            "api/write_c.py",
            "runtime/c_frame.py",
            "runtime/trust.py",
        },
        "judged_files": {"runtime/engines.py"},
    }
