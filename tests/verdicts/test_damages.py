"""Artifacts that are wrong in few places only, on two policies each: the recorded steps show it.

`replay` runs from the bundle alone, and so does `batch`: this is what a robot can test by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import roadworthy as rw
from tests.conftest import Exported
from tests.verdicts import damages
from tests.verdicts.mutations import Mutation, damaged

DAMAGES: dict[str, tuple[Mutation, set[str]]] = {
    "rows turned": (damages.rows_turned, {"replay", "batch"}),
    "rows averaged far out": (damages.rows_averaged_far_out, {"replay", "batch"}),
    "sign at zero": (damages.sign_at_zero, {"replay"}),
    "capped far out": (damages.capped_far_out, {"replay"}),
    "bias moved": (damages.bias_moved, {"replay"}),
    "quantised": (damages.quantised, {"replay"}),
    "activation changed": (damages.activation_changed, {"replay"}),
}


@pytest.mark.parametrize("policy", ["mlp", "normalized_rsl_rl"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damage_in_few_places_is_seen(
    damage: str, policy: str, export_once: Callable[[str], Exported], tmp_path: Path
) -> None:
    mutate, seen_by = DAMAGES[damage]
    bundle = export_once(policy).bundle
    wrong = damaged(bundle, tmp_path / "wrong", mutate)
    failed = {check.name for check in rw.verify(wrong).checks if not check.passed}
    assert seen_by <= failed
