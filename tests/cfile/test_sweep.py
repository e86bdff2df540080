"""Every operator of the sweep as C, beside PyTorch at the corners, as docs/operators.md does it."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import machine
import numpy as np
import operator_cases
import operator_sweep
import pytest

import roadworthy as rw

pytestmark = pytest.mark.filterwarnings("ignore")
KINDS = {kind.name: kind for kind in operator_cases.kinds()}
# What differs in C and in onnxruntime does not.
OWN = {
    # PyTorch's sigmoid(-100) is 0, C's the denormal number that it is.
    "pairs of floats": {("glu", "a number for NaN")},
    "rows": {
        # Sums of another order: two of 3e38 and one of -3e38, and 1000 + 1 - 1000.
        ("matmul constant", "infinite or not"), ("trace", "another value"),
        *((f"{pool}_pool{n}d", "sign of zero") for pool in ("avg", "max") for n in (1, 2)),
    },
    # A state of 1e-6 beside inputs of 1000.
    "layers": {("LSTM batch_first", "another value")},
}  # fmt: skip
REFUSED = {"rows": {"det 2x2"}}


def by_c(path: Path) -> operator_sweep.Ran:
    policy = rw.load(path, engine="c", canary=False)

    def run(feeds: operator_sweep.Feeds) -> operator_sweep.Arrays:
        got = policy.step(feeds)
        return [np.array(got[f"out_{place}"]) for place in range(len(got))]

    return run


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_operators_in_c_are_pytorchs_where_onnxruntimes_are(kind: str) -> None:
    written = json.loads((machine.RESULTS / "operators.json").read_text())["operators"]
    known: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    refused = set(REFUSED.get(kind, ()))
    for each in written:
        known[each["kind"]] |= {(each["operator"], d["what"]) for d in each["differences"]}
        refused |= {each["operator"]} if each["kind"] == kind and each["refused"] else set()
    results = list(operator_sweep.swept(KINDS[kind], opened=by_c))
    assert {each.operator for each in results if each.refused} == refused
    found = {(each.operator, d.what) for each in results for d in each.differences}
    assert found - known[kind] <= OWN.get(kind, set())
    assert len(results) == len(KINDS[kind].functions)
