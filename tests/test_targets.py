"""The table of targets: every row is complete, and everything it names exists."""

from __future__ import annotations

from collections import Counter

import pytest

from roadworthy.cli import options
from roadworthy.errors import UsageError
from roadworthy.spec import targets
from roadworthy.spec.targets import TARGETS, Target

ROWS = pytest.mark.parametrize("row", TARGETS.values(), ids=lambda row: row.name)


@ROWS
def test_row_names_what_exists(row: Target) -> None:
    backend = targets.imported(row.backend)
    assert callable(getattr(backend, "lower", None))
    for engine in row.engines.values():
        found = targets.imported(engine)
        assert callable(getattr(found, "bind", None) or getattr(found, "buffers", None))
    assert not row.graph or callable(targets.imported(row.graph))


@ROWS
def test_row_says_what_it_writes_and_runs_somewhere(row: Target) -> None:
    assert row.files
    assert "cpu" in row.engines
    assert row.about
    assert row.stage
    assert TARGETS[row.name] is row


def test_no_two_targets_write_the_same_file() -> None:
    written = Counter(file for row in TARGETS.values() for file in row.files)
    assert set(written.values()) == {1}


def test_default_is_the_first_row_and_opens_without_trust() -> None:
    assert targets.names()[0] == targets.DEFAULT
    assert not targets.get(targets.DEFAULT).code


def test_unknown_target_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        targets.get("torch-export")
    expected = "[RW001] there is no target 'torch-export'\n  → did you mean 'torch_export'?"
    assert str(caught.value) == expected


def test_a_place_where_policies_run_is_answered_with_what_is_written_for_it() -> None:
    with pytest.raises(UsageError) as caught:
        targets.get("wasm")
    assert "targets=['c'] what is written for it: rw.load(folder, device='wasm')" in str(
        caught.value
    )


def test_help_on_the_command_line_is_read_off_the_table() -> None:
    assert all(f"{row.name}" in options.WRITTEN for row in TARGETS.values())
    assert all(row.about in options.WRITTEN for row in TARGETS.values())
    assert options.RUN == "onnx (the default), torch_export, aoti, c or wasm; again for more."
    assert options.TRUST == "Open files that are code: torch_export, aoti and c."
    assert "Whose graph: onnx or torch_export." in options.SHOWN
