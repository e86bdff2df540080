"""Good unusual policies, three seeds each: none is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import roadworthy as rw
from tests.verdicts import test_corners
from tests.verdicts.unusual import UNUSUAL
from tests.verification import test_budget

SEEDS = (0, 1, 2)


def cases() -> list[Any]:
    """Every policy with every seed; the first seed alone is in `make test`."""
    return [
        pytest.param(name, seed, marks=() if seed == 0 else pytest.mark.slow)
        for name in UNUSUAL
        for seed in SEEDS
    ]


# PyTorch warns that it has no fast kernel for some of them.
@pytest.mark.filterwarnings("ignore:LSTM with projections:UserWarning")
@pytest.mark.parametrize(("name", "seed"), cases())
def test_a_good_unusual_policy_is_certified(name: str, seed: int, tmp_path: Path) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(700 + seed)
        source = UNUSUAL[name]()
    bundle = rw.export(source, tmp_path / "b")
    certificate = rw.Certificate.from_bytes(bundle.files["certificate.json"])
    assert certificate.passed
    # Notes tell what a sampled input cannot have; a warning would be an alarm.
    assert [each.code for each in certificate.findings if each.severity != "note"] == []


def test_the_list_is_long_enough() -> None:
    elsewhere = {*test_budget.GOOD, *test_corners.GOOD}
    assert not elsewhere & set(UNUSUAL)
    assert len(UNUSUAL) >= 60
