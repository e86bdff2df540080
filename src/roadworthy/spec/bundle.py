"""The bundle: a folder that holds a policy and the proof that it is the right one.

`SHA256SUMS` covers every other file, the manifest included, in the format of `sha256sum -c`.
Reading a bundle compares all of them before any parser sees a byte.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from roadworthy.errors import BundleCorrupt, BundleError
from roadworthy.spec.signature import Signature

FORMAT = "roadworthy-bundle"
VERSION = 1
MANIFEST = "manifest.json"
SUMS = "SHA256SUMS"
TRACE = "trace.npz"
CERTIFICATE = "certificate.json"
POLICY = "policy.onnx"

_SUM_LINE = re.compile(r"([0-9a-f]{64})  ([A-Za-z0-9_][A-Za-z0-9_./-]*)")


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """A folder whose every file was compared with its sum; `files` holds those very bytes."""

    folder: Path
    files: Mapping[str, bytes] = field(repr=False)
    manifest: Mapping[str, Any] = field(repr=False)

    @property
    def signature(self) -> Signature:
        return Signature.from_json(self.manifest["signature"])

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Bundle:
        """The bundle in `folder`, or an error that says which file is not what it was."""
        root = Path(folder)
        if not root.is_dir():
            raise BundleError(f"{root} is no folder", hint="roadworthy export … -o " + str(root))
        if not (root / SUMS).is_file():
            raise BundleError(
                f"{root} is no bundle: it has no {SUMS}", hint="export to that folder first"
            )
        files = {name: _read(root, name, sum_) for name, sum_ in _sums(root).items()}
        manifest = json.loads(files[MANIFEST])
        if manifest.get("format") != FORMAT or manifest.get("version") != VERSION:
            raise BundleError(
                f"{root} is a bundle of format {manifest.get('format')!r}, "
                f"version {manifest.get('version')!r}; this release reads version {VERSION}",
                hint="pip install --upgrade roadworthy, or export again",
            )
        return cls(root, files, manifest)


def unsealed(folder: Path) -> Bundle:
    """The files of a bundle that is still being made, as they are."""
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    return Bundle(folder, files, json.loads(files[MANIFEST]))


def is_bundle(folder: Path) -> bool:
    return (folder / SUMS).is_file() and (folder / MANIFEST).is_file()


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
        listed = {SUMS, *_sums(folder)} if is_bundle(folder) else set()
        if inside - listed:
            raise BundleError(
                f"{folder} holds files that are no part of a bundle and would be lost: "
                f"{', '.join(sorted(inside - listed)[:3])}",
                hint="choose a new or empty folder",
            )
        here = Path.cwd()
        if folder.resolve() in (here, *here.parents):
            raise BundleError(f"{folder} is in use", hint="choose a folder below this one")
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
    sums = {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
    }
    (folder / SUMS).write_text(_sums_text(sums), encoding="ascii")


def _sums_text(sums: Mapping[str, str]) -> str:
    return "".join(f"{sums[name]}  {name}\n" for name in sorted(sums))


def _sums(root: Path) -> dict[str, str]:
    data = (root / SUMS).read_bytes()
    try:
        matches = [_SUM_LINE.fullmatch(line) for line in data.decode("ascii").splitlines()]
    except UnicodeDecodeError:
        matches = [None]
    sums = {match[2]: match[1] for match in matches if match}
    unsafe = any(".." in Path(name).parts for name in sums)
    lacking = {MANIFEST, POLICY, TRACE} - set(sums)
    if unsafe or lacking or None in matches or _sums_text(sums).encode() != data:
        raise BundleCorrupt(
            f"{SUMS} is damaged", where=str(root), hint="copy the bundle again from its source"
        )
    return sums


def _read(root: Path, name: str, expected: str) -> bytes:
    path = root / name
    if not path.is_file() or path.is_symlink():
        raise BundleCorrupt(
            f"{name} is missing", where=str(root), hint="copy the whole folder, not single files"
        )
    data = path.read_bytes()
    got = hashlib.sha256(data).hexdigest()
    if got != expected:
        raise BundleCorrupt(
            f"{name} is not the file that was certified: SHA-256 expected {expected[:12]}…, "
            f"got {got[:12]}…",
            where=str(root),
            hint="copy the bundle again from its source, or export it again",
        )
    return data
