"""Writing bundles: all or nothing. Apart from reading them, which is all that a robot does."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from roadworthy.errors import BundleError
from roadworthy.spec import replacing
from roadworthy.spec.bundle import MANIFEST, SUMS, Bundle, is_bundle, sums, sums_text

_NO_ROOM = "free some space and export again; an older bundle in this place is as it was"
_NO_RIGHT = "choose a folder that you may write to"
_CANNOT_WRITE = {
    errno.ENOSPC: _NO_ROOM, errno.EDQUOT: _NO_ROOM, errno.EFBIG: _NO_ROOM, errno.EIO: _NO_ROOM,
    errno.EACCES: _NO_RIGHT, errno.EPERM: _NO_RIGHT, errno.EROFS: _NO_RIGHT,
    errno.ENOTDIR: "a part of the path is a file: choose another folder",
    errno.EEXIST: "a part of the path is a file: choose another folder",
    errno.ENAMETOOLONG: "choose a shorter name",
}  # fmt: skip


@contextmanager
def new_bundle(folder: Path) -> Iterator[Path]:
    """A temporary folder that becomes `folder` in one step, or leaves no trace of itself.

    An older bundle in its place survives until the new one is complete. What an earlier export
    left because it was killed is removed.
    """
    with _written(folder):
        refuse_foreign(folder)
    with new_folder(folder) as partial:
        yield partial


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """The same for any folder with sums, whose place is known to be free."""
    with _written(folder):
        # A link such as `current` goes on pointing to the folder that is replaced.
        folder = folder.resolve()
        folder.parent.mkdir(parents=True, exist_ok=True)
        replacing.recover(folder)
        with replacing.partial_folder(folder) as partial:
            yield partial
            _write_sums(partial)
            partial.chmod(0o755)
            replacing.replace(folder, partial)


@contextmanager
def _written(folder: Path) -> Iterator[None]:
    """A disk that is full, or a folder that may not be written, as an error that says so."""
    try:
        yield
    except OSError as error:
        # What the user's own code raises in between, such as a missing file, is not about us.
        if error.errno not in _CANNOT_WRITE:
            raise
        raise BundleError(
            f"the bundle cannot be written: {error.strerror or error}",
            where=str(error.filename or folder),
            hint=_CANNOT_WRITE[error.errno],
        ) from error


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


def refuse_unwritable(folder: Path) -> None:
    """An error if `folder` cannot be made: said before the work, and not behind it."""
    above = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if not above.is_dir() and above != folder:
        code = errno.ENOTDIR
    elif above.is_dir() and not os.access(above, os.W_OK | os.X_OK):
        code = errno.EROFS if os.statvfs(above).f_flag & os.ST_RDONLY else errno.EACCES
    else:
        return
    raise BundleError(
        f"the bundle cannot be written: {os.strerror(code)}",
        where=str(above),
        hint=_CANNOT_WRITE[code],
    )


def write_json(path: Path, data: Any) -> None:
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


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
