"""The published schemas hold for bundles that an adapter made, noise included."""

from __future__ import annotations

from pathlib import Path

import roadworthy as rw
from tests.adapters.torchrl.policies import EXAMPLE, POLICIES
from tests.schemas import bundle_problems


def test_policy_with_noise_fits(tmp_path: Path) -> None:
    policy = POLICIES["TanhNormal"]()
    bundle = rw.export(policy, tmp_path / "policy", example=EXAMPLE, exploration="random")
    assert bundle_problems(bundle) == []
    assert "rewritten" in bundle.manifest["recipe"]
    assert "noise" in bundle.manifest["signature"]["inputs"][-1]
