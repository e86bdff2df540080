"""The suite of tests: what they export, are told and catch while they run.

For cases that stand in the code of a test and in no table.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.raises import RaisesExc

import roadworthy as rw
from tests.fingerprinted.results import Result, plain, seed, sums

TESTS = (
    "adapters", "backends", "checkpoints", "deploy/emit", "environment", "capture", "inspection",
    "rules/test_diagnose.py", "rules/test_fix.py", "rules/test_pages.py",
    "verification/test_findings.py", "verification/test_logits.py", "targets/test_c.py",
    "targets/test_every_target.py", "every_policy/test_unusual.py", "verdicts/test_corners.py",
    "verdicts/test_wrong_artifacts.py", "verdicts/test_wrong_modules.py",
    "verdicts/test_wrong_policies.py", "test_door.py",
)  # fmt: skip
# Tests that share the exports of a registry: it is a suite of its own.
SHARED = {"export_once", "exported", "verify_once", "verified", "export_environment_once"}
# Tests whose cases are in a table that is a suite of its own, and those that only read pages.
ELSEWHERE = {
    "test_a_wrong_environment_is_refused_with_its_cause", "test_a_right_environment_is_exported",
    "test_a_hidden_input_in_disguise_is_refused", "test_bookkeeping_is_no_hidden_input",
    "test_failure_is_explained_at_its_line", "test_the_advice_leads_to_a_certificate",
    "test_natural_policies_are_certified_and_equal_at_any_batch",
    "test_a_good_policy_with_corners_is_not_refused", "test_look_alikes_are_captured",
    "test_a_page_is_named_by_its_code_and_short_enough_to_read",
    "test_a_finding_without_a_script_shows_what_is_printed",
    "test_state_of_any_shape_is_the_original_s_over_many_steps",
    "test_an_old_file_acts_as_its_framework_did",
    "test_every_file_acts_as_the_framework_answers", "test_a_place_for_state_is_named",
    "test_state_deep_inside_is_named", "test_a_question_deep_inside_is_found_at_its_line",
    "test_hiding_deep_inside_is_found_at_its_line", "test_state_is_refused_and_named",
}  # fmt: skip
WATCHED = ("export", "export_environment", "diagnose", "discover", "verify", "emit")


def names() -> list[str]:
    """The ids of the tests."""
    watch = Watch(Path(), lambda name, result: None, lambda name: None)
    places = [str(Path(__file__).parents[1] / each) for each in TESTS]
    pytest.main(["--collect-only", "-qqq", "-p", "no:cacheprovider", *places], plugins=[watch])
    return watch.collected


def run(
    tests: list[str], folder: Path, begin: Callable[[str], None], end: Callable[[str, Result], None]
) -> None:
    """Runs the tests, and hands over what was seen in each."""
    options = ["-qqq", "-p", "no:cacheprovider", "--basetemp", str(folder / "claims")]
    pytest.main([*options, *tests], plugins=[Watch(folder, end, begin)])


class Watch:
    """A plug-in of pytest that writes down what a test's calls gave, in their order."""

    def __init__(
        self, folder: Path, end: Callable[[str, Result], None], begin: Callable[[str], None]
    ) -> None:
        self.collected: list[str] = []
        self._folder, self._end, self._begin = folder, end, begin
        self._result: Result = {}
        self._calling = False
        self._errors: list[BaseException] = []
        for name in WATCHED:
            setattr(rw, name, self._watching(name, getattr(rw, name)))
        self._watch_raises()

    def pytest_collectstart(self) -> None:
        seed()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [
            item for item in items
            if not SHARED & set(getattr(item, "fixturenames", ()))
            and item.name.partition("[")[0] not in ELSEWHERE
        ]  # fmt: skip
        self.collected = [item.nodeid for item in items]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._begin(item.nodeid)
        self._result = {"ended": "not called"}
        seed()
        try:
            return (yield)
        finally:
            self._end(item.nodeid, self._result)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        self._result, self._errors, self._calling = {}, [], True
        try:
            return (yield)
        except BaseException as error:
            self._result["ended"] = type(error).__name__
            raise
        finally:
            self._calling = False

    def _add(self, kind: str, result: Result) -> None:
        if not self._calling:
            return
        count = len({key.partition(" ")[0] for key in self._result}) + 1
        self._result |= {f"{count} {kind} {key}".strip(): value for key, value in result.items()}

    def _refused(self, error: BaseException | None) -> None:
        if isinstance(error, rw.RoadworthyError) and not any(e is error for e in self._errors):
            self._errors.append(error)
            self._add("refused", {"": plain(str(error), self._folder)})

    def _watching(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def watched(*arguments: Any, **keywords: Any) -> Any:
            try:
                answer = call(*arguments, **keywords)
            except rw.RoadworthyError as error:
                self._refused(error)
                raise
            written = answer.folder if isinstance(answer, rw.Bundle) else answer
            if isinstance(written, Path):
                self._add(name, sums(written))
            else:
                self._add(name, {"": plain(str(answer), self._folder)})
            return answer

        return watched

    def _watch_raises(self) -> None:
        watch, leave = self, RaisesExc.__exit__

        def left(context: Any, kind: Any, error: BaseException | None, trace: Any) -> bool:
            watch._refused(error)
            return leave(context, kind, error, trace)

        RaisesExc.__exit__ = left
