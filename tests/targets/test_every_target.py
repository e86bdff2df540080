"""What holds for every target of the table: a new one is here by being listed."""

from __future__ import annotations

import io
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import roadworthy as rw
from roadworthy.errors import BundleError, UsageError
from roadworthy.spec import targets
from roadworthy.spec.samples import draw
from roadworthy.spec.targets import TARGETS
from roadworthy.verification.comparison import Comparison
from tests.targets.conftest import chooser

pytestmark = pytest.mark.xdist_group("every_target")
EVERY = pytest.mark.parametrize("target", targets.names())
ONE_FILE = [row.name for row in TARGETS.values() if len(row.files) == 1]
CHECKS = {"replay", "batch", "reset", "fresh steps"}


def load(bundle: rw.Bundle, target: str) -> rw.Policy:
    return rw.load(bundle.folder, engine=target, trust=True)


@EVERY
def test_target_is_certified_by_itself(whole: rw.Bundle, target: str) -> None:
    certificate = rw.Certificate.from_bytes(whole.files["certificate.json"])
    assert certificate.passed
    assert {each.name for each in certificate.checks if each.target == target} >= CHECKS
    assert {each.device for each in certificate.checks} == {"cpu"}


@EVERY
def test_target_writes_the_files_of_its_row(whole: rw.Bundle, target: str) -> None:
    assert whole.targets[target] == TARGETS[target].files
    assert whole.manifest["targets"][target] == list(TARGETS[target].files)


@EVERY
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_target_chooses_as_the_module_does(whole: rw.Bundle, target: str, rows: int) -> None:
    policy = load(whole, target)
    module = chooser().module.eval()
    values = torch.randn(100, rows, 6, generator=torch.Generator().manual_seed(rows))
    h = c = torch.zeros(1, rows, 16)
    worst = 0.0
    for obs in values:
        with torch.no_grad():
            logits, h, c = module(obs, h, c)
        assert np.array_equal(policy.act(obs.numpy()), logits.argmax(-1).numpy())
        worst = max(worst, float(np.abs(policy.memory["h"] - h.numpy()).max()))
    assert worst <= 1e-5


@EVERY
def test_state_of_one_target_is_restored_in_another(whole: rw.Bundle, target: str) -> None:
    usual, other = load(whole, targets.DEFAULT), load(whole, target)
    values = np.random.default_rng(0).standard_normal((20, 3, 6)).astype(np.float32)
    for obs in values[:10]:
        usual.act(obs)
    other.restore(usual.state())
    for obs in values[10:]:
        assert np.array_equal(other.act(obs), usual.act(obs))
    assert np.allclose(other.memory["h"], usual.memory["h"], atol=1e-5)


def contents(data: bytes) -> Iterator[bytes]:
    """The bytes of a file, and of what is packed inside it."""
    yield data
    if data.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            yield from (archive.read(name) for name in archive.namelist())


@EVERY
def test_target_names_no_path_of_this_machine(whole: rw.Bundle, target: str) -> None:
    places = [Path.cwd(), Path.home(), tempfile.gettempdir(), "site-packages", whole.folder.parent]
    for name, data in whole.files_of(target).items():
        for part in contents(data):
            assert not [place for place in places if f"{place}/".encode() in part], name


@EVERY
def test_code_needs_trust_and_data_does_not(whole: rw.Bundle, target: str) -> None:
    row = TARGETS[target]
    if not row.code or row.made_from in whole.targets:
        assert rw.load(whole.folder, engine=target).signature == whole.signature
        return
    with pytest.raises(BundleError) as caught:
        rw.load(whole.folder, engine=target)
    assert str(caught.value) == (
        f"[RW211] {row.files[0]}: the file is code: {row.code}"
        "\n  → pass trust=True (--trust), only for files that you made or whose origin you know"
    )


@pytest.mark.parametrize("target", ONE_FILE)
def test_lone_file_runs_with_the_signature_inside(
    whole: rw.Bundle, target: str, tmp_path: Path
) -> None:
    lone = Path(shutil.copy(whole.folder / TARGETS[target].files[0], tmp_path))
    policy = rw.load(lone, trust=True)
    assert policy.signature == whole.signature
    obs = np.ones(6, np.float32)
    assert policy.act(obs) == load(whole, target).act(obs)


@EVERY
def test_device_and_threads_that_cannot_be_are_refused(whole: rw.Bundle, target: str) -> None:
    alone = [whole.folder / TARGETS[target].files[0]] if target in ONE_FILE else []
    for path in (whole.folder, *alone):
        with pytest.raises(UsageError, match=f"{target} has no engine for the device 'abacus'"):
            rw.load(path, engine=target, device="abacus", trust=True)
        with pytest.raises(UsageError, match="threads must be at least 1, got 0"):
            rw.load(path, engine=target, threads=0, trust=True)


@pytest.mark.slow
@EVERY
def test_environment_of_two_rates_is_certified_in_it(two_rates: rw.Bundle, target: str) -> None:
    certificate = rw.Certificate.from_bytes(two_rates.files["certificate.json"])
    assert certificate.passed
    assert target in {check.target for check in certificate.checks}
    signature = two_rates.signature
    assert signature.decimation == 4
    drawn = draw(signature, np.random.default_rng(0), steps=13, rows=signature.fixed_rows or 4)
    usual, other = load(two_rates, targets.DEFAULT), load(two_rates, target)
    comparison = Comparison()
    for tick in range(13):
        now = {name: array[tick] for name, array in drawn.items()}
        comparison.add(tick, usual.step(now), other.step(now))
    assert comparison.first_failure is None
