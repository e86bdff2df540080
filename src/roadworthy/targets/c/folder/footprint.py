"""How much flash, static RAM and stack a policy takes, board class by board class.

Compiled and measured, not estimated: by the compiler for each processor, where it is installed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from roadworthy.errors import UsageError

# -fno-trapping-math changes no value; sections let the linker drop what is not called.
FLAGS = ("-std=c99", "-O2", "-fno-trapping-math", "-ffunction-sections", "-fdata-sections")
_CALL = re.compile(r"\b(rw_\w+|policy_\w+)\(")
_DEFINED = re.compile(r"^(?:static |inline |void |int |\w+ )*\*?\b(rw_\w+|policy_\w+)\(", re.M)
_UNITS = {"": 1, "K": 1024, "M": 1024**2}
# What a program holds besides the policy: its state, its inputs and its outputs.
_USER = """\
#include "policy.h"
policy_state state;
policy_inputs inputs;
policy_outputs outputs;
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A class of processors: what compiles for it, and the Debian packages that bring that."""

    name: str
    compiler: tuple[str, ...]
    packages: str

    @property
    def there(self) -> bool:
        return shutil.which(self.compiler[0]) is not None


BOARDS = (
    Board(
        name="Cortex-M4F",
        compiler=("arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard",
                  "-mfpu=fpv4-sp-d16"),
        packages="gcc-arm-none-eabi libnewlib-arm-none-eabi",
    ),
    Board(
        name="Cortex-M7",
        compiler=("arm-none-eabi-gcc", "-mcpu=cortex-m7", "-mthumb", "-mfloat-abi=hard",
                  "-mfpu=fpv5-d16"),
        packages="gcc-arm-none-eabi libnewlib-arm-none-eabi",
    ),
    Board(
        name="aarch64", compiler=("aarch64-linux-gnu-gcc",), packages="gcc-aarch64-linux-gnu"
    ),
    Board(
        name="RISC-V 64", compiler=("riscv64-linux-gnu-gcc",), packages="gcc-riscv64-linux-gnu"
    ),
    Board(name="this machine", compiler=("gcc",), packages="gcc"),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """Bytes of a policy on a board: code and weights; state and ports; the deepest call."""

    board: str
    flash: int
    ram: int
    stack: int

    def fits(self, *, flash: int | None, ram: int | None) -> bool:
        """Whether it leaves something of both; the stack counts as RAM."""
        return (flash is None or self.flash <= flash) and (
            ram is None or self.ram + self.stack <= ram
        )


def footprint(board: Board, texts: Mapping[str, str]) -> Footprint:
    """The footprint of `policy.c` and `policy.h` on a board whose compiler is there."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name, text in {**texts, "user.c": _USER}.items():
            (folder / name).write_text(text, encoding="ascii")
        for name in ("policy", "user"):
            words = [*board.compiler, *FLAGS, "-fstack-usage", "-c", f"{name}.c"]
            _said(words, folder)
        tool = board.compiler[0].replace("gcc", "size")
        policy, user = (_sections([tool, f"{name}.o"], folder) for name in ("policy", "user"))
        used = (folder / "policy.su").read_text(encoding="ascii")
    frames: dict[str, int] = {}
    for line in used.splitlines():
        place, taken = line.split("\t")[:2]
        # rw_dense.constprop.0 is a copy of rw_dense that gcc has made for some of its calls.
        function = place.rpartition(":")[2].partition(".")[0]
        frames[function] = max(frames.get(function, 0), int(taken))
    code, data, bss = policy
    return Footprint(
        board=board.name, flash=code + data, ram=data + bss + sum(user[1:]),
        stack=_deepest("policy_step", frames, _calls(texts["policy.c"])),
    )  # fmt: skip


def size_in_bytes(words: str) -> int:
    """What `512K` or `2M` says, in bytes."""
    found = re.fullmatch(r"(\d+) ?([KM]?)(?:i?B)?", words.strip(), re.IGNORECASE)
    if not found:
        raise UsageError(f"{words!r} is no size", hint="such as 512K, 2M or 65536")
    return int(found[1]) * _UNITS[found[2].upper()]


def _said(words: Sequence[str], folder: Path) -> str:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise UsageError(f"{words[0]}: {(done.stderr.strip() or 'no reason given')[:200]}")
    return done.stdout


def _sections(words: Sequence[str], folder: Path) -> tuple[int, int, int]:
    """Bytes of code and constants, of variables with a value, and of those without."""
    text, data, bss = _said(words, folder).splitlines()[1].split()[:3]
    return int(text), int(data), int(bss)


def _calls(source: str) -> dict[str, set[str]]:
    """Function → the functions that its text calls."""
    starts = list(_DEFINED.finditer(source))
    ends = [each.start() for each in starts[1:]] + [len(source)]
    found: dict[str, set[str]] = {}
    for each, end in zip(starts, ends, strict=True):
        found.setdefault(each[1], set()).update(_CALL.findall(source[each.end() : end]))
    return found


def _deepest(name: str, frames: Mapping[str, int], calls: Mapping[str, set[str]]) -> int:
    """Stack of a call and of the deepest one inside it; what was inlined has no frame."""
    inside = (_deepest(each, frames, calls) for each in calls.get(name, ()) if each != name)
    return frames.get(name, 0) + max(inside, default=0)
