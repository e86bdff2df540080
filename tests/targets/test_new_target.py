"""Adding a target touches its own files and one row: the fourth one goes through every claim."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import roadworthy as rw
from roadworthy.errors import BundleCorrupt, UsageError
from roadworthy.spec.targets import TARGETS
from roadworthy.targets import backend as backends
from tests.targets.plain import ROW

FILES = ("plain.json", "plain/weights.npz")


@pytest.fixture(scope="module", autouse=True)
def listed() -> Iterator[None]:
    """The row in the table, while these tests run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TARGETS, ROW.name, ROW)
        yield


def module() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).eval()


@pytest.fixture(scope="module")
def bundle(listed: None, tmp_path_factory: pytest.TempPathFactory) -> rw.Bundle:
    said: list[str] = []
    made = rw.export(
        module(),
        tmp_path_factory.mktemp("plain") / "walker",
        example={"obs": torch.zeros(1, 4)},
        targets=["plain", "onnx"],
        options=rw.ExportOptions(progress=said.append),
    )
    assert {"writing the plan", "plain: comparing batches"} <= set(said)
    return made


def test_every_file_is_listed_in_order_and_covered_by_the_sums(bundle: rw.Bundle) -> None:
    assert backends.names()[-1] == "plain"
    assert bundle.targets == {"onnx": ("policy.onnx",), "plain": FILES}
    assert list(bundle.files_of("plain")) == list(FILES)
    sums = (bundle.folder / "SHA256SUMS").read_text()
    for name in FILES:
        digest = hashlib.sha256((bundle.folder / name).read_bytes()).hexdigest()
        assert f"{digest}  {name}\n" in sums


def test_it_is_certified_like_the_others(bundle: rw.Bundle) -> None:
    certificate = rw.Certificate.from_bytes(bundle.files["certificate.json"])
    titles = [check.title for check in certificate.checks if check.target == "plain"]
    assert titles == ["plain replay", "plain batch", "plain reset", "plain fresh steps"]
    again = rw.verify(bundle.folder, against=module()).raise_if_failed()
    assert {check.target for check in again.checks} == {"onnx", "plain"}


def test_it_runs_on_its_own_engine(bundle: rw.Bundle) -> None:
    obs = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    got = rw.load(bundle.folder, engine="plain").act(obs)
    assert np.allclose(got, rw.load(bundle.folder).act(obs), atol=1e-6)


def test_engine_is_that_of_the_device(bundle: rw.Bundle) -> None:
    obs = np.ones(4, np.float32)
    rounded = rw.load(bundle.folder, engine="plain", device="abacus").act(obs)
    assert np.array_equal(rounded, rw.load(bundle.folder, engine="plain").act(obs).round(2))


def test_device_that_a_target_lacks_is_answered_with_those_it_has(bundle: rw.Bundle) -> None:
    for engine, has in (("onnx", "cpu, cuda, tensorrt"), ("plain", "cpu, abacus")):
        with pytest.raises(UsageError) as caught:
            rw.load(bundle.folder, engine=engine, device="gpu")
        assert str(caught.value) == (
            f"[RW001] the target {engine} has no engine for the device 'gpu'\n  → it runs on {has}"
        )


def test_device_is_certified_by_itself(bundle: rw.Bundle) -> None:
    """The abacus rounds, so it fails; the target that does not run there is noted."""
    certificate = rw.verify(bundle.folder, device="abacus")
    assert {(check.target, check.device) for check in certificate.checks} == {("plain", "abacus")}
    assert rw.Certificate.from_json(certificate.to_json()) == certificate
    with pytest.raises(rw.RoadworthyError) as caught:
        certificate.raise_if_failed()
    assert "[RW300] plain on abacus replay: actions" in str(caught.value)
    assert (
        "[RW213] onnx: was not run: it has no engine for the device 'abacus'\n  → it runs on "
        "cpu, cuda, tensorrt"
    ) in str(caught.value)


def test_any_changed_file_of_it_is_refused(bundle: rw.Bundle, tmp_path: Path) -> None:
    for name in FILES:
        folder = tmp_path / Path(name).stem
        for each, data in bundle.files.items():
            (folder / each).parent.mkdir(parents=True, exist_ok=True)
            (folder / each).write_bytes(data + b" " if each == name else data)
        (folder / "SHA256SUMS").write_bytes((bundle.folder / "SHA256SUMS").read_bytes())
        with pytest.raises(BundleCorrupt, match=f"{name} is not the file that was certified"):
            rw.load(folder)


def test_older_bundle_with_a_folder_in_it_is_replaced(bundle: rw.Bundle, tmp_path: Path) -> None:
    linear, example = nn.Linear(4, 2), {"obs": torch.zeros(1, 4)}
    rw.export(linear, tmp_path / "walker", example=example, targets=["plain"])
    rw.export(linear, tmp_path / "walker", example=example)
    assert not (tmp_path / "walker" / "plain").exists()
    assert rw.Bundle.open(tmp_path / "walker").targets == {"onnx": ("policy.onnx",)}
