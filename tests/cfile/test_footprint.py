"""Flash, RAM and stack as the compilers say them; what is missing is named."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import numpy_helper
from typer.testing import CliRunner

from roadworthy.cli.app import app
from roadworthy.errors import UsageError
from roadworthy.targets.c.folder.files import written
from roadworthy.targets.c.folder.footprint import BOARDS, Footprint, footprint, size_in_bytes
from roadworthy.targets.c.folder.interface import interface
from tests.conftest import Exported

HERE = next(board for board in BOARDS if board.name == "this machine")


def test_footprint_holds_the_weights_and_the_structs(
    export_once: Callable[[str], Exported], tmp_path: Path
) -> None:
    bundle = export_once("lstm_pair").bundle
    texts = written(interface(bundle.files["policy.onnx"], bundle.signature))
    found = footprint(HERE, texts)
    weights = onnx.load_from_string(bundle.files["policy.onnx"]).graph.initializer
    least = sum(numpy_helper.to_array(each).nbytes for each in weights if len(each.dims) > 1)
    assert least < found.flash < 3 * least + 20_000
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "sizes.c").write_text(
        '#include "policy.h"\n#include <stdio.h>\nint main(void) { printf("%zu", '
        "sizeof(policy_state) + sizeof(policy_inputs) + sizeof(policy_outputs)); return 0; }\n"
    )
    subprocess.run(["gcc", "sizes.c", "-o", "sizes"], cwd=tmp_path, check=True)
    said = int(subprocess.run([tmp_path / "sizes"], capture_output=True, check=True).stdout)
    assert found.ram == pytest.approx(said, abs=64)
    # policy_step, policy_run, rw_step and a kernel at least; nothing of the policy lies there.
    assert 40 < found.stack < 4096


def test_it_fits_where_flash_holds_the_code_and_ram_the_state_and_the_stack() -> None:
    found = Footprint(board="x", flash=1000, ram=300, stack=200)
    assert found.fits(flash=1000, ram=500)
    assert not found.fits(flash=999, ram=500)
    assert not found.fits(flash=1000, ram=499)
    assert found.fits(flash=None, ram=None)


def test_sizes_are_said_as_people_say_them() -> None:
    said = ("512K", "2M", "65536", "128 kB", "1MiB")
    assert [size_in_bytes(each) for each in said] == [2**19, 2**21, 2**16, 2**17, 2**20]
    with pytest.raises(UsageError, match="'much' is no size"):
        size_in_bytes("much")


def test_inspect_says_what_does_not_fit(export_once: Callable[[str], Exported]) -> None:
    folder = str(export_once("mlp").folder)
    run = CliRunner().invoke(app, ["inspect", folder, "--c", "--flash", "1K", "--json"])
    shown = json.loads(run.stdout)
    assert run.exit_code == 1
    assert {each["board"] for each in shown["boards"]} | set(shown["not_measured"]) == {
        board.name for board in BOARDS
    }
    assert not any(each["fits"] for each in shown["boards"])
    run = CliRunner().invoke(app, ["inspect", folder, "--c", "--flash", "64K", "--ram", "8K"])
    assert run.exit_code == 0
    assert "this machine" in run.stdout
    assert "yes" in run.stdout


def test_missing_compiler_is_named_with_its_package(
    export_once: Callable[[str], Exported], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    run = CliRunner().invoke(app, ["inspect", str(export_once("mlp").folder), "--c"])
    assert "Cortex-M4F: not measured; apt install gcc-arm-none-eabi" in run.stdout.replace("\n", "")


@pytest.mark.parametrize("asked", ["1K", "0"])
def test_where_nothing_was_measured_nothing_fits(
    asked: str, export_once: Callable[[str], Exported], monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    line = ["inspect", str(export_once("mlp").folder), "--c", "--flash", asked]
    told = CliRunner().invoke(app, line)
    assert told.exit_code == 1
    assert "NO" in told.stdout
    monkeypatch.setenv("PATH", str(tmp_path))
    run = CliRunner().invoke(app, line)
    assert "nothing was measured" in str(run.exception)
