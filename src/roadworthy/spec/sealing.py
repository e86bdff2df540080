"""Writing bundles: all or nothing. Apart from reading them, which is all that a robot does."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from roadworthy.errors import BundleError
from roadworthy.spec.bundle import MANIFEST, SUMS, Bundle, is_bundle, sums, sums_text


@contextmanager
def new_bundle(folder: Path) -> Iterator[Path]:
    """A temporary folder that becomes `folder` in one rename, or leaves no trace of itself.

    An older bundle in its place survives until the new one is complete.
    """
    refuse_foreign(folder)
    # A link such as `current` goes on pointing to the folder that is replaced.
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.partial-", dir=folder.parent))
    try:
        yield partial
        _write_sums(partial)
        partial.chmod(0o755)
        _swap(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def refuse_foreign(folder: Path) -> None:
    """An error if writing a bundle to `folder` would cost the user something else."""
    if folder.is_dir():
        inside = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if not p.is_dir()}
        listed = {SUMS, *sums(folder)} if is_bundle(folder) else set()
        if inside - listed:
            raise BundleError(
                f"{folder} holds files that are not part of a bundle and would be lost: "
                f"{', '.join(sorted(inside - listed)[:3])}",
                hint="choose a new or empty folder",
            )
        here = Path.cwd()
        if folder.resolve() in (here, *here.parents):
            raise BundleError(
                f"{folder} is the current folder or above it, and would be replaced",
                hint="choose a folder below this one",
            )
    elif folder.exists():
        raise BundleError(f"{folder} is a file", hint="choose a folder")


def write_json(path: Path, data: Any) -> None:
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


def _swap(partial: Path, folder: Path) -> None:
    if not folder.exists():
        partial.rename(folder)
        return
    retired = partial.with_name(partial.name.replace(".partial-", ".retired-"))
    folder.rename(retired)
    try:
        partial.rename(folder)
    except BaseException:
        retired.rename(folder)
        raise
    shutil.rmtree(retired)


def _write_sums(folder: Path) -> None:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    found = {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
    }
    (folder / SUMS).write_text(sums_text(found), encoding="ascii")


def unsealed(folder: Path) -> Bundle:
    """The files of a bundle that is still being made, as they are."""
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    return Bundle(folder, files, json.loads(files[MANIFEST]))
