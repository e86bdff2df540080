"""Which of `make quick`, `make test` and `make test-all` runs a test: by marker, not by a skip.

A test without a marker is in `make test`. `slow` and `framework` leave it to `make test-all`, which
selects everything; `long` besides one of them leaves it out of CI, to `make test-long`. `quick` is
set here, by place: a new file of a quick folder need not say it.

CI has an hour on a busy machine. What takes it longest is one claim over many cases. `make test`
has LONGEST_S for each claim: the cases that do not fit become `slow`. Of the `slow` cases of a
test CI runs an eighth in `make test-rest`; the others become `long`. It is the same part every
time, and no test is left without a case.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent
# Test → seconds that one of its cases takes, as `make durations` measured it.
DURATIONS: dict[str, float] = json.loads((TESTS / "durations.json").read_text())

# Frameworks that `make test` is free of: their names in code, and their folders in tests/adapters/.
FRAMEWORKS = ("torchrl", "tensordict", "ale_py", "mjlab")
# Those of tests/user_policies, which docs and messages speak of without importing them.
PEOPLE = ("stable_baselines3", "sb3_contrib", "rsl_rl", "skrl", "rl_games")

# Every kind of policy once: for claims that cost seconds for each policy of the registry.
REPRESENTATIVES = (
    "mlp", "normalized_sb3", "normalized_by_module", "lstm", "lstm_pair", "keeps_hidden",
    "keeps_buffer", "transformer_any_length", "cnn", "nested_dict_observation",
    "masked_multi_discrete", "squashed_gaussian", "half_precision", "fixed_batch_lstm",
    "left_in_training", "odd_names", "integer_clock",
)  # fmt: skip
REPRESENTATIVE_ENVIRONMENTS = (
    "in_place", "rebinding", "early_views", "replaced", "pd_four_ticks", "four_robots", "integers",
    "ring", "delayed", "module", "lstm", "gru",
)  # fmt: skip

# As many cases of a test run in `make test` as fit into so many seconds (tests/durations.json).
LONGEST_S = 2.0
# One of so many cases of a test that `make test` leaves out is in `make test-rest`.
REST = 8

# What `make quick` holds of the registry, and the files and folders that it runs.
QUICK_POLICIES = ("mlp", "lstm", "discrete")
QUICK = (
    "spec", "runtime", "envs", "test_layers.py", "test_public_api.py", "every_policy/test_file.py",
    "every_policy/test_verify.py",
)  # fmt: skip
# Of those, what takes longer than the rest together.
NOT_QUICK = (
    "test_opset_and_ir_version_are_the_ones_asked_for",
    "test_memory_survives_more_sizes_than_buffers_are_kept_for",
    "test_one_policy_serves_three_clients_as_three_policies_would",
)


def representative(names: Iterable[str], kept: Collection[str]) -> list[Any]:
    """Every name as a parameter of a test; those that are not `kept` are for `make test-all`."""
    names = tuple(names)
    unknown = set(kept) - set(names)
    assert not unknown, f"no such case: {sorted(unknown)}"
    return [pytest.param(n, marks=() if n in kept else pytest.mark.slow) for n in names]


def by_framework(cases: Iterable[Any], text: Any, kept: Collection[Any] | None = None) -> list[Any]:
    """Every case as a parameter; one whose `text(case)` imports a framework is marked so.

    Those that are not `kept`, if that is said, are for `make test-all`.
    """

    def marks(case: Any) -> list[pytest.MarkDecorator]:
        framework = [pytest.mark.framework] if named(text(case)) else []
        return framework + ([pytest.mark.slow] if kept is not None and case not in kept else [])

    return [pytest.param(case, marks=marks(case)) for case in cases]


def share(tests: Iterable[str], kept: Callable[[str, int], int]) -> set[str]:
    """Of each test the first of its cases in an order that is everyone's and nobody's.

    `kept` says how many of a test and the number of its cases; it is at least one.
    """
    cases: defaultdict[str, list[str]] = defaultdict(list)
    for test in tests:
        cases[test.partition("[")[0]].append(test)
    chosen: set[str] = set()
    for name, some in cases.items():
        some.sort(key=lambda test: hashlib.sha256(short(test).encode()).hexdigest())
        chosen.update(some[: max(1, kept(short(name), len(some)))])
    return chosen


def fitting(test: str, cases: int) -> int:
    """How many cases of a test `make test` has time for."""
    seconds = DURATIONS.get(test, 0.0)
    return cases if cases * seconds <= LONGEST_S else int(LONGEST_S / seconds)


def eighth(test: str, cases: int) -> int:
    """How many of those that `make test` leaves out are in `make test-rest`."""
    return -(-cases // REST)


def short(test: str) -> str:
    """The id of a test without its folder: what moves keeps its duration, and its share."""
    folders, slash, rest = test.partition("::")
    return folders.rpartition("/")[2] + slash + rest


def named(text: str) -> bool:
    """Whether code speaks of a framework that `make test` is free of."""
    return any(name in text for name in FRAMEWORKS)


class Hidden:
    """A finder that has no framework: what is not asked for is as good as not installed."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] in (*FRAMEWORKS, *PEOPLE):
            raise ModuleNotFoundError(f"{name} is hidden from `make test`", name=name)


@functools.cache
def framework_folder(path: Path) -> bool:
    """Whether `path` lies in the folder of a framework: tests/adapters/torchrl/…"""
    inside = path.relative_to(TESTS).parts if path.is_relative_to(TESTS) else ()
    return inside[:1] == ("adapters",) and inside[1:2] != () and inside[1] in FRAMEWORKS


def quick(path: Path, name: str, policy: str | None) -> bool:
    """Whether a test of this file and name, with this policy of the registry, is `quick`."""
    return _quick_file(path) and policy in (None, *QUICK_POLICIES) and name not in NOT_QUICK


@functools.cache
def _quick_file(path: Path) -> bool:
    return any(path.is_relative_to(TESTS / place) for place in QUICK)
