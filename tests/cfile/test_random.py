"""Random policies as C, beside PyTorch in float64: none is further away than its twins."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from roadworthy.api.export import captured
from roadworthy.api.options import ExportPlan
from roadworthy.errors import RoadworthyError
from roadworthy.runtime.load import load
from roadworthy.targets.c.lowering import Unsupported
from tests.random_policies import build, comparing, grammar
from tests.random_policies.policy import Input, Node, Policy

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"
FIRST, RUN = 20_000, 503
# 20502 multiplies a sigmoid by an infinity at -92: PyTorch's is 0 there, that of C is not yet.
IN_MAKE_TEST = (*range(FIRST, FIRST + 4), 20_502)
# Seeds with an operator that ONNX does not have, which the export must say (RW106).
NO_ONNX = (20_040, 20_052, 20_146, 20_173, 20_260, 20_316)


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
    # Where ONNX departs too, the graph does, and the export is refused.
    right = r"the same\Z" if seed in IN_MAKE_TEST else r"the same\Z|both depart: "
    expected = r"no ONNX: \[RW106\] " if seed in NO_ONNX else right
    said = outcome(grammar.generate(seed), tmp_path)
    assert re.match(expected, said), said


def outcome(policy: Policy, folder: Path) -> str:
    """What becomes of a policy as C, and by which finding, operator or check."""
    plan = ExportPlan()
    try:
        program, _ = captured(build.source(policy), plan)
        file = plan.backend("onnx").lower(program, folder)[0]
    except RoadworthyError as error:
        return f"no ONNX: {error}"
    try:
        artifact = load(file, engine="c", canary=False)
    except Unsupported as error:
        return f"no C: {error}"
    departs = comparing.difference(policy, artifact)
    if departs is None:
        return "the same"
    onnx = comparing.difference(policy, load(file, canary=False))
    return f"C departs: {departs}" if onnx is None else f"both depart: {departs}"


def test_the_quick_judge_of_the_long_run_sees_other_weights_and_another_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`benchmarks/random_c.py` asks it first; what it lets through is not asked again."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import random_c

    policy = Policy(
        seed=0,
        precision="float32",
        inputs=(Input("obs", "float32", (6,)),),
        nodes=(
            Node("v0", "gru_cell", ("obs",), (("width", 4),), 5, "buffer"),
            Node("v1", "linear", ("v0",), (("width", 3),), 3),
        ),
        outputs=("v1",),
    )
    file = ExportPlan().backend("onnx").lower(random_c.program(policy), tmp_path)[0]
    artifact = load(file, engine="c", canary=False)
    assert random_c.is_near(policy, artifact)
    cell, head = policy.nodes
    other_head = replace(policy, nodes=(cell, replace(head, weights=4)))
    other_start = replace(policy, nodes=(replace(cell, initial=1), head))
    assert not random_c.is_near(other_head, artifact)
    assert not random_c.is_near(other_start, artifact)
