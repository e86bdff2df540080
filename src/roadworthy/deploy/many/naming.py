"""Which files are meant, what each becomes, and what names their content."""

from __future__ import annotations

import glob
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from roadworthy.errors import UsageError

# Files beside a checkpoint that say what the checkpoint does not.
_NEIGHBOURS = (".yml", ".yaml", ".json", ".pkl")


def expanded(sources: Sequence[str]) -> list[str]:
    """Every source once; patterns that the shell left alone become the files that they match."""
    found: list[str] = []
    for source in sources:
        if any(mark in source for mark in "*?[") and not Path(source).exists():
            matched = sorted(glob.glob(source, recursive=True))  # noqa: PTH207  # absolute ones too
            if not matched:
                raise UsageError(f"no file matches {source!r}", hint="check the pattern")
            found += matched
        else:
            found.append(source)
    return list(dict.fromkeys(found))


def folder_names(sources: Sequence[str]) -> list[str]:
    """A folder name for each source: its path as it was given, parts joined by dashes.

    It does not depend on what else is exported, but for sources that would get the same name: these
    get a few letters of their path's sum.
    """
    plain = [_plain(source) for source in sources]
    often = Counter(name.lower() for name in plain)  # some disks take a and A for the same
    return [
        f"{name}-{_sum([source.encode()])[:6]}" if often[name.lower()] > 1 else name
        for name, source in zip(plain, sources, strict=True)
    ]


def _plain(source: str) -> str:
    place, _, name = source.rpartition(":") if ":" in source else (source, "", "")
    path = Path(place)
    parts = [part for part in path.with_suffix("").parts if part not in ("/", ".", "..")]
    joined = "-".join([*parts, *([name] if name else [])])
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", joined).strip(".") or "policy"


def content_of(word: str) -> str:
    """What names the content of a file, of `file.py:name`, or of a bundle; the word elsewhere."""
    place = word.rpartition(":")[0] if ".py:" in word else word
    path = Path(place)
    if path.is_dir():
        return _sum(_read(each) for each in sorted(path.rglob("*")) if each.is_file())
    return _sum([_read(path)]) if path.is_file() else word


def neighbours_of(word: str) -> list[str]:
    """What names the small files around a checkpoint, from which its reader may learn more."""
    path = Path(word)
    if not path.is_file() or path.suffix == ".py":
        return []
    around = {*path.parent.glob("*"), *path.parent.glob("*/*"), *path.parent.parent.glob("*")}
    return [
        f"{each.name} {_sum([_read(each)])}"
        for each in sorted(around)
        if each.suffix in _NEIGHBOURS and each.is_file() and each != path
    ]


def _read(path: Path) -> bytes:
    return path.read_bytes()


def _sum(parts: Iterable[bytes]) -> str:
    made = hashlib.sha256()
    for part in parts:
        made.update(hashlib.sha256(part).digest())
    return made.hexdigest()
