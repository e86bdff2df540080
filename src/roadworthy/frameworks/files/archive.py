"""A zip that is looked at before anything in it is believed.

`torch.load` checks neither sums nor names: a flipped byte of a weight loads silently.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections import Counter
from pathlib import PurePosixPath

from roadworthy.errors import Finding, UsageError
from roadworthy.frameworks.reading import DAMAGED
from roadworthy.spec.limits import MEBI, size_text

# A checkpoint's tensors hardly compress; what unpacks to a thousand times its size was made to.
MOST_TIMES = 1000
MOST_BYTES = 4096 * MEBI
MOST_MEMBERS = 100_000
_AGAIN = "copy the file again from its source"
_STRANGER = "do not use the file: no framework writes such an archive"


def members(data: bytes, *, where: str) -> dict[str, bytes]:
    """Name → content of every member, each compared with its sum; or everything that is wrong."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as opened:
            entries = [each for each in opened.infolist() if not each.is_dir()]
            problems = _problems(entries, where)
            if problems:
                raise UsageError(findings=problems)
            # Reading a member compares its sum.
            return {each.filename: opened.read(each) for each in entries}
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, OSError, RuntimeError) as error:
        raise UsageError(f"the archive is cut off or damaged: {error}", where=where, code=DAMAGED,
                         hint=_AGAIN) from error  # fmt: skip


def _problem(where: str, what: str, hint: str) -> Finding:
    return Finding(code=DAMAGED, where=where, what=what, hint=hint)


def _problems(entries: list[zipfile.ZipInfo], where: str) -> list[Finding]:
    found = []
    if not entries or min(each.header_offset for each in entries) > 0:
        # The table at the end belongs to an archive inside: the outer one has lost its own.
        found.append(_problem(where, "the archive is cut off or damaged: no table", _AGAIN))
    if len(entries) > MOST_MEMBERS:
        found.append(_problem(where, f"it has {len(entries)} members", _STRANGER))
    for name, count in Counter(each.filename for each in entries).items():
        if count > 1:
            what = f"{name} is in the archive {count} times: programs differ on which one counts"
            found.append(_problem(where, what, _STRANGER))
        path = PurePosixPath(name.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
            what = f"the member {name!r} points outside of the archive"
            found.append(_problem(where, what, _STRANGER))
    for each in entries:
        if each.file_size > MOST_TIMES * max(each.compress_size, 1024):
            what = (
                f"{each.filename} unpacks from {size_text(each.compress_size)} to "
                f"{size_text(each.file_size)}"
            )
            found.append(_problem(where, what, _STRANGER))
    whole = sum(each.file_size for each in entries)
    if whole > MOST_BYTES:
        what = f"it unpacks to {size_text(whole)}, at most {size_text(MOST_BYTES)} is read"
        found.append(_problem(where, what, _STRANGER))
    return found
