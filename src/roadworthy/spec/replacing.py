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
    with _claimed(partial):
        # Whoever cleaned up in the moment before the lock took it for a leftover.
        partial.mkdir(mode=0o700, exist_ok=True)
        try:
            yield partial
        finally:
            shutil.rmtree(partial, ignore_errors=True)


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
            with _claimed(left) as ours:
                if ours and not _owned(folder, left):
                    shutil.rmtree(left, ignore_errors=True)


def restore(folder: Path) -> bool:
    """Whether `folder` was missing because a process was killed, and is there again."""
    if os.path.lexists(folder) or not folder.parent.is_dir():
        return False
    for left in sorted(folder.parent.glob(f"{_prefix(folder, _RETIRED)}*")):
        if not _owned(folder, left):
            try:
                left.rename(folder)
            except OSError:  # somebody else was quicker, or the folder above may not be written
                continue
            return True
    return False


def _prefix(folder: Path, kind: str) -> str:
    return f".{folder.name}.{kind}-"


def _owned(folder: Path, left: Path) -> bool:
    """Whether the process that moved a folder away is still at work: it holds the new one."""
    if f".{_RETIRED}-" not in left.name:
        return False
    partial = left.with_name(left.name.replace(f".{_RETIRED}-", f".{_PARTIAL}-"))
    for path in (partial, folder):
        with _claimed(path) as ours:
            if path.exists() and not ours:
                return True
    return False


@contextmanager
def _claimed(folder: Path) -> Iterator[bool]:
    """Whether the folder is ours until the block ends: nobody who is still alive holds it.

    The system gives the lock back when a process ends, however it ends.
    """
    try:
        import fcntl
    except ModuleNotFoundError:
        yield _old(folder)
        return
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        yield False
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        ours = True
    except OSError:
        ours = False
    try:
        yield ours
    finally:
        os.close(handle)


def _old(folder: Path) -> bool:
    import time

    try:
        return time.time() - folder.stat().st_mtime > _ABANDONED_S
    except OSError:
        return False
