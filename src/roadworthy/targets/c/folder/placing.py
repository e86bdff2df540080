"""Where files of C go: not into a bundle, and not over what somebody else wrote."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from roadworthy.errors import UsageError
from roadworthy.targets.c.folder.naming import USUAL

# How each of the files begins, whatever its name.
_BEGINNINGS = (
    "/* A policy, written by Roadworthy.",
    "/* Written by Roadworthy:",
    "/* The policy beside what the original did",
    "# The policy as a library, and its self-test",
)
FILES = ("policy.c", "policy.h", "selftest.c", "CMakeLists.txt")
_MANIFEST, _FORMAT = "manifest.json", "roadworthy-bundle"


def refuse_taken(
    folder: str | os.PathLike[str], files: Collection[str], *, name: str = USUAL
) -> None:
    """An error where writing the files of the policy `name` would harm what is there."""
    place, real = Path(folder), Path(folder).resolve()
    for parent in (real, *real.parents):
        if parent.exists() and not parent.is_dir():
            raise UsageError(
                f"{parent} is a file, and the C goes into a folder",
                hint="write the C into a folder of its own: -o walker_c",
            )
        if _is_bundle(parent):
            where = "is" if parent == real else "lies in"
            raise UsageError(
                f"{place} {where} a bundle, whose files are listed and hashed",
                hint="write the C into a folder beside it: -o walker_c",
            )
    there = [file for file in sorted(files) if (place / file).exists()]
    foreign = [file for file in there if not _is_ours(place / file)]
    if there and f"{name}.h" not in there:
        foreign = there  # of another policy, or of nobody that is known here
    if foreign:
        raise UsageError(
            f"{place} has {', '.join(foreign)} already, and not of the policy {name!r}",
            hint="write the C into a folder of its own: -o walker_c",
        )


def place_files(texts: Mapping[str, str], folder: Path, *, name: str = USUAL) -> tuple[Path, ...]:
    """Writes the files of a policy into its folder, each whole or not at all; their paths."""
    refuse_taken(folder, texts, name=name)
    folder.mkdir(parents=True, exist_ok=True)
    # The header tells whose the others are, and is there before them.
    new = {folder / file: folder / f".{file}.new" for file in sorted(texts, key=_is_no_header)}
    try:
        for path, beside in new.items():
            beside.write_text(texts[path.name], encoding="ascii")
        for path, beside in new.items():
            beside.replace(path)
    finally:
        for beside in new.values():
            beside.unlink(missing_ok=True)
    return tuple(folder / file for file in texts)


def _is_no_header(file: str) -> bool:
    return not file.endswith(".h")


def _is_bundle(folder: Path) -> bool:
    try:
        return _FORMAT in (folder / _MANIFEST).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def _is_ours(path: Path) -> bool:
    try:
        return path.read_text(encoding="utf-8", errors="replace").startswith(_BEGINNINGS)
    except OSError:
        return False
