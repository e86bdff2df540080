"""Random policies as C, beside PyTorch in float64: none is further away than its twins."""

from __future__ import annotations

from pathlib import Path

import pytest

from roadworthy.cfile.lowering import Unsupported
from roadworthy.errors import RoadworthyError
from roadworthy.exporting import ExportPlan, captured
from roadworthy.runtime.load import load
from tests.generator import build, comparing, grammar

FIRST, RUN = 20_000, 503
# 20502 multiplies a sigmoid by an infinity at -92: PyTorch's is 0 there, that of C is not yet.
IN_MAKE_TEST = (*range(FIRST, FIRST + 4), 20_502)


def seeds() -> list[object]:
    """Every seed that was run; all but a few are for `make test-long`."""
    return [
        pytest.param(
            seed, marks=() if seed in IN_MAKE_TEST else [pytest.mark.slow, pytest.mark.long]
        )
        for seed in range(FIRST, FIRST + RUN)
    ]


@pytest.mark.parametrize("seed", seeds())
def test_a_random_policy_is_the_same_in_c_or_refused_by_name(seed: int, tmp_path: Path) -> None:
    policy, plan = grammar.generate(seed), ExportPlan()
    try:
        program, _ = captured(build.source(policy), plan)
        file = plan.backend("onnx").lower(program, tmp_path)[0]
    except RoadworthyError:
        assert seed not in IN_MAKE_TEST  # not even ONNX: nothing to ask of C
        return
    try:
        artifact = load(file, engine="c", canary=False)
    except Unsupported:  # by name
        assert seed not in IN_MAKE_TEST
        return
    departs = comparing.difference(policy, artifact)
    # Where ONNX departs too, the graph does, and the export is refused.
    if departs and seed not in IN_MAKE_TEST:
        departs = None if comparing.difference(policy, load(file, canary=False)) else departs
    assert departs is None
