"""The files of others that the playground ships: packed once, unpacked when a site is written.

`python -m roadworthy.show.playground.vendor_files FOLDER` packs them from an unpacked
onnxruntime-web, which `npm ci` takes from the lock file in `vendor/`; `make vendor` does both.
"""

from __future__ import annotations

import hashlib
import lzma
import sys
from importlib.resources import files
from pathlib import Path

from roadworthy.errors import BundleError

# Its scripts, and the one WebAssembly build of it that needs no graphics card.
NAMES = ("ort.wasm.min.js", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
LICENSE = "LICENSE-onnxruntime.txt"
_SUMS = "SHA256SUMS"
_VENDOR = files("roadworthy.show.playground").joinpath("vendor")


def unpacked(name: str) -> bytes:
    """The file as its authors published it, compared with its sum."""
    data = lzma.decompress(_VENDOR.joinpath(f"{name}.xz").read_bytes())
    lines = _VENDOR.joinpath(_SUMS).read_text(encoding="ascii").splitlines()
    sums = {each: digest for digest, _, each in (line.partition("  ") for line in lines)}
    if hashlib.sha256(data).hexdigest() != sums.get(name):
        raise BundleError(
            f"{name} is not the file that was packed", where="roadworthy.show.playground",
            hint="pip install --force-reinstall roadworthy",
        )  # fmt: skip
    return data


def licence() -> str:
    """The licence under which the files are passed on."""
    return _VENDOR.joinpath(LICENSE).read_text(encoding="ascii")


def pack(package: Path, folder: Path) -> None:
    """Writes the compressed files and their sums into `folder`."""
    sums = []
    for name in NAMES:
        data = (package / "dist" / name).read_bytes()
        (folder / f"{name}.xz").write_bytes(lzma.compress(data, preset=9))
        sums.append(f"{hashlib.sha256(data).hexdigest()}  {name}\n")
    (folder / _SUMS).write_text("".join(sums), encoding="ascii")


if __name__ == "__main__":
    pack(Path(sys.argv[1]), Path(__file__).parent / "vendor")
