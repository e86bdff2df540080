"""A model that nobody has opened yet is opened in a child process first, under limits.

A few hundred bytes can ask for gigabytes or never come to an end, and onnxruntime can abort the
process on a crafted file. The child loads the model and takes one step. What it survives is
remembered by its SHA-256, so that a file pays once: in this process, and as an empty file in the
user's cache folder where that can be written.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from roadworthy.errors import BundleError
from roadworthy.runtime.telemetry import VARIABLE, silent_onnxruntime
from roadworthy.spec.onnx_file import external_data
from roadworthy.spec.onnx_wire import NotAModel

if TYPE_CHECKING:
    from subprocess import Popen

MEBI = 2**20
# What a model may take beside itself: its weights are held several times while it is optimised.
BASE_BYTES, BYTES_PER_BYTE = 1024 * MEBI, 6
# Seconds of the processor, and for each so many bytes one more; wall-clock time is far beyond.
BASE_SECONDS, BYTES_PER_SECOND, MOST_WAIT_S = 4, 20 * MEBI, 60
MOST_REMEMBERED = 1000
# Exit codes of the child; everything but these two is a crash.
FINE, TOO_MUCH_MEMORY = 0, 3
_OFF = "canary=False (--no-canary) loads it all the same, only for files that you made"

_seen: set[str] = set()


def refuse_unsafe(model: bytes, *, where: str, canary: bool) -> None:
    """An error if the model reads other files, or does not load and step within the limits.

    Without `canary` no child is started, and the cache is neither read nor written.
    """
    digest = hashlib.sha256(model).hexdigest()
    if canary and _known(digest):
        return
    _refuse_other_files(model, where)
    if canary:
        _try(model, where)
        _remember(digest)


def remember(models: Iterable[bytes]) -> None:
    """Counts models as known: those that were made and tried on this machine."""
    for model in models:
        _remember(hashlib.sha256(model).hexdigest())


def _remember(digest: str) -> None:
    """Counts the model with this SHA-256 as known, here and where the cache can be written."""
    _seen.add(digest)
    try:
        folder = cache_folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / digest).touch()
        known = list(folder.iterdir())
        if len(known) > MOST_REMEMBERED:
            for path in sorted(known, key=lambda each: each.stat().st_mtime)[: len(known) // 2]:
                path.unlink(missing_ok=True)
    except (OSError, RuntimeError):  # a read-only home, or none: the next process tries anew
        pass


def cache_folder() -> Path:
    """Where known models are remembered: one empty file each, named after its SHA-256."""
    told = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(told) if Path(told).is_absolute() else Path.home() / ".cache"
    return base / "roadworthy" / "known-1"


def _known(digest: str) -> bool:
    if digest in _seen:
        return True
    try:
        found = (cache_folder() / digest).stat()
    except (OSError, RuntimeError):
        return False
    # Somebody else's word does not count.
    return not hasattr(os, "getuid") or found.st_uid == os.getuid()


def _refuse_other_files(model: bytes, where: str) -> None:
    try:
        tensor = external_data(model)
    except NotAModel as error:
        raise BundleError(
            "onnxruntime cannot load the model: this is no ONNX file, or a damaged one "
            f"({error.why})",
            where=where,
            hint="copy the file again from its source, or export it again",
        ) from error
    if tensor is not None:
        raise BundleError(
            f"the values of the tensor {tensor!r} are in another file, which no sum covers",
            code="RW203",
            where=where,
            hint="put the weights into the model: onnx.save(onnx.load(path), path), in the folder "
            "of both files, and export again with Roadworthy",
        )


def _try(model: bytes, where: str) -> None:
    """An error if a child that opens the model and takes one step does not survive it."""
    import subprocess  # known files load without it

    room = BASE_BYTES + BYTES_PER_BYTE * len(model)
    seconds = BASE_SECONDS + len(model) // BYTES_PER_SECOND
    child = _start(room, seconds, where)
    silent_onnxruntime()  # it takes as long here as there
    try:
        _, said = child.communicate(model, timeout=MOST_WAIT_S + 2 * seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise _refusal(f"did not come to an end in {MOST_WAIT_S + 2 * seconds} s", where) from None
    except BaseException:
        child.kill()
        child.communicate()
        raise
    code = child.returncode
    if code == FINE:
        return
    if code == TOO_MUCH_MEMORY:
        raise _refusal(f"asked for more than {room // MEBI} MiB", where)
    if code == -_signal("SIGXCPU"):
        raise _refusal(f"computed for more than {seconds} s", where)
    last = said.decode("utf-8", "replace").strip().splitlines()[-1:]
    raise _refusal(f"ended with code {code} ({''.join(last) or 'it said nothing'})", where)


def _start(room: int, seconds: int, where: str) -> Popen[bytes]:
    import subprocess
    import sys

    # Isolated: nothing is imported from the current folder. The child finds what we find.
    paths = [str(Path(each).absolute()) for each in sys.path if each]
    program = (
        "import sys; sys.path[:] = sys.argv[3:]; "
        "from roadworthy.runtime.canary_child import main; main()"
    )
    command = [sys.executable or "", "-I", "-c", program, str(room), str(seconds), *paths]
    single = {VARIABLE: "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **single},
        )
    except (OSError, ValueError) as error:
        raise BundleError(
            f"the model is not known yet, and no child process can be started to try it: {error}",
            code="RW204",
            where=where,
            hint=_OFF,
        ) from error


def _signal(name: str) -> int:
    import signal

    return int(getattr(signal, name, 0))


def _refusal(what: str, where: str) -> BundleError:
    return BundleError(
        f"the model was tried in a child process, which {what}",
        code="RW204",
        where=where,
        hint=f"look into it with roadworthy inspect --operators; {_OFF}",
    )
