"""The machine's C compiler: C text → a library in a cache, by what went into it.

It compiles `TrustedCode` and nothing else.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import ModuleType

from roadworthy.errors import BundleError
from roadworthy.runtime.trust import TrustedCode, demanded

# -fno-trapping-math changes no value: it lets gcc turn branches of exp and tanh into selects.
FLAGS = ("-std=c99", "-O3", "-fno-trapping-math", "-fPIC", "-shared")
# The same arithmetic, in vectors of four; a stack that a policy does not fill; no names, and no
# paths of this machine: a site carries the module to strangers.
WASM_FLAGS = (
    "-std=c99", "-O3", "-fno-trapping-math", "-target", "wasm32-wasi", "-mexec-model=reactor",
    "-msimd128", "-Wl,--export=policy_run", "-Wl,--export=policy_work_size",
    "-Wl,--export=__heap_base", "-Wl,-z,stack-size=262144", "-Wl,--strip-all",
)  # fmt: skip
# With all the vectors that this processor has, and without any.
NATIVE = ("-march=native",)
SCALAR = ("-O1", "-DPOLICY_SCALAR")
_SECONDS = 600
_ROOM = "make room there, or set XDG_CACHE_HOME to a folder on another disk"


class CannotCompile(BundleError):
    """There is no compiler here, or it does not compile the policy."""

    code = "RW130"


def command() -> list[str]:
    """The compiler: `CC`, or else cc, gcc, clang, or zig from the package ziglang."""
    named = os.environ.get("CC")
    if named:
        try:
            words = shlex.split(named)
        except ValueError:  # a quotation without its end
            words = []
        if not words:
            raise CannotCompile(
                f"CC={named!r} cannot be read as a command", hint="CC=gcc, or leave it unset"
            )
        if shutil.which(words[0]) is None:
            raise _missing(f"there is no {words[0]}, which CC names")
        return words
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name):
            return [found]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    raise _missing("there is no cc, gcc or clang on the PATH")


def _missing(what: str) -> CannotCompile:
    return CannotCompile(
        f"the target c needs a C compiler, and {what}",
        hint="apt install gcc, or pip install ziglang; or leave c out of targets=[…], or load with "
        "engine='onnx'",
    )


def library(files: TrustedCode, *, flags: Sequence[str] = NATIVE) -> ctypes.CDLL:
    """The files compiled for this machine; what was compiled before is taken from the cache."""
    return ctypes.CDLL(str(_built([*command(), *FLAGS, *flags], files, ".so")))


def program(folder: Path, files: TrustedCode) -> Path:
    """The files as a program in a folder, which nobody keeps."""
    made = folder / "program.exe"  # as Windows wants it, and nobody else minds
    _run([*command(), "-std=c99", "-O1", "-fno-trapping-math"], files, folder, made)
    return made


def extension(files: TrustedCode, name: str, folders: Sequence[str]) -> ModuleType:
    """The files compiled as a module of this Python; `folders` hold the headers."""
    headers = [word for folder in folders for word in ("-I", folder)]
    place = _built([*command(), *FLAGS, "-std=gnu11", *headers], files, ".so")
    loader = ExtensionFileLoader(name, str(place))
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def wasm_module(files: TrustedCode) -> bytes:
    """The files compiled to WebAssembly, by zig: a module that asks for nothing."""
    if importlib.util.find_spec("ziglang") is None:
        raise CannotCompile(
            "WebAssembly is compiled by zig, which is not installed",
            hint="pip install 'roadworthy[wasm]'",
        )
    return _built([sys.executable, "-m", "ziglang", "cc", *WASM_FLAGS], files, ".wasm").read_bytes()


def _built(words: list[str], files: TrustedCode, suffix: str) -> Path:
    """The compiled file, from the cache where everything that goes into it is the same."""
    key = hashlib.sha256()
    compiler = tuple(words[: words.index(FLAGS[0])])
    for part in (_machine(), _version(compiler), *words[1:]):
        key.update(part.encode() + b"\0")
    for name, text in sorted(demanded(files).items()):
        key.update(b"%s\0%s\0" % (name.encode(), text))
    place = _folder() / f"{key.hexdigest()}{suffix}"
    if not _is_whole(place):
        _compile(words, files, place)
    return place


def _is_whole(place: Path) -> bool:
    """Whether a compiled file is there as it was written: a power cut may have left half of it."""
    try:
        return _proof(place).read_bytes() == _sum(place).encode()
    except OSError:
        return False


def _proof(place: Path) -> Path:
    return place.with_name(f"{place.name}.sha256")


def _sum(place: Path) -> str:
    return hashlib.sha256(place.read_bytes()).hexdigest()


def _compile(words: list[str], files: TrustedCode, place: Path) -> None:
    # Beside the cache, and moved there when it is whole: another process may want the same.
    try:
        with tempfile.TemporaryDirectory(prefix=".making-", dir=place.parent) as folder:
            made = Path(folder) / "policy.so"
            _run(words, files, Path(folder), made)
            proof = Path(folder) / "sum"
            proof.write_text(_sum(made), encoding="ascii")
            made.replace(place)
            proof.replace(_proof(place))
    except OSError as error:
        raise CannotCompile(
            f"the compiled policy cannot be kept: {error.strerror or error}",
            where=str(place.parent),
            hint=_ROOM,
        ) from error


def _run(words: list[str], files: TrustedCode, folder: Path, made: Path) -> None:
    for file, text in demanded(files).items():
        (folder / file).write_bytes(text)
    texts = [file for file in files if file.endswith(".c")]
    environment = {**os.environ, "TMPDIR": str(folder)}
    name = "zig" if "ziglang" in words else Path(words[0]).name
    try:
        run = subprocess.run(
            [*words, *texts, "-o", str(made), "-lm"], cwd=folder, env=environment,
            capture_output=True, text=True, timeout=_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise CannotCompile(
            f"{name} is not done with the policy after {_SECONDS} seconds", hint=_advice(words, "")
        ) from None
    if run.returncode or not made.is_file():
        lines = [line for line in run.stderr.splitlines() if not line.startswith("collect2:")]
        said = [line for line in lines if "error" in line.lower()]
        raise CannotCompile(
            f"{name} cannot compile the policy: "
            f"{(said or lines or ['no reason given'])[0].strip()}",
            hint=_advice(words, run.stderr),
        )


def _advice(words: list[str], said: str) -> str:
    if "No space left" in said:
        return _ROOM
    if "ziglang" in words:
        return "load with engine='onnx', or pip install --upgrade ziglang"
    if "leave out" in said or "must be computed as floats" in said:
        return "CC holds flags that make actions wrong: leave them out there"
    return "set CC to another compiler (gcc, clang), or load with engine='onnx'"


def _folder() -> Path:
    """The cache: a folder that this user alone may write, since what lies there is run.

    On a machine that keeps nothing it lasts as long as this process.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        # One that depends on the working folder is none, as its specification says.
        root = Path(base) if Path(base).is_absolute() else Path.home() / ".cache"
        folder = root / "roadworthy" / "c"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        tempfile.TemporaryFile(dir=folder).close()
    except (OSError, RuntimeError):  # nothing may be written there, or nobody has a home
        return _passing()
    state = folder.stat()
    if hasattr(os, "getuid") and (
        state.st_uid != os.getuid() or state.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    ):
        raise BundleError(
            f"others may write to {folder}, and what lies there is run",
            hint=f"chmod 700 {folder}, or set XDG_CACHE_HOME to a folder of your own",
        )
    return folder


@cache
def _passing() -> Path:
    folder = tempfile.mkdtemp(prefix="roadworthy-c-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@cache
def _machine() -> str:
    """What -march=native depends on: libraries of another processor must not be found."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
        flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    except OSError:
        flags = ""
    return f"{platform.system()} {platform.machine()} {platform.processor()} {flags}"


@cache
def _version(words: tuple[str, ...]) -> str:
    run = subprocess.run([*words, "--version"], capture_output=True, text=True, timeout=_SECONDS)
    return run.stdout
