"""Who may import whom; and that the robot's side needs neither PyTorch nor ONNX."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import Exported

PACKAGE = Path(__file__).parent.parent / "src" / "roadworthy"
MODULES = sorted(PACKAGE.rglob("*.py"))
HEAVY = {"torch", "onnx", "onnxscript", "onnx_ir"}

# Everyone may use it, and it uses nobody.
BASE = {"errors"}
CAPTURING = {"errors", "spec", "operators", "inspection", "capture"}
ASKING = {"errors", "spec", "runtime", "runtime.gym", "verification.originals", "verification"}
CORE = {
    *CAPTURING, *ASKING, "targets.c", "targets.c.folder", "targets", "rules", "environment",
    "frameworks",
}  # fmt: skip
# Room → the rooms it may import, besides itself. A room may lie in another, and is one of its own.
MAY_IMPORT = {
    "errors": set(),
    "spec": {"errors"},
    "operators": {"errors"},
    "inspection": {"errors", "spec", "operators"},
    "capture": {"errors", "spec", "operators", "inspection"},
    "targets.c": {"errors", "spec"},
    "targets.c.folder": {"errors", "spec", "targets.c"},
    "runtime": {"errors", "spec", "targets.c"},
    "targets": {*CAPTURING, "targets.c", "targets.c.folder", "runtime"},
    "verification.originals": {*CAPTURING, "runtime"},
    "runtime.gym": {"errors", "spec", "runtime"},
    "verification": {"errors", "spec", "runtime", "runtime.gym", "verification.originals"},
    "environment": {*CAPTURING, *ASKING},
    "frameworks": {*CAPTURING, "runtime.gym", "environment"},
    "rules": {*CAPTURING, "verification.originals"},
    "api": CORE,
    # Rooms that hang on the core by one door each: it does not know them, nor do they each other.
    "show": {"errors", "spec", "targets.c", "runtime", "runtime.gym", "rules"},
    "deploy": {"errors", "spec", "runtime"},
    "compat": {*CORE, "api", "deploy"},
    "demo": set(),
    "cli": {*CORE, "api", "show", "deploy", "demo"},
    "__main__": {"cli"},
}
# What a robot imports: it has neither PyTorch nor ONNX.
RUNNING = {
    "errors", "spec", "targets.c", "targets.c.folder", "runtime", "runtime.gym", "verification",
    "show", "api/verify.py", "api/shrink.py", "api/write_c.py",
}  # fmt: skip
# The abstract original knows no PyTorch; its implementations do.
CONTRACT = "verification/originals/original.py"
# These look into ONNX files, and are imported only where a check failed.
READS_ONNX = {"verification/artifact_values.py", "verification/first_divergence.py"}


def name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def part(path: Path) -> str:
    return room(path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", "."))


def room(module: str) -> str:
    """The innermost room that a module of ours lies in, by its dotted name."""
    while module not in MAY_IMPORT and "." in module:
        module = module.rpartition(".")[0]
    return module


def runs_on_a_robot(path: Path) -> bool:
    return part(path) in RUNNING or name(path) in RUNNING


def imported(nodes: Iterator[ast.AST] | list[ast.stmt]) -> Iterator[str]:
    """The dotted names that the given statements import."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the direction"
            module = node.module or ""
            if (PACKAGE.parent / module.replace(".", "/")).is_dir():  # a package: its modules
                yield from (f"{module}.{alias.name}" for alias in node.names)
            else:
                yield module


def everywhere(path: Path) -> set[str]:
    return set(imported(ast.walk(ast.parse(path.read_text()))))


def at_import(path: Path) -> set[str]:
    """What importing the module imports: nothing inside functions or `if TYPE_CHECKING`."""
    return set(imported(ast.parse(path.read_text()).body))


def parts_of(names: set[str]) -> set[str]:
    ours = (each for each in names if each.startswith("roadworthy."))
    return {room(each.removeprefix("roadworthy.")) for each in ours}


def roots_of(names: set[str]) -> set[str]:
    return {each.split(".")[0] for each in names}


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_imports_point_downwards(path: Path) -> None:
    if path == PACKAGE / "__init__.py":
        assert parts_of(at_import(path)) == set()
        assert not parts_of(everywhere(path)) & {"cli", "demo"}
        return
    assert parts_of(everywhere(path)) <= MAY_IMPORT[part(path)] | {part(path)}


def test_every_part_has_its_place() -> None:
    assert {part(path) for path in MODULES} - {"__init__"} <= set(MAY_IMPORT)


@pytest.mark.parametrize("path", [p for p in MODULES if runs_on_a_robot(p)], ids=name)
def test_running_a_policy_imports_nothing_heavy(path: Path) -> None:
    heavy = roots_of(at_import(path)) & HEAVY
    assert heavy == ({"onnx"} if name(path) == "verification/artifact_values.py" else set())
    known = {f"roadworthy.{each.removesuffix('.py').replace('/', '.')}" for each in READS_ONNX}
    if name(path) not in READS_ONNX:
        assert not known & at_import(path)


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_onnxruntime_has_one_door(path: Path) -> None:
    """Behind which its telemetry is off."""
    door = name(path) == "runtime/telemetry.py"
    assert ("onnxruntime" in roots_of(everywhere(path))) == door


@pytest.mark.parametrize("path", [p for p in MODULES if runs_on_a_robot(p)], ids=name)
def test_verification_knows_the_original_by_its_contract_alone(path: Path) -> None:
    asked = {
        each for each in everywhere(path) if each.startswith("roadworthy.verification.originals")
    }
    assert asked <= {"roadworthy.verification.originals.original"}


def test_the_contract_of_the_original_knows_no_pytorch() -> None:
    path = PACKAGE / CONTRACT
    assert not roots_of(everywhere(path)) & HEAVY
    assert parts_of(at_import(path)) <= {"errors", "spec", "runtime"}


@pytest.mark.parametrize("path", [p for p in MODULES if part(p) == "verification"], ids=name)
def test_verification_asks_the_original_by_its_methods(path: Path) -> None:
    """No probing by name: all that an original can be asked stands in its contract."""
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    probed = [
        ast.unparse(call.args[0])
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id in ("getattr", "hasattr")
    ]
    assert set(probed) <= {"self", "envs[0]"}


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_modules_are_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 500


ON_THE_ROBOT = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {heavy}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())

import numpy as np
import roadworthy as rw
from roadworthy.spec.samples import draw

for folder in sys.argv[1:]:
    policy = rw.load(folder)
    inputs = draw(policy.signature, np.random.default_rng(0), steps=5, rows=1)
    for step in range(5):
        outputs = policy.step({{name: array[step] for name, array in inputs.items()}})
        assert all(np.isfinite(value).all() for value in outputs.values())
    policy.reset()
    certificate = rw.verify(folder).raise_if_failed()
    lone = rw.load(folder + "/policy.onnx")
    rw.report(folder, "report.html")
    print(lone.signature == policy.signature, certificate.passed)

loaded = {{name.split(".")[0] for name in sys.modules}}
print(sorted(loaded & {heavy}))
"""


def test_robot_needs_neither_pytorch_nor_onnx(
    tmp_path: Path, export_once: Callable[[str], Exported]
) -> None:
    folders = [str(export_once(name).folder) for name in ("lstm", "cnn", "transformer")]
    script = ON_THE_ROBOT.format(heavy=HEAVY)
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, *folders],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == ["True True"] * 3 + ["[]"]
