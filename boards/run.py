"""Policies as C on the boards that qemu has, compared bit for bit with this machine.

    python boards/run.py walker/ other/
    python boards/run.py --all

Without a bundle some policies of the tests' registry are exported first; with --all every policy
and every environment of it, which takes a quarter of an hour. Each bundle is written as
C, stepped 100 times through numbers that are the same everywhere, and its outputs hashed. Every
board must say the same hash. A board whose tools are missing is named with what to install, and
left out; the exit code is 1 where a hash differs.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from roadworthy.errors import RoadworthyError
from roadworthy.spec.bundle import POLICY, Bundle
from roadworthy.targets.c.folder.files import written
from roadworthy.targets.c.folder.footprint import BOARDS
from roadworthy.targets.c.folder.interface import Interface, interface

HERE = Path(__file__).parent
STEPS = 100
REGISTRY, ENVIRONMENT = ("lstm_pair", "cnn", "half_precision"), ("pd_four_ticks",)
STRICT = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Werror")
_BARE = (
    "-DBARE", "-nostartfiles", "--specs=nosys.specs", "--specs=nano.specs", "-Wl,--gc-sections",
    "-T", str(HERE / "mps2.ld"), str(HERE / "start.c"),
)  # fmt: skip
_SEMIHOSTING = (
    "-display", "none", "-serial", "none", "-monitor", "none",
    "-semihosting-config", "enable=on,target=native", "-kernel",
)  # fmt: skip
_ZIG = (sys.executable, "-m", "ziglang", "cc")
_WASM = (
    *_ZIG, "-target", "wasm32-wasi", "-mexec-model=reactor", "-O3", "-msimd128",
    "-Wl,--export=digest", "-Wl,-z,stack-size=65536",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A way to run a policy: what compiles it, what runs that, what to install for both.

    modules  packages of Python that one of them is
    """

    name: str
    compiler: tuple[str, ...]
    runner: tuple[str, ...] = ()
    install: str
    modules: tuple[str, ...] = ()

    @property
    def there(self) -> bool:
        return all(map(shutil.which, (self.compiler[0], *self.runner[:1]))) and all(
            importlib.util.find_spec(module) for module in self.modules
        )


def _board(name: str, runner: tuple[str, ...], packages: str, *flags: str) -> Run:
    """A class of boards, as `roadworthy inspect --c` measures it, under qemu."""
    board = next(each for each in BOARDS if each.name == name)
    return Run(
        name=name, compiler=(*board.compiler, *flags), runner=runner,
        install=f"apt install {board.packages} {packages}",
    )  # fmt: skip


RUNS = (
    Run(
        name="here, gcc -O3 -march=native",
        compiler=("gcc", "-O3", "-march=native"),
        install="apt install gcc",
    ),
    Run(name="here, gcc -O0", compiler=("gcc", "-O0"), install="apt install gcc"),
    Run(name="here, clang -O3", compiler=("clang", "-O3"), install="apt install clang"),
    Run(
        name="here, zig",
        compiler=(*_ZIG, "-O3"),
        install="pip install ziglang",
        modules=("ziglang",),
    ),
    _board("aarch64", ("qemu-aarch64-static",), "qemu-user-static", "-O3", "-static"),
    _board("RISC-V 64", ("qemu-riscv64-static",), "qemu-user-static", "-O3", "-static"),
    _board(
        "Cortex-M4F",
        ("qemu-system-arm", "-M", "mps2-an386", *_SEMIHOSTING),
        "qemu-system-arm", "-O2", *_BARE,
    ),
    _board(
        "Cortex-M7",
        ("qemu-system-arm", "-M", "mps2-an500", *_SEMIHOSTING),
        "qemu-system-arm", "-O2", *_BARE,
    ),
    Run(
        name="WebAssembly, node",
        compiler=_WASM,
        runner=("node", str(HERE / "wasm.mjs")),
        install="apt install nodejs; pip install ziglang",
        modules=("ziglang",),
    ),
    Run(
        name="WebAssembly, wasmtime",
        compiler=_WASM,
        runner=(sys.executable, str(HERE / "wasm.py")),
        install="pip install ziglang wasmtime",
        modules=("ziglang", "wasmtime"),
    ),
)  # fmt: skip


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


def digest(board: Run, folder: Path) -> str:
    """What the policy in `folder` says on a board."""
    made = folder / f"program-{RUNS.index(board)}"
    files = ("policy.c", "digest.c", "-o", str(made), "-lm")
    words = [*board.compiler, *STRICT, "-fno-trapping-math", *files]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if "error" in line]
        return f"does not compile: {(said or [done.stderr])[0][:300]}"
    done = subprocess.run([*board.runner, str(made)], capture_output=True, text=True, timeout=300)
    return (done.stdout or done.stderr).strip() or f"exit code {done.returncode}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundles", nargs="*", type=Path)
    parser.add_argument("--all", action="store_true", help="the whole registry of the tests")
    arguments = parser.parse_args()
    given = arguments.bundles
    there = [each for each in RUNS if each.there]
    for each in RUNS:
        if each not in there:
            print(f"{each.name}: not run; {each.install}")
    differing = 0
    if there:
        with tempfile.TemporaryDirectory() as scratch:
            chosen = given or exported(Path(scratch), whole=arguments.all)
            differing = compared(chosen, there)
    if not there:
        print("Success: nothing to compare, since nothing here compiles C")
    elif not differing:
        print(f"Success: the same bits on {len(there)} of {len(RUNS)} machines")
    return int(differing > 0)


def exported(folder: Path, *, whole: bool) -> Iterator[Path]:
    """Some policies and environments of the registry as bundles, or all that C has files for."""
    sys.path.insert(0, str(HERE.parent))
    import roadworthy as rw
    from tests.environment.environments import ENVIRONMENTS
    from tests.policies import CASES

    for name in CASES if whole else REGISTRY:
        rw.export(CASES[name].make(), folder / name)
        yield folder / name
    for style in ENVIRONMENTS if whole else ENVIRONMENT:
        env, actor = ENVIRONMENTS[style]()
        rw.export_environment(env, actor, folder / f"environment_{style}")
        yield folder / f"environment_{style}"


def compared(bundles: Iterable[Path], there: list[Run]) -> int:
    """How many bundles do not say the same on every board."""
    differing = 0
    for path in bundles:
        bundle = Bundle.open(path)
        try:
            own = interface(bundle.files[POLICY], bundle.signature)
        except RoadworthyError as error:  # a size that is open, an operator that C lacks
            print(f"{path.name}: not written: {error.findings[0].what}", flush=True)
            continue
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
        count = f"on {len(said)} of {len(RUNS)} machines"
        print(f"{path.name}: {f'{first} {count}' if same else said}", flush=True)
    return differing


if __name__ == "__main__":
    sys.exit(main())
