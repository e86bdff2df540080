"""What `import roadworthy` offers, what it costs, and what it says when something is missing."""

from __future__ import annotations

import inspect
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import torch

import roadworthy as rw
from roadworthy.api.options import ExportPlan
from roadworthy.api.to_source import KEYWORDS

NAMES = [
    "About", "Adapter", "Argmax", "Argument", "Attribute", "BatchSpecialised", "Bundle",
    "BundleCorrupt",
    "BundleError", "Certificate", "CertificateFailed", "Clip", "ClosedLoop", "Diagnosis",
    "Episodes", "EpsInsideRoot", "EpsOutsideRoot", "ExportError", "ExportOptions", "Finding",
    "FlightRecord", "FlightRecorder",
    "InternalError", "MissingExtra", "MultiDiscrete", "Policy", "PolicyComparison", "PolicyLike",
    "PolicyState", "PolicyWrapper", "PortMismatch", "RoadworthyError", "RoadworthyWarning",
    "ScaleOffset",
    "ScaleToBounds", "Signature", "Source", "Tanh", "UsageError", "compare", "diagnose", "discover",
    "emit", "export",
    "export_environment", "export_policy_as_onnx", "load", "play", "report", "to_source",
    "verify", "web",
]  # fmt: skip
_EXPORT_SIDE = (
    "Argument", "Attribute", "Diagnosis", "ExportOptions", "Source", "diagnose", "discover",
)  # fmt: skip
WITHOUT_TORCH = [
    name for name in NAMES if not name.startswith("export") and name not in _EXPORT_SIDE
]

BLOCK = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == {module!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
import roadworthy as rw
"""


def run(script: str, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], cwd=cwd, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_public_names_are_exactly_these() -> None:
    assert rw.__all__ == ["__version__", *NAMES]
    assert dir(rw) == sorted(rw.__all__)


@pytest.mark.parametrize("name", NAMES)
def test_public_name_has_a_docstring_of_its_own(name: str) -> None:
    value = getattr(rw, name)
    assert value.__name__ == name
    documentation = value.__doc__ or ""
    assert len(documentation) > 10
    # A dataclass without a docstring shows its own signature instead.
    assert not documentation.startswith(f"{name}(")


@pytest.mark.parametrize(
    "name", ["Bundle", "Certificate", "Policy", "PolicyComparison", "PolicyLike", "Signature"]
)
def test_public_methods_of_a_result_are_annotated(name: str) -> None:
    for _, method in inspect.getmembers(getattr(rw, name), inspect.isfunction):
        if not method.__name__.startswith("_"):
            assert "return" in method.__annotations__, method


def test_keywords_of_a_call_are_those_of_source_and_options() -> None:
    taken = [set(inspect.signature(call).parameters) for call in (rw.export, rw.diagnose)]
    described = {each.name for each in fields(rw.Source)}
    assert set(KEYWORDS) <= described & taken[0] & taken[1]
    # An adapter says these; the frames of an action are said to the export itself.
    assert described - set(KEYWORDS) == {"module", "frame_skip", "meaning", "rewritten", "origin"}
    asked = taken[0] - {"source", "folder", "options", "framework", *KEYWORDS}
    assert asked <= {each.name for each in fields(ExportPlan)}


def test_version_is_that_of_the_distribution() -> None:
    from importlib.metadata import version

    assert rw.__version__ == version("roadworthy")


def test_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(AttributeError) as caught:
        rw.exprot  # noqa: B018
    assert str(caught.value) == "roadworthy has no 'exprot'; did you mean 'export'?"


def test_importing_the_package_imports_nothing_else(tmp_path: Path) -> None:
    script = (
        "import sys; import roadworthy; "
        "print({'torch', 'onnx', 'onnxscript', 'onnxruntime', 'numpy'} & set(sys.modules))"
    )
    assert run(script, tmp_path) == "set()"


def test_running_side_is_there_without_pytorch(tmp_path: Path) -> None:
    script = BLOCK.format(module="torch") + f"[getattr(rw, name) for name in {WITHOUT_TORCH}]\n"
    assert run(f"{script}print('torch' in sys.modules)", tmp_path) == "False"


@pytest.mark.parametrize("module", ["torch", "onnx", "onnxscript"])
@pytest.mark.parametrize("name", ["export", "Source"])
def test_missing_extra_says_what_to_install(tmp_path: Path, module: str, name: str) -> None:
    script = BLOCK.format(module=module) + (
        f"try:\n    rw.{name}\nexcept rw.RoadworthyError as error:\n    print(error)"
    )
    expected = f"[RW002] {module} is not installed\n  → pip install 'roadworthy[export]'"
    assert run(script, tmp_path) == expected


def test_live_check_without_pytorch_says_what_to_install(tmp_path: Path) -> None:
    rw.export(torch.nn.Linear(2, 1), tmp_path / "policy", example={"obs": torch.zeros(1, 2)})
    script = BLOCK.format(module="torch") + (
        "try:\n    rw.verify('policy', against=object())\n"
        "except rw.RoadworthyError as error:\n    print(error)"
    )
    expected = "[RW002] torch is not installed\n  → pip install 'roadworthy[export]'"
    assert run(script, tmp_path) == expected
