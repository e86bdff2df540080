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
from roadworthy.playground.contents import contents
from roadworthy.playground.environments import ENVIRONMENTS, page_environment
from roadworthy.playground.vendor_files import NAMES, unpacked
from roadworthy.spec.bundle import POLICY
from tests.conftest import Exported

PACKED = Path(rw.__file__ or "").parent / "playground" / "vendor"


def data_of(site: Path, name: str) -> dict[str, object]:
    text = (site / f"{name}.js").read_text()
    found: dict[str, object] = json.loads(text.partition(f"Roadworthy.{name} = ")[2].rstrip(";\n"))
    return found


def test_site_holds_the_very_file_and_needs_no_network(
    export_once: Callable[[str], Exported], tmp_path: Path
) -> None:
    exported = export_once("lstm")
    site = rw.web(exported.folder, tmp_path / "site")
    data = data_of(site, "bundle")
    assert base64.b64decode(str(data["model"])) == exported.bundle.files[POLICY]
    wasm = gzip.decompress(base64.b64decode(str(data_of(site, "runtime")["wasm"])))
    assert wasm == unpacked(NAMES[2])
    index = (site / "index.html").read_text()
    assert "http" not in index
    for name in ("LICENSE-onnxruntime.txt", "style.css", *NAMES[:1]):
        assert (site / name).is_file()
    assert rw.web(exported.folder, site) == site  # a site is written over


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
