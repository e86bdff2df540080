"""C under a name of its own: several policies in one program."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw
from roadworthy.api import write_c as writing_c
from roadworthy.api.write_c import write_c
from roadworthy.spec.port import BATCH
from tests.cfile.running import STRICT
from tests.conftest import Exported

ExportOnce = Callable[..., Exported]
BOTH = """\
#include "walker/walker.h"
#include "standup/standup.h"
#include <stdio.h>
static walker_state walking;
static walker_inputs seen;
static walker_outputs moved;
static standup_state standing;
static standup_inputs felt;
static standup_outputs pushed;
int main(void)
{
    walker_init(&walking);
    standup_init(&standing);
    for (int i = 0; i < 3; i++) {
        walker_step(&walking, &seen, &moved);
        standup_step(&standing, &felt, &pushed);
    }
    printf("%.9g %.9g %d %d\\n", (double)moved.actions[0][0], (double)pushed.actions[0][0],
        WALKER_ROWS, STANDUP_ROWS);
    return 0;
}
"""


def test_two_policies_are_in_one_program(export_once: ExportOnce, tmp_path: Path) -> None:
    folders = {"walker": export_once("mlp").folder, "standup": export_once("lstm_pair").folder}
    for name, folder in folders.items():
        write_c(folder, tmp_path / name, name=name)
    (tmp_path / "main.c").write_text(BOTH)
    sources = [f"{name}/{name}.c" for name in folders]
    words = ["gcc", *STRICT, "-O2", "main.c", *sources, "-lm", "-o", "main"]
    subprocess.run(words, cwd=tmp_path, check=True)
    said = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    wanted = []
    for folder in folders.values():
        policy = rw.load(folder, engine="c")
        zeros = {
            port.name: np.zeros(port.sizes({BATCH: 1}), port.dtype)
            for port in policy.signature.inputs
        }
        wanted.append([policy.step(zeros)["actions"][0, 0] for _ in range(3)][-1])
    assert [float(each) for each in said.split()[:2]] == pytest.approx(wanted, rel=1e-6)
    assert said.split()[2:] == ["1", "1"]


@pytest.mark.parametrize("place", [".", "c", "c/deeper"])
def test_nothing_is_written_into_a_bundle(
    place: str, export_once: ExportOnce, tmp_path: Path
) -> None:
    folder = tmp_path / "bundle"
    shutil.copytree(export_once("mlp").folder, folder)
    before = sorted(folder.rglob("*"))
    with pytest.raises(rw.UsageError, match="a bundle, whose files are listed and hashed"):
        write_c(folder, folder / place)
    assert sorted(folder.rglob("*")) == before
    rw.verify(folder).raise_if_failed()


def test_files_of_others_are_not_written_over(export_once: ExportOnce, tmp_path: Path) -> None:
    folder = export_once("mlp").folder
    (tmp_path / "CMakeLists.txt").write_text("project(robot C)\n")
    with pytest.raises(rw.UsageError, match=r"has CMakeLists.txt already, and not of the policy"):
        write_c(folder, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["CMakeLists.txt"]


def test_policy_is_written_over_itself_and_over_no_other(
    export_once: ExportOnce, tmp_path: Path
) -> None:
    folder = export_once("mlp").folder
    first = write_c(folder, tmp_path / "c", name="walker")
    assert write_c(folder, tmp_path / "c", name="walker") == first
    kept = {path: path.read_bytes() for path in first}
    with pytest.raises(rw.UsageError, match=r"CMakeLists.txt, selftest.c already, .* 'standup'"):
        write_c(folder, tmp_path / "c", name="standup")
    assert {path: path.read_bytes() for path in (tmp_path / "c").iterdir()} == kept


class OddPorts(nn.Module):
    """Ports that are called what the files are called."""

    def forward(self, policy: Tensor, policy_state: Tensor, selftest: Tensor) -> Tensor:
        return policy + 2 * policy_state + selftest


def test_ports_may_be_called_what_the_files_are_called(tmp_path: Path) -> None:
    names = ("policy", "policy_state", "selftest")
    example = {name: torch.zeros(1, 2) for name in names}
    rw.export(OddPorts(), tmp_path / "b", example=example)
    write_c(tmp_path / "b", tmp_path / "c", name="walker")
    words = ["gcc", *STRICT, "walker.c", "selftest.c", "-lm", "-o", "test"]
    subprocess.run(words, cwd=tmp_path / "c", check=True)
    subprocess.run([tmp_path / "c" / "test"], check=True, capture_output=True)


def test_one_policy_is_in_one_program_under_two_names(
    export_once: ExportOnce, tmp_path: Path
) -> None:
    for name in ("walker", "standup"):
        write_c(export_once("mlp").folder, tmp_path / name, name=name)
    (tmp_path / "main.c").write_text(BOTH)
    sources = [f"{name}/{name}.c" for name in ("walker", "standup")]
    words = ["gcc", *STRICT, "-O2", "main.c", *sources, "-lm", "-o", "main"]
    subprocess.run(words, cwd=tmp_path, check=True)
    said = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    one, other, *_ = said.split()
    assert one == other


def test_a_path_may_lead_out_of_the_bundle(
    export_once: ExportOnce, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bundle"
    shutil.copytree(export_once("mlp").folder, folder)
    monkeypatch.chdir(folder)
    write_c(".", "../c")
    assert (tmp_path / "c" / "policy.c").is_file()
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(rw.UsageError, match="lies in a bundle"):
        write_c(".", "../link/c")


def test_a_file_is_no_folder_for_files(export_once: ExportOnce, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    for place in ("notes", "notes/c"):
        with pytest.raises(rw.UsageError, match="notes is a file, and the C goes into a folder"):
            write_c(export_once("mlp").folder, tmp_path / place)
    assert (tmp_path / "notes").read_text() == "mine"


@pytest.mark.parametrize(
    ("ends", "said"), [("abort();", "it crashed, signal 6"), ("for (;;) {}", "it did not end")]
)
def test_a_self_test_that_crashes_or_hangs_says_so(
    ends: str, said: str, export_once: ExportOnce, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"#include <stdlib.h>\nint main(void) {{ {ends} return 0; }}\n"
    monkeypatch.setattr(writing_c, "selftest", lambda *_: text)
    monkeypatch.setattr(writing_c, "_SECONDS", 1)
    folder = tmp_path / "my bundle"
    shutil.copytree(export_once("mlp").folder, folder)
    with pytest.raises(rw.CertificateFailed) as caught:
        write_c(folder, tmp_path / "c")
    assert said in str(caught.value)
    assert f"roadworthy verify '{folder}'" in str(caught.value)
    assert not (tmp_path / "c").exists()


@pytest.mark.skipif(shutil.which("cmake") is None, reason="apt install cmake")
def test_cmake_builds_both_as_parts_of_one_project(export_once: ExportOnce, tmp_path: Path) -> None:
    for name, policy in (("walker", "mlp"), ("standup", "lstm_pair")):
        write_c(export_once(policy).folder, tmp_path / name, name=name)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.10)\nproject(robot C)\nenable_testing()\n"
        "add_subdirectory(walker)\nadd_subdirectory(standup)\n"
    )
    for words in (("cmake", "-B", "build"), ("cmake", "--build", "build")):
        subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    subprocess.run(["ctest"], cwd=tmp_path / "build", check=True, capture_output=True)


def test_the_usual_name_gives_the_files_of_an_export(
    export_once: ExportOnce, tmp_path: Path
) -> None:
    folder = export_once("mlp").folder
    paths = write_c(folder, tmp_path / "c")
    assert sorted(path.name for path in paths) == [
        "CMakeLists.txt", "policy.c", "policy.h", "selftest.c",
    ]  # fmt: skip
    with pytest.raises(rw.UsageError, match="is a bundle"):
        write_c(folder, folder)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "2nd",
        "Walker",
        "my-policy",
        "rw_",
        "größe",
        "rw",
        "selftest",
        "stdint",
        "math",
        "test",
        "con",
        "lpt1",
    ],
)
def test_names_that_c_does_not_take_are_refused(
    name: str, export_once: ExportOnce, tmp_path: Path
) -> None:
    with pytest.raises(rw.UsageError, match="cannot be the beginning of names in C"):
        write_c(export_once("mlp").folder, tmp_path / "c", name=name)
    assert not (tmp_path / "c").exists()


class Named(nn.Module):
    """Ports whose names mean something to C, to C++ or to what is written around them."""

    def forward(
        self, obs: Tensor, Obs: Tensor, policy_init: Tensor, walker_init: Tensor, typeof: Tensor,
        explicit: Tensor,
    ) -> Tensor:  # fmt: skip
        return obs + Obs.sum(1, keepdim=True) + policy_init - walker_init * typeof + explicit


@pytest.mark.parametrize("name", ["policy", "walker"])
def test_ports_may_be_called_what_c_and_the_files_call_something(name: str, tmp_path: Path) -> None:
    example = {
        port: torch.zeros(1, 5 if port == "Obs" else 3)
        for port in ("obs", "Obs", "policy_init", "walker_init", "typeof", "explicit")
    }
    rw.export(Named(), tmp_path / "b", example=example, targets=["onnx", "c"])
    write_c(tmp_path / "b", tmp_path / "c", name=name)
    header = (tmp_path / "c" / f"{name}.h").read_text()
    sizes = [line.split()[1] for line in header.splitlines() if "_SIZE " in line]
    assert len(sizes) == len(set(sizes)) == 7
    (tmp_path / "c" / "main.cpp").write_text(f'#include "{name}.h"\nint main() {{ return 0; }}\n')
    for words in (
        ["gcc", *STRICT, f"{name}.c", "selftest.c", "-lm", "-o", "test"],
        ["gcc", "-std=gnu11", "-Werror", f"{name}.c", "selftest.c", "-lm", "-o", "test"],
        ["g++", "-Werror", "-fsyntax-only", "main.cpp"],
    ):
        subprocess.run(words, cwd=tmp_path / "c", check=True)
    subprocess.run([tmp_path / "c" / "test"], check=True, capture_output=True)


@pytest.mark.parametrize("file", ["policy.h", "policy.c", "CMakeLists.txt"])
@pytest.mark.parametrize("is_there", [False, True])
def test_what_is_interrupted_changes_nothing_and_can_be_written_again(
    file: str, is_there: bool, export_once: ExportOnce, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    folder, place, write = export_once("mlp").folder, tmp_path / "c", Path.write_text
    before = {path: path.read_bytes() for path in write_c(folder, place)} if is_there else {}

    def interrupted(self: Path, text: str, **how: str) -> int:
        if self.parent == place and file in self.name:
            write(self, text[:100], **how)
            raise KeyboardInterrupt
        return write(self, text, **how)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", interrupted)
        with pytest.raises(KeyboardInterrupt):
            write_c(folder, place)
    assert {path: path.read_bytes() for path in place.iterdir()} == before
    assert len(write_c(folder, place)) == 4
