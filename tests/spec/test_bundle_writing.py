"""Writing a bundle: all or nothing, and never at the cost of something else."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import roadworthy as rw
from roadworthy.errors import BundleError
from roadworthy.spec.sealing import new_bundle
from tests.conftest import Exported

OBS = {"obs": torch.zeros(1, 4)}


class Draws(nn.Linear):
    """Passes the call, not the export."""

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return super().forward(obs) + torch.randn(())


@pytest.fixture
def folder(export_once: Callable[[str], Exported], tmp_path: Path) -> Path:
    return Path(shutil.copytree(export_once("mlp").folder, tmp_path / "walker"))


def contents(root: Path) -> dict[str, bytes | None]:
    """Everything below `root`; folders hold None."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes() if path.is_file() else None
        for path in sorted(root.rglob("*"))
    }


def write(folder: Path, module: nn.Module | None = None) -> rw.Bundle:
    return rw.export(module or nn.Linear(4, 2), folder, example=OBS)


def test_older_bundle_is_replaced(folder: Path) -> None:
    bundle = write(folder)
    assert bundle.signature.inputs[0].shape == ("batch", 4)
    assert rw.Bundle.open(folder).files == bundle.files
    assert [path.name for path in folder.parent.iterdir()] == ["walker"]


def test_empty_folder_is_filled_and_parents_are_made(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    write(tmp_path / "empty")
    write(tmp_path / "a" / "b" / "c")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "empty"]
    assert (tmp_path / "a/b/c").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("name", ["notes.txt", "sub/policy.onnx", "link"])
def test_foreign_folder_is_refused_with_its_content_intact(tmp_path: Path, name: str) -> None:
    path = tmp_path / "home" / name
    path.parent.mkdir(parents=True)
    if name == "link":
        path.symlink_to(tmp_path / "nowhere")
    else:
        path.write_text("dear")
    before = contents(tmp_path)
    with pytest.raises(BundleError) as caught:
        write(tmp_path / "home")
    assert str(caught.value) == (
        f"[RW200] {tmp_path / 'home'} holds files that are not part of a bundle and would be lost: "
        f"{name}\n  → choose a new or empty folder"
    )
    assert contents(tmp_path) == before


def test_notes_inside_a_bundle_are_not_lost(folder: Path) -> None:
    (folder / "notes.txt").write_text("dear")
    before = contents(folder.parent)
    with pytest.raises(BundleError, match=r"would be lost: notes\.txt"):
        write(folder)
    assert contents(folder.parent) == before


def test_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "walker").write_text("dear")
    with pytest.raises(BundleError, match=r"walker is a file\n  → choose a folder"):
        write(tmp_path / "walker")
    assert (tmp_path / "walker").read_text() == "dear"


def test_link_goes_on_pointing_to_what_was_replaced(folder: Path) -> None:
    link = folder.parent / "current"
    link.symlink_to("walker")
    bundle = write(link)
    assert link.is_symlink()
    assert link.readlink() == Path("walker")
    assert rw.Bundle.open(folder).files == bundle.files
    assert sorted(path.name for path in folder.parent.iterdir()) == ["current", "walker"]


def test_current_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here" / "below").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here" / "below")
    for place in (Path(), Path("..")):
        with pytest.raises(
            BundleError,
            match="is the current folder or above it, and would be "
            "replaced\n  → choose a folder below this one",
        ):
            write(place)
    assert Path.cwd().is_dir()
    assert contents(tmp_path) == {"here": None, "here/below": None}


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_failure_half_way_leaves_the_older_bundle_alone(
    folder: Path, error: type[BaseException]
) -> None:
    before = contents(folder.parent)

    def fail() -> None:
        with new_bundle(folder) as partial:
            (partial / "policy.onnx").write_bytes(b"half")
            raise error

    with pytest.raises(error):
        fail()
    assert contents(folder.parent) == before


@pytest.mark.parametrize(
    "stage", ["capturing the module", "writing ONNX", "recording the original", "comparing resets"]
)
def test_interrupted_export_leaves_the_older_bundle_alone(folder: Path, stage: str) -> None:
    before = contents(folder.parent)

    def interrupt(said: str) -> None:
        if said == stage:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rw.export(
            nn.Linear(4, 2), folder, example=OBS, options=rw.ExportOptions(progress=interrupt)
        )
    assert contents(folder.parent) == before


def test_refused_export_leaves_the_older_bundle_alone(folder: Path) -> None:
    before = contents(folder.parent)
    with pytest.raises(rw.RoadworthyError, match="RW111"):
        write(folder, Draws(4, 2))
    assert contents(folder.parent) == before
    rw.verify(folder).raise_if_failed()


def test_refused_export_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(rw.RoadworthyError, match="RW111"):
        write(tmp_path / "a" / "walker", Draws(4, 2))
    assert contents(tmp_path) == {}
