"""One folder takes the place of another in one step; what a killed process left is put right."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PARTIAL, _RETIRED = "partial", "retired"
# renameat2 with paths as they are, and its flag for an exchange.
_AT_FDCWD, _EXCHANGE = -100, 2
# What says that there is no such call here: the kernel, the file system, a sandbox.
_NO_SUCH_CALL = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM)
# Where nothing can be locked, what is older than this belongs to nobody any more.
_ABANDONED_S = 24 * 3600


@contextmanager
def partial_folder(folder: Path) -> Iterator[Path]:
    """A new folder beside `folder`, locked as long as the block lasts, and gone after it."""
    partial = Path(tempfile.mkdtemp(prefix=_prefix(folder, _PARTIAL), dir=folder.parent))
    lock = _locked(partial)
    try:
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def replace(folder: Path, partial: Path) -> None:
    """Puts `partial` into the place of `folder`; what was there is then in the place of `partial`.

    One exchange where the system has one. Elsewhere there is a moment without `folder`, from which
    `recover` finds the way back.
    """
    if not folder.exists():
        partial.rename(folder)
        return
    if exchange(partial, folder):
        return
    retired = partial.with_name(partial.name.replace(f".{_PARTIAL}-", f".{_RETIRED}-"))
    folder.rename(retired)
    try:
        partial.rename(folder)
    except BaseException:
        retired.rename(folder)
        raise
    retired.rename(partial)


def exchange(one: Path, other: Path) -> bool:
    """Whether the two paths now name each other's folder; False where the system cannot do that."""
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):  # another C library
        return False
    failed = rename(
        _AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), ctypes.c_uint(_EXCHANGE)
    )
    if not failed:
        return True
    code = ctypes.get_errno()
    if code in _NO_SUCH_CALL:
        return False
    raise OSError(code, os.strerror(code), str(one), None, str(other))


def recover(folder: Path) -> None:
    """Puts right what a killed process left beside `folder`.

    A folder that was moved away and not replaced comes back; all other leftovers go. Nothing
    happens to those of a process that is still at work.
    """
    restore(folder)
    for kind in (_PARTIAL, _RETIRED):
        for left in folder.parent.glob(f"{_prefix(folder, kind)}*"):
            if _abandoned(left):
                shutil.rmtree(left, ignore_errors=True)


def restore(folder: Path) -> bool:
    """Whether `folder` was missing because a process was killed, and is there again."""
    if os.path.lexists(folder) or not folder.parent.is_dir():
        return False
    for left in sorted(folder.parent.glob(f"{_prefix(folder, _RETIRED)}*")):
        try:
            if _abandoned(left.with_name(left.name.replace(f".{_RETIRED}-", f".{_PARTIAL}-"))):
                left.rename(folder)
                return True
        except OSError:  # somebody else was quicker, or the folder above may not be written
            continue
    return False


def _prefix(folder: Path, kind: str) -> str:
    return f".{folder.name}.{kind}-"


def _locked(folder: Path) -> int | None:
    """A lock that the system takes away when the process ends; None where there is none."""
    try:
        import fcntl
    except ModuleNotFoundError:
        return None
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def _abandoned(folder: Path) -> bool:
    """Whether the process that made the folder is gone, or the folder itself is."""
    try:
        import fcntl
    except ModuleNotFoundError:
        import time

        return not folder.exists() or time.time() - folder.stat().st_mtime > _ABANDONED_S
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True
