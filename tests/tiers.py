"""Which of `make quick`, `make test` and `make test-all` runs a test: by marker, not by a skip.

A test without a marker is in `make test`. `slow` and `framework` leave it to `make test-all`, which
selects everything; `long` besides one of them leaves it out of CI, to `make test-long`. `quick` is
set here, by place: a new file of a quick folder need not say it.

CI has an hour on a busy machine. What takes it longest is one claim over many cases, so it runs a
share of them, the same one every time and no test without a case; the others become `long`.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent

# Frameworks that `make test` is free of: their names in code, and their folders in tests/adapters/.
FRAMEWORKS = ("torchrl", "tensordict", "ale_py", "mjlab")
# Those of tests/people, which docs and messages speak of without importing them.
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

# One of so many cases of a test that `make test` leaves out is in `make test-rest`.
REST = 8
# And these, whose cases take seconds each, have one of so many in `make test`.
SHARED = {
    "acceptance/test_corners.py::test_a_corner_at_which_two_policies_differ_is_met": 2,
    "acceptance/test_corners.py::test_a_good_policy_with_corners_is_not_refused": 3,
    "acceptance/test_corners.py::test_a_threshold_that_moved_is_seen": 3,
    "acceptance/test_corners.py::test_rows_that_are_mixed_far_out_are_refused": 2,
    "acceptance/test_look_alikes.py::test_a_look_alike_raises_no_alarm": 2,
    "acceptance/test_moved_weights.py::test_one_weight_that_moved_by_a_thousandth_is_seen": 5,
    "acceptance/test_mutations.py::test_a_damaged_artifact_fails": 3,
    "acceptance/test_no_false_alarms.py::test_a_good_policy_raises_no_alarm": 6,
    "acceptance/test_unusual.py::test_a_good_unusual_policy_is_certified": 8,
    "acceptance/test_wrong_artifacts.py::test_other_ports_are_named": 3,
    "acceptance/test_wrong_artifacts.py::test_the_cause_is_named": 8,
    "backends/test_asked_dtypes.py::test_it_is_computed_in_the_dtype_that_is_asked_for": 2,
    "backends/test_doubles.py::test_float64_is_exact": 3,
    "backends/test_near_constants.py::test_a_number_that_is_nearly_idle_is_kept": 2,
    "backends/test_own_types.py::test_type_and_values_are_pytorchs": 3,
    "backends/test_resizing.py::test_image_of_another_size_is_pytorchs": 4,
    "backends/test_torchlib.py::test_file_is_the_one_of_the_public_call": 2,
    "backends/test_where.py::test_memory_that_starts_at_its_first_input_and_a_choice": 2,
    "capture/state/test_wrong.py::test_state_is_refused_and_named": 3,
    "capture/state/test_wrong.py::test_what_is_asked_of_the_world_is_refused_at_its_line": 2,
    "capture/state/test_wrong.py::test_what_the_hint_says_to_ignore_is_ignored_and_written_down": 2,
    "capture/test_devices.py::test_what_cannot_be_followed_is_refused_with_the_line": 3,
    "capture/test_devices.py::test_whatever_the_default_device_the_bytes_are_the_same": 4,
    "capture/test_natural.py::test_natural_policies_are_certified_and_equal_at_any_batch": 2,
    "cfile/test_policies.py::test_history_read_in_both_directions": 3,
    "contract/test_behaviour.py::test_bundle_verifies_against_an_equal_module": 3,
    "contract/test_behaviour.py::test_one_other_weight_fails_with_port_and_step": 2,
    "contract/test_behaviour.py::test_reset_policy_is_a_fresh_one_bit_for_bit": 2,
    "contract/test_behaviour.py::test_thousand_recurrent_steps_stay_within_1e_5": 2,
    "contract/test_targets.py::test_every_policy_is_certified_as_torch_export_alone": 3,
    "contract/test_targets.py::test_torch_export_names_no_place_on_this_machine": 4,
    "contract/test_unusual.py::test_fixed_rows_never_meet_another_axis": 2,
    "contract/test_unusual.py::test_unusual_policy_is_certified": 2,
    "doctor/test_pages.py::test_before_meets_the_finding_and_after_does_not": 8,
    "environment/test_disguised.py::test_a_hidden_input_in_disguise_is_refused": 2,
    "environment/test_disguised.py::test_bookkeeping_is_no_hidden_input": 3,
    "environment/test_measured.py::test_an_environment_is_judged_by_its_own_rounding": 3,
    "environment/test_moving.py::test_a_right_environment_is_exported": 3,
    "environment/test_moving.py::test_a_wrong_environment_is_refused_with_its_cause": 2,
    "environment/test_moving.py::test_the_line_of_the_hint_leads_to_a_certified_export": 3,
    "environment/test_refusals.py::test_the_line_for_a_python_number_makes_the_export_pass": 3,
    "environment/test_styles.py::test_a_thousand_steps_stay_within_tolerance": 2,
    "environment/test_styles.py::test_the_policy_does_what_the_environment_does": 3,
    "environment/test_unvisited.py::test_what_looks_odd_and_is_right_is_exported": 2,
    "failing/test_failing.py::test_failure_is_explained_at_its_line": 5,
    "failing/test_failing.py::test_the_advice_leads_to_a_certificate": 5,
    "failing/test_fix.py::test_branch_that_is_left_alone_says_why": 2,
    "generator/test_random_policies.py::test_a_random_policy_is_exported_and_behaves": 4,
    "styles/test_states.py::test_state_of_any_shape_is_the_original_s_over_many_steps": 3,
    "verification/test_budget.py::test_a_good_policy_of_any_scale_is_certified": 5,
    "verification/test_budget.py::test_one_weight_moved_by_a_thousandth_is_seen": 3,
    "verification/test_findings.py::test_the_difference_is_traced_to_its_node_and_line": 2,
    "verification/test_logits.py::test_an_error_that_turns_no_choice_is_seen_behind_it": 3,
}

# What `make quick` holds of the registry, and the files and folders that it runs.
QUICK_POLICIES = ("mlp", "lstm", "discrete")
QUICK = (
    "spec", "runtime", "envs", "test_layers.py", "test_public_api.py", "contract/test_file.py",
    "contract/test_verify.py",
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


def left_out(tests: Mapping[str, bool]) -> set[str]:
    """The ids that CI leaves out, of ids and whether `make test` leaves them out already.

    Of each test the first of its cases in an order that is everyone's and nobody's.
    """
    cases: defaultdict[tuple[str, bool], list[str]] = defaultdict(list)
    for test, rest in tests.items():
        cases[test.partition("[")[0], rest].append(test)
    found: set[str] = set()
    for (name, rest), some in cases.items():
        share = REST if rest else SHARED.get(name.removeprefix("tests/"), 1)
        some.sort(key=lambda test: hashlib.sha256(test.encode()).hexdigest())
        found.update(some[-(-len(some) // share) :])
    return found


def named(text: str) -> bool:
    """Whether code speaks of a framework that `make test` is free of."""
    return any(name in text for name in FRAMEWORKS)


class Hidden:
    """A finder that has no framework: what is not asked for is as good as not installed."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] in (*FRAMEWORKS, *PEOPLE):
            raise ModuleNotFoundError(f"{name} is hidden from `make test`", name=name)


def framework_folder(path: Path) -> bool:
    """Whether `path` lies in the folder of a framework: tests/adapters/torchrl/…"""
    inside = path.relative_to(TESTS).parts if path.is_relative_to(TESTS) else ()
    return inside[:1] == ("adapters",) and inside[1:2] != () and inside[1] in FRAMEWORKS


def quick(path: Path, name: str, policy: str | None) -> bool:
    """Whether a test of this file and name, with this policy of the registry, is `quick`."""
    listed = any(path.is_relative_to(TESTS / place) for place in QUICK)
    return listed and policy in (None, *QUICK_POLICIES) and name not in NOT_QUICK
