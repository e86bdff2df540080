"""Policies as people have them go in at once or after one hint, and are what they were."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.user_policies.cases import Case
from tests.user_policies.everyone import everyone
from tests.user_policies.trying import tried

EVERYONE = everyone()


def marks(case: Case) -> list[pytest.MarkDecorator]:
    framework = [pytest.mark.framework] if case.framework else []
    return [pytest.mark.slow, *framework, *([pytest.mark.long] if case.long else [])]


# What frameworks warn of is between them and their users.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "case", [pytest.param(case, id=name, marks=marks(case)) for name, case in EVERYONE.items()]
)
def test_it_goes_in_as_expected_and_is_what_it_was(case: Case, tmp_path: Path) -> None:
    outcome = tried(case, tmp_path / "bundle")
    assert outcome.outcome == case.expected, f"{outcome.distance:.1e} apart\n{outcome.said}"
    if case.refused:
        assert outcome.code == case.refused, outcome.said


def test_the_set_is_as_large_as_promised_and_nearly_all_of_it_goes_in() -> None:
    expected = Counter(case.expected for case in EVERYONE.values())
    assert expected.total() >= 110
    assert expected["first call"] + expected["after one hint"] >= 100
    assert all(
        case.expected in ("first call", "after one hint", "refused") for case in EVERYONE.values()
    )


def test_families_are_many() -> None:
    assert len({case.family for case in EVERYONE.values()}) >= 12
