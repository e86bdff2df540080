"""What to say of a path that nobody can read: what it is instead, and what was meant perhaps."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from roadworthy.errors import UsageError, did_you_mean
from roadworthy.frameworks.files.beginning import looks_like_a_checkpoint

_IN_PYTHON = "load it in Python and pass the module: rw.export(module, folder, example=…)"
# How files begin that stand in the place of a checkpoint, and what to do about it.
_INSTEAD = (
    (b"version https://git-lfs", "a pointer of Git LFS, not the file itself", "git lfs pull"),
    (b"<", "a web page, not a checkpoint", "download the file itself, not the page that shows it"),
    (b"{", "JSON, not a checkpoint", "pass the file of the weights"),
)


def unreadable(path: Path) -> UsageError:
    """The error for a path that no adapter takes."""
    if not path.exists():
        siblings = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
        near = did_you_mean(path.name, siblings)
        return UsageError(
            f"{path} does not exist", hint=near if near.startswith("did") else "check the path"
        )
    if path.is_dir():
        return _folder(path)
    with path.open("rb") as file:
        start = file.read(64).lstrip()
    if not start:
        return UsageError("the file is empty", where=str(path), hint="copy it again")
    for beginning, what, hint in _INSTEAD:
        if start.startswith(beginning):
            return UsageError(f"this is {what}", where=str(path), hint=hint)
    return UsageError(f"no installed adapter can read {path}", hint=_IN_PYTHON)


def _folder(path: Path) -> UsageError:
    if (path / "SHA256SUMS").is_file():
        return UsageError(
            "this is a bundle, which is exported already", where=str(path),
            hint="pass what it was exported from; roadworthy inspect shows what that was",
        )  # fmt: skip
    files = (each for each in sorted(path.rglob("*")) if looks_like_a_checkpoint(each))
    found = [str(each.relative_to(path)) for each in islice(files, 4)]
    if not found:
        return UsageError("this is a folder, with no checkpoint in it", where=str(path),
                          hint="pass the file that the training wrote")  # fmt: skip
    more = ", …" if len(found) == 4 else ""
    return UsageError(
        f"this is a folder, with the checkpoints {', '.join(found[:3])}{more}", where=str(path),
        hint=f"name one: {path / found[0]}",
    )  # fmt: skip
