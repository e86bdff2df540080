"""The same thing exported twice is the same bytes, in this process and in another."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import roadworthy as rw
from tests.conftest import Exported
from tests.policies import CASES
from tests.tiers import representative

ROOT = Path(__file__).parent.parent.parent


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize(
    "name",
    representative(
        [
            "mlp", "normalized_sb3", "lstm", "keeps_hidden", "transformer_any_length", "cnn",
            "masked_multi_discrete", "odd_names",
        ],
        ["lstm", "keeps_hidden", "masked_multi_discrete", "odd_names"],
    ),
)  # fmt: skip
def test_second_export_is_the_same_bytes(
    export_once: Callable[[str], Exported], tmp_path: Path, name: str
) -> None:
    rw.export(CASES[name].make(), tmp_path / "elsewhere" / "again")
    first, second = contents(export_once(name).folder), contents(tmp_path / "elsewhere" / "again")
    assert list(first) == list(second)
    assert [file for file in first if first[file] != second[file]] == []


def test_export_of_another_process_is_the_same_bytes(
    export_once: Callable[..., Exported], tmp_path: Path
) -> None:
    script = (
        "import roadworthy as rw; from tests.policies import CASES\n"
        "for name in ('lstm', 'odd_names', 'dict_outputs'): rw.export(CASES[name].make(), name)\n"
        "rw.export(CASES['lstm'].make(), 'torch', targets=['torch_export'])"
    )
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": path}
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, env=environment)
    for name in ("lstm", "odd_names", "dict_outputs"):
        assert contents(export_once(name).folder) == contents(tmp_path / name), name
    assert contents(export_once("lstm", "torch_export").folder) == contents(tmp_path / "torch")


@pytest.mark.parametrize("name", ["mlp", "keeps_buffer", "odd_names"])
def test_second_torch_export_is_the_same_bytes(
    export_once: Callable[..., Exported], tmp_path: Path, name: str
) -> None:
    rw.export(CASES[name].make(), tmp_path / "again", targets=["torch_export"])
    assert contents(export_once(name, "torch_export").folder) == contents(tmp_path / "again")
