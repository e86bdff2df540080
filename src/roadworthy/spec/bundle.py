"""The bundle: a folder that holds a policy and the proof that it is the right one.

`SHA256SUMS` covers every other file, the manifest included, in the format of `sha256sum -c`.
Reading a bundle compares all of them before any parser sees a byte.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from roadworthy.errors import BundleCorrupt, BundleError, did_you_mean
from roadworthy.spec.certificate import Certificate
from roadworthy.spec.json_file import from_json
from roadworthy.spec.limits import FILE_BYTES, JSON_BYTES, SUMS_BYTES, refuse_larger
from roadworthy.spec.manifest import refuse_malformed_manifest, refuse_other_files
from roadworthy.spec.sampling import Sampling
from roadworthy.spec.signature import Signature
from roadworthy.spec.targets import TARGETS
from roadworthy.spec.trace import Trace

FORMAT = "roadworthy-bundle"
VERSION = 2
MANIFEST = "manifest.json"
SUMS = "SHA256SUMS"
TRACE = "trace.npz"
CERTIFICATE = "certificate.json"
# The file of the target onnx, into which others can be looked.
POLICY = TARGETS["onnx"].files[0]
# Under this key a file of a target carries the signature, so that it runs alone.
SIGNATURE_KEY = "roadworthy.signature"
# Under this one, where each of its values is computed in the author's code.
LINES_KEY = "roadworthy.lines"

_SUM_LINE = re.compile(r"([0-9a-f]{64})  ([A-Za-z0-9_][A-Za-z0-9_./-]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a policy comes from: the name of its bundle or file, and the SHA-256 of the file."""

    name: str
    sha256: str


@dataclass(frozen=True, eq=False)
class Bundle:
    """A folder whose every file was compared with its sum.

    folder    where it lies
    files     file name → the very bytes that were compared
    manifest  everything about it that is not weights, as docs/manifest.schema.json describes it
    """

    folder: Path
    files: Mapping[str, bytes] = field(repr=False)
    manifest: Mapping[str, Any] = field(repr=False)

    @cached_property
    def signature(self) -> Signature:
        """What goes in, what comes out, what is remembered."""
        return Signature.from_json(self.manifest["signature"])

    @cached_property
    def sampling(self) -> Sampling:
        """Which values of its inputs are worth trying."""
        known = self.manifest.get("sampling")
        return Sampling.from_json(known) if known else Sampling()

    @cached_property
    def origin(self) -> Origin:
        """Its name and the sum of its first target, whichever of them is run."""
        main = self.files[next(iter(self.targets.values()))[0]]
        return Origin(name=self.folder.resolve().name, sha256=hashlib.sha256(main).hexdigest())

    @cached_property
    def sums(self) -> dict[str, str]:
        """SHA-256 → the file that has it."""
        return {hashlib.sha256(data).hexdigest(): name for name, data in self.files.items()}

    @cached_property
    def certificate(self) -> Certificate:
        """What was compared before the bundle appeared, and how it held."""
        return Certificate.from_bytes(self.files[CERTIFICATE])

    @cached_property
    def trace(self) -> Trace:
        """The golden steps of its original."""
        return Trace.from_bytes(self.files[TRACE])

    @cached_property
    def targets(self) -> dict[str, tuple[str, ...]]:
        """Target → the files that it is, the one that is opened first; each is the whole policy."""
        return {name: tuple(files) for name, files in self.manifest["targets"].items()}

    def files_of(self, target: str) -> dict[str, bytes]:
        """The files of a target, the one that is opened first."""
        return {name: self.files[name] for name in self.targets[target]}

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Bundle:
        """The bundle in `folder`, or an error that says which file is not what it was."""
        root = Path(folder)
        if not root.is_dir() and not restored(root):
            hint = f"roadworthy export … -o {root} makes one"
            if root.exists():
                whole = (root.parent / SUMS).is_file()
                hint = f"pass {root.parent}" if whole else "pass the folder that an export wrote"
            raise BundleError(f"{root} is not a folder", hint=hint)
        if not (root / SUMS).is_file():
            raise BundleError(
                f"{root} is not a bundle: it has no {SUMS}", hint="export to that folder first"
            )
        with readable(root):
            listed = sums(root)
            _refuse_foreign_entries(root, listed)
            files = {name: _read(root, name, sum_) for name, sum_ in listed.items()}
        where = f"{root / MANIFEST}"
        manifest = from_json(files[MANIFEST], where=where)
        if not isinstance(manifest, dict):
            manifest = {}
        if manifest.get("format") != FORMAT or manifest.get("version") != VERSION:
            raise BundleError(
                f"{root} is a bundle of format {manifest.get('format')!r}, "
                f"version {manifest.get('version')!r}; this release reads version {VERSION}",
                hint="pip install --upgrade roadworthy, or export again",
            )
        refuse_malformed_manifest(manifest, where=where)
        written = manifest["targets"].values()
        lost = {name for each in written for name in each} - set(files)
        if lost or not written or not all(written):
            named = ", ".join(sorted(lost)) or "a target without files, or no target at all"
            raise BundleCorrupt(
                f"{MANIFEST} names {named}, which {SUMS} does not cover",
                where=str(root),
                hint="copy the bundle again from its source, or export it again",
            )
        refuse_other_files(manifest["targets"], where=where)
        return cls(root, files, manifest)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """What the system says when a file cannot be read, as an error that names it."""
    try:
        yield
    except OSError as error:
        raise BundleError(
            f"it cannot be read: {error.strerror or error}",
            where=str(error.filename or path),
            hint="check who may read the file, and whether the disk is there",
        ) from error


def restored(folder: Path) -> bool:
    """Whether the bundle had gone because an export was killed, and is back."""
    from roadworthy.spec.replacing import restore  # only where there is nothing to read

    return restore(folder)


def nearest(place: Path) -> str:
    """What to do about a path that does not exist: the nearest name beside it, if one is near."""
    if not place.parent.is_dir():
        return f"there is no folder {place.parent}"
    near = did_you_mean(place.name, [each.name for each in place.parent.iterdir()])
    return near if near.startswith("did") else f"check the path: nothing in {place.parent} is near"


def is_bundle(folder: Path) -> bool:
    return (folder / SUMS).is_file() and (folder / MANIFEST).is_file()


def sums_text(digests: Mapping[str, str]) -> str:
    return "".join(f"{digests[name]}  {name}\n" for name in sorted(digests))


def sums(root: Path) -> dict[str, str]:
    """File name → SHA-256, as the bundle in `root` states them."""
    path = root / SUMS
    if path.is_symlink():
        raise _foreign(root, SUMS, "is a link")
    refuse_larger("it has", path.stat().st_size, SUMS_BYTES, where=str(path))
    data = path.read_bytes()
    try:
        matches = [_SUM_LINE.fullmatch(line) for line in data.decode("ascii").splitlines()]
    except UnicodeDecodeError:
        matches = [None]
    found = {match[2]: match[1] for match in matches if match}
    unsafe = any(".." in Path(name).parts for name in found)
    lacking = {MANIFEST, TRACE} - set(found)
    if unsafe or lacking or None in matches or sums_text(found).encode() != data:
        raise BundleCorrupt(
            f"{SUMS} is damaged", where=str(root), hint="copy the bundle again from its source"
        )
    return found


def _refuse_foreign_entries(root: Path, listed: Mapping[str, str]) -> None:
    """An error if the folder holds a link, or a file that the sums do not cover."""
    for folder, below, names in os.walk(root):
        for name in (*below, *names):
            path = Path(folder, name)
            inside = path.relative_to(root).as_posix()
            if path.is_symlink():
                raise _foreign(root, inside, "is a link")
            if name in names and inside != SUMS and inside not in listed:
                raise _foreign(root, inside, f"is not listed in {SUMS}")


def _foreign(root: Path, name: str, what: str) -> BundleCorrupt:
    return BundleCorrupt(
        f"{name} {what}: a bundle is the files that were certified, and nothing else",
        code="RW202",
        where=str(root),
        hint="move it out of the folder; cp -rL copies a bundle with the files that links point to"
        if what == "is a link"
        else f"move {name} out of the folder, or copy the bundle again from its source",
    )


def _read(root: Path, name: str, expected: str) -> bytes:
    path = root / name
    if not path.is_file() or path.is_symlink():
        raise BundleCorrupt(
            f"{name} is missing", where=str(root), hint="copy the whole folder, not single files"
        )
    most = JSON_BYTES if name.endswith(".json") else FILE_BYTES
    refuse_larger("it has", path.stat().st_size, most, where=str(path))
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
