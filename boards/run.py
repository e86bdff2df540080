"""Policies as C on the boards that qemu has, compared bit for bit with this machine.

    python boards/run.py walker/ other/

Without a bundle some policies of the tests' registry are exported first. Each bundle is written as
C, stepped 100 times through numbers that are the same everywhere, and its outputs hashed. Every
board must say the same hash. A board whose tools are missing is named with what to install, and
left out; the exit code is 1 where a hash differs or nothing could be run.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from roadworthy.cfile.files import Interface, interface, written
from roadworthy.spec.bundle import POLICY, Bundle

HERE = Path(__file__).parent
STEPS = 100
REGISTRY = ("mlp", "lstm_pair", "window_transformer", "cnn", "half_precision", "integer_clock")
_CORTEX = (
    "-mthumb", "-mfloat-abi=hard", "-O2", "-DBARE", "-nostartfiles", "--specs=nosys.specs",
    "--specs=nano.specs", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections",
    "-T", str(HERE / "mps2.ld"), str(HERE / "start.c"),
)  # fmt: skip
_SEMIHOSTING = (
    "-display", "none", "-serial", "none", "-monitor", "none",
    "-semihosting-config", "enable=on,target=native",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A processor: what compiles for it, what runs it, and the packages that bring both."""

    name: str
    compiler: tuple[str, ...]
    runner: tuple[str, ...] = ()
    packages: str = ""


BOARDS = (
    Board(name="here, gcc -O3 -march=native", compiler=("gcc", "-O3", "-march=native")),
    Board(name="here, gcc -O0", compiler=("gcc", "-O0")),
    Board(name="here, clang -O3", compiler=("clang", "-O3"), packages="clang"),
    Board(
        name="aarch64",
        compiler=("aarch64-linux-gnu-gcc", "-O3", "-static"),
        runner=("qemu-aarch64-static",),
        packages="gcc-aarch64-linux-gnu qemu-user-static",
    ),
    Board(
        name="RISC-V 64",
        compiler=("riscv64-linux-gnu-gcc", "-O3", "-static"),
        runner=("qemu-riscv64-static",),
        packages="gcc-riscv64-linux-gnu qemu-user-static",
    ),
    Board(
        name="Cortex-M4F",
        compiler=("arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", *_CORTEX),
        runner=("qemu-system-arm", "-M", "mps2-an386", *_SEMIHOSTING, "-kernel"),
        packages="gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
    ),
    Board(
        name="Cortex-M7",
        compiler=("arm-none-eabi-gcc", "-mcpu=cortex-m7", "-mfpu=fpv5-d16", *_CORTEX),
        runner=("qemu-system-arm", "-M", "mps2-an500", *_SEMIHOSTING, "-kernel"),
        packages="gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
    ),
)


def filled(own: Interface) -> str:
    """The lines that fill the inputs: whole numbers and flags small, floats between −2 and 2."""
    lines = []
    for port in own.signature.inputs:
        kind, name = own.place(port.name).kind, own.names[port.name]
        value = "(float)(int32_t)seed / 1073741824.0f"
        if port.dtype == "float16":
            value = "seed >> 18"  # positive halves up to 2
        elif not port.dtype.startswith("float"):
            value = "seed >> 31" if port.dtype == "bool" else "seed >> 30"
        lines += [
            f"for (i = 0; i < sizeof inputs.{name} / sizeof({kind}); i++) {{",
            "    seed = seed * 1664525u + 1013904223u;",
            f"    (({kind} *)inputs.{name})[i] = ({kind})({value});",
            "}",
        ]
    return "\n        ".join(lines)


def digest(board: Board, folder: Path) -> str:
    """What the policy in `folder` says on a board."""
    made = folder / f"program-{BOARDS.index(board)}"
    files = ("policy.c", "digest.c", "-o", str(made), "-lm")
    words = [*board.compiler, "-std=c99", "-fno-trapping-math", *files]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        return f"does not compile: {done.stderr.strip().splitlines()[-1]}"
    done = subprocess.run([*board.runner, str(made)], capture_output=True, text=True, timeout=300)
    return (done.stdout or done.stderr).strip() or f"exit code {done.returncode}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundles", nargs="*", type=Path)
    given = parser.parse_args().bundles
    there = [b for b in BOARDS if all(shutil.which(w) for w in (b.compiler[0], *b.runner[:1]))]
    for board in BOARDS:
        if board not in there:
            print(f"{board.name}: not run; apt install {board.packages}")
    with tempfile.TemporaryDirectory() as scratch:
        differing = compared(given or exported(Path(scratch)), there)
    return int(differing > 0 or not there)


def exported(folder: Path) -> list[Path]:
    """Some policies of the registry as bundles."""
    sys.path.insert(0, str(HERE.parent))
    import roadworthy as rw
    from tests.environment.environments import ENVIRONMENTS
    from tests.policies import CASES

    for name in REGISTRY:
        rw.export(CASES[name].make(), folder / name)
    env, actor = ENVIRONMENTS["pd_four_ticks"]()
    rw.export_environment(env, actor, folder / "pd_four_ticks")
    return [folder / name for name in (*REGISTRY, "pd_four_ticks")]


def compared(bundles: list[Path], there: list[Board]) -> int:
    """How many bundles do not say the same on every board."""
    differing = 0
    for path in bundles:
        bundle = Bundle.open(path)
        own = interface(bundle.files[POLICY], bundle.signature)
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            for name, text in written(own).items():
                (folder / name).write_text(text)
            main_text = (HERE / "digest.c").read_text()
            main_text = main_text.replace("FILL", filled(own)).replace("STEPS", str(STEPS))
            (folder / "digest.c").write_text(main_text)
            said = {board.name: digest(board, folder) for board in there}
        first = next(iter(said.values()), "")
        same = len(set(said.values())) == 1
        differing += not same
        print(f"{path.name}: {first if same else said} on {len(said)} boards", flush=True)
    return differing


if __name__ == "__main__":
    sys.exit(main())
