"""The folder that `roadworthy web` writes, without a browser."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import roadworthy as rw
from roadworthy.runtime.compiler import CannotCompile
from roadworthy.show.playground.contents import contents
from roadworthy.show.playground.environments import ENVIRONMENTS, page_environment
from roadworthy.show.playground.site import write_site
from roadworthy.show.playground.vendor_files import NAMES, unpacked
from roadworthy.spec.bundle import POLICY
from roadworthy.targets.c.lowering import Unsupported
from tests.cli.conftest import roadworthy
from tests.conftest import Exported

PACKED = Path(rw.__file__ or "").parent / "show" / "playground" / "vendor"
FIND_SPEC = "roadworthy.show.playground.engines.importlib.util.find_spec"


def data_of(site: Path, name: str) -> dict[str, object]:
    text = (site / f"{name}.js").read_text()
    found: dict[str, object] = json.loads(text.partition(f"Roadworthy.{name} = ")[2].rstrip(";\n"))
    return found


def test_site_holds_the_very_file_and_needs_no_network(
    export_once: Callable[[str], Exported], tmp_path: Path
) -> None:
    exported = export_once("lstm")
    site = rw.web(exported.folder, tmp_path / "site", engine="onnx")
    data = data_of(site, "bundle")
    assert base64.b64decode(str(data["model"])) == exported.bundle.files[POLICY]
    wasm = gzip.decompress(base64.b64decode(str(data_of(site, "runtime")["wasm"])))
    assert wasm == unpacked(NAMES[2])
    index = (site / "index.html").read_text()
    assert "http" not in index
    for name in ("LICENSE-onnxruntime.txt", "style.css", *NAMES[:1]):
        assert (site / name).is_file()
    assert rw.web(exported.folder, site, engine="onnx") == site  # a site is written over


def test_what_is_shipped_is_what_was_packed_and_small() -> None:
    lines = (PACKED / "SHA256SUMS").read_text().splitlines()
    assert [line.partition("  ")[2] for line in lines] == list(NAMES)
    for line in lines:
        digest, _, name = line.partition("  ")
        assert hashlib.sha256(unpacked(name)).hexdigest() == digest
    assert sum((PACKED / f"{name}.xz").stat().st_size for name in NAMES) < 2_700_000
    locked = json.loads((PACKED / "package-lock.json").read_text())
    assert locked["packages"]["node_modules/onnxruntime-web"]["integrity"].startswith("sha512-")
    assert "http" not in json.dumps(locked["packages"]["node_modules/onnxruntime-web"])


def test_another_folder_is_not_written_into(
    export_once: Callable[[str], Exported], tmp_path: Path
) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(rw.UsageError, match="exists and is no site"):
        rw.web(export_once("mlp").folder, tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.txt"]


def test_sliders_have_the_names_units_and_limits_of_the_ports(
    export_once: Callable[[str], Exported],
) -> None:
    sliders = contents(export_once("joint_targets").bundle, None)["sliders"]
    for port in export_once("joint_targets").bundle.signature.observed:
        mine = [each for each in sliders if each["port"] == port.name]
        assert mine
        assert {each["unit"] for each in mine} == {port.about.unit}
        assert all(each["low"] <= each["start"] <= each["high"] for each in mine)


def test_environment_that_does_not_fit_is_refused(export_once: Callable[[str], Exported]) -> None:
    signature = export_once("mlp").bundle.signature
    with pytest.raises(rw.UsageError, match="does not run in a page"):
        page_environment("CartPoole-v1", signature)
    for name in ENVIRONMENTS:
        with pytest.raises(rw.UsageError, match=r"observes|takes"):
            page_environment(name, signature)


def without_zig(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FIND_SPEC, lambda name: None)


def with_zig(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where zig is installed, but at once."""
    monkeypatch.setattr(FIND_SPEC, lambda name: name)
    monkeypatch.setattr("roadworthy.show.playground.engines.wasm_module", lambda texts: b"\0asm")


def test_compiled_policy_needs_no_runtime_of_others(
    export_once: Callable[[str], Exported], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported = export_once("lstm")
    rw.web(exported.folder, tmp_path / "site", engine="onnx")
    with_zig(monkeypatch)
    site = write_site(exported.folder, tmp_path / "site")
    assert str(site).startswith("engine wasm: the policy compiles to it")
    names = {each.name for each in site.folder.iterdir()}
    assert not names & {"runtime.js", NAMES[0], "LICENSE-onnxruntime.txt"}
    assert NAMES[0] not in (site.folder / "index.html").read_text()
    compiled = data_of(site.folder, "bundle")["compiled"]
    assert isinstance(compiled, dict)
    memory = exported.bundle.signature.memory
    assert {each.input for each in memory} < {each["name"] for each in compiled["inputs"]}
    assert {each.output for each in memory} < {each["name"] for each in compiled["outputs"]}
    assert sum(each.stat().st_size for each in site.folder.iterdir()) < 500_000


def test_without_a_compiler_onnxruntime_runs_it_and_the_reason_is_said(
    export_once: Callable[[str], Exported], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_zig(monkeypatch)
    site = write_site(export_once("mlp").folder, tmp_path / "site")
    assert str(site) == (
        "engine onnx: no compiler is here; pip install 'roadworthy[wasm]' makes the site smaller"
    )
    with pytest.raises(rw.MissingExtra, match=r"pip install 'roadworthy\[wasm\]'"):
        rw.web(export_once("mlp").folder, tmp_path / "other", engine="wasm")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    "error",
    [
        Unsupported("Einsum is not written in C"),
        CannotCompile("zig cannot compile the policy: no space left"),
    ],
    ids=["operator", "compiler"],
)
def test_policy_that_does_not_compile_runs_by_onnxruntime(
    export_once: Callable[[str], Exported],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: rw.RoadworthyError,
) -> None:
    def refuse(texts: object) -> bytes:
        raise error

    with_zig(monkeypatch)
    monkeypatch.setattr("roadworthy.show.playground.engines.wasm_module", refuse)
    site = write_site(export_once("mlp").folder, tmp_path / "site")
    assert site.engine == "onnx"
    assert site.why == f"the policy does not compile here: {error.findings[0].what}"
    with pytest.raises(type(error)):
        rw.web(export_once("mlp").folder, tmp_path / "other", engine="wasm")


def test_engine_that_no_page_has_is_refused(
    export_once: Callable[[str], Exported], tmp_path: Path
) -> None:
    with pytest.raises(rw.UsageError, match="did you mean 'wasm'"):
        rw.web(export_once("mlp").folder, tmp_path / "site", engine="wasmm")


def test_command_line_says_which_engine_and_why(
    export_once: Callable[[str], Exported], tmp_path: Path
) -> None:
    folder = str(export_once("mlp").folder)
    plain = roadworthy("web", folder, "-o", "site", "--engine", "onnx", cwd=tmp_path)
    assert plain.code == 0
    assert "engine onnx: as asked for" in plain.out
    told = roadworthy("web", folder, "-o", "site", "--engine", "onnx", "--json", cwd=tmp_path)
    assert json.loads(told.out)["engine"] == "onnx"
