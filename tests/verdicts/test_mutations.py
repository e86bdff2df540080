"""Forty damaged artifacts: ten policies, four damages each. `verify` finds them all.

Alone, from the trace; where the actions are choices a small damage may turn none of the recorded
ones, and then the live module shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import roadworthy as rw
from tests.conftest import Exported, ExportedEnvironment
from tests.policies import CASES
from tests.verdicts import mutations
from tests.verdicts.mutations import Mutation, damaged

TWO_RATES = "two rates"
POLICIES = (
    "mlp", "normalized_sb3", "lstm", "gru", "discrete",
    "multi_discrete", "cnn", "keeps_hidden", "keeps_buffer", TWO_RATES,
)  # fmt: skip
HIDDEN_BY_THE_CHOICE = {
    ("discrete", "weight"), ("multi_discrete", "weight"), ("cnn", "weight"),
}  # fmt: skip
DAMAGES: dict[str, Mutation] = {
    "weight": mutations.weight_moved,
    "exchange": mutations.outputs_exchanged,
    "state": mutations.memory_not_written,
    "frozen": mutations.input_frozen,
}


@pytest.fixture
def bundle(
    request: pytest.FixtureRequest,
    export_once: Callable[[str], Exported],
    export_environment_once: Callable[[str], ExportedEnvironment],
) -> rw.Bundle:
    if request.param == TWO_RATES:
        return export_environment_once("pd_four_ticks").bundle
    return export_once(request.param).bundle


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("bundle", POLICIES, indirect=True)
def test_a_damaged_artifact_fails(bundle: rw.Bundle, damage: str, tmp_path: Path) -> None:
    mutate = DAMAGES[damage]
    if damage == "state" and not bundle.signature.memory:
        mutate = mutations.bias_dropped
    folder = damaged(bundle, tmp_path / "damaged", mutate)
    name = bundle.folder.name.removesuffix("-onnx")
    against = CASES[name].make() if (name, damage) in HIDDEN_BY_THE_CHOICE else None
    failed = [check.name for check in rw.verify(folder, against=against).checks if not check.passed]
    assert failed[:1] == (["replay"] if against is None else ["logits"])


@pytest.mark.parametrize("bundle", POLICIES, indirect=True)
def test_the_copy_of_an_artifact_passes(bundle: rw.Bundle, tmp_path: Path) -> None:
    copy = damaged(bundle, tmp_path / "copy", lambda model, bundle: None)
    assert rw.verify(copy).raise_if_failed().findings == ()
