"""Every test belongs to a tier, and tests that share an export share a worker."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests import tiers
from tests.sharing import ByExport, group

MAKEFILE = (Path(__file__).parent.parent / "Makefile").read_text()


def selected(target: str) -> str | None:
    """The markers that a target of the Makefile selects; None if it runs everything."""
    line = re.search(rf"^{target}: .*\n\t\$\(PYTEST\)(?: -m '(.*)')?$", MAKEFILE, re.MULTILINE)
    assert line is not None, f"make {target} runs no tests"
    return line[1]


def test_what_make_test_leaves_out_is_what_test_rest_and_test_long_run() -> None:
    assert selected("test") == "not slow and not framework"
    assert selected("test-rest") == "(slow or framework) and not long"
    assert selected("test-long") == "long"
    assert selected("test-all") is None


def test_make_quick_is_a_part_of_make_test() -> None:
    assert selected("quick") == f"quick and {selected('test')}"


def test_a_case_that_stands_for_no_others_is_slow() -> None:
    kept, left = tiers.representative(["lstm", "gru"], ["lstm"])
    assert (kept.values, list(kept.marks)) == (("lstm",), [])
    assert (left.values, [mark.name for mark in left.marks]) == (("gru",), ["slow"])
    with pytest.raises(AssertionError, match=r"no such case: \['lstmm'\]"):
        tiers.representative(["lstm"], ["lstmm"])


def test_ci_runs_a_share_of_many_cases_and_at_least_one() -> None:
    many = [f"tests/test_a.py::test_b[{i}]" for i in range(9)]
    few = ["tests/test_a.py::test_c", "tests/test_a.py::test_d[1]"]
    chosen = tiers.share(many + few, tiers.eighth)
    assert chosen >= {*few}
    assert len(chosen & {*many}) == 2
    assert chosen - {*few} == tiers.share(reversed(many), tiers.eighth)
    assert len(tiers.share(many, lambda test, cases: 0)) == 1


def test_what_moves_to_another_folder_keeps_its_share() -> None:
    here, there = ([f"tests/{at}/test_a.py::test_b[x/{i}]" for i in range(30)] for at in "ab")
    chosen = tiers.share(here, tiers.eighth)
    assert {test.replace("/a/", "/b/") for test in chosen} == tiers.share(there, tiers.eighth)
    assert tiers.short(here[7]) == "test_a.py::test_b[x/7]"


@pytest.mark.parametrize("test", tiers.DURATIONS)
def test_of_what_takes_long_as_many_cases_run_as_fit(test: str) -> None:
    """And what is listed is there, though it may have moved to another folder."""
    file, _, name = test.partition("::")
    assert any(f"def {name}(" in path.read_text() for path in tiers.TESTS.rglob(file))
    seconds = tiers.DURATIONS[test]
    cases = [f"tests/{test}[{i}]" for i in range(120)]
    chosen = tiers.share(cases, tiers.fitting)
    assert 1 <= len(chosen) <= 120
    assert len(chosen) == 1 or len(chosen) * seconds <= tiers.LONGEST_S
    assert len(chosen) == 120 or (len(chosen) + 1) * seconds > tiers.LONGEST_S


def test_a_case_that_imports_a_framework_is_marked() -> None:
    cases = tiers.by_framework(["import torch", "from torchrl.envs import GymEnv"], str)
    assert [[mark.name for mark in case.marks] for case in cases] == [[], ["framework"]]


def test_frameworks_are_hidden_and_nothing_else() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"torchrl\.envs is hidden"):
        tiers.Hidden().find_spec("torchrl.envs")
    assert tiers.Hidden().find_spec("torch.nn") is None


def test_the_folder_of_a_framework_is_known_by_its_name() -> None:
    assert tiers.framework_folder(tiers.TESTS / "adapters" / "torchrl" / "test_keys.py")
    assert not tiers.framework_folder(tiers.TESTS / "adapters" / "test_gbc.py")


@pytest.mark.parametrize("place", tiers.QUICK)
def test_what_is_listed_as_quick_exists(place: str) -> None:
    assert (tiers.TESTS / place).exists()


@pytest.mark.parametrize(
    ("test", "shared"),
    [
        ("tests/every_policy/test_file.py::test_a[lstm]", "lstm"),
        ("tests/every_policy/test_behaviour.py::test_b[lstm-torch_export]", "lstm"),
        ("tests/environment/test_styles.py::test_c[lstm]", "environment lstm"),
        ("tests/targets/test_aoti.py::test_d[7]", "every target"),
        ("tests/spec/test_port.py::test_e", "tests/spec/test_port.py::test_e"),
    ],
)
def test_tests_of_one_export_are_one_group(test: str, shared: str) -> None:
    assert group(test) == shared
    # xdist asks this method: under another name nothing would be shared, and nothing would fail.
    assert ByExport._split_scope is not LoadScopeScheduling._split_scope


@pytest.mark.parametrize("name", tiers.NOT_QUICK)
def test_what_is_too_long_to_be_quick_exists(name: str) -> None:
    files = (path for place in tiers.QUICK for path in sorted(tiers.TESTS.glob(f"{place}/*.py")))
    listed = [tiers.TESTS / place for place in tiers.QUICK if place.endswith(".py")]
    assert any(f"def {name}(" in path.read_text() for path in (*files, *listed))
