"""ONNX's own cases of every operator that C has: right, or refused by name."""

from __future__ import annotations

import warnings
from collections import defaultdict
from functools import cache

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.case.test_case import TestCase

from roadworthy.errors import BundleError
from roadworthy.targets.c.lowering import Unsupported
from roadworthy.targets.c.operators import OPERATORS
from tests.cfile.running import run

Feeds = dict[str, np.ndarray]
# So many cases of an operator in `make test-rest`; all of them in `make test-long`.
FEW = 3
# Of these ONNX has no cases over arrays, or the first are refused.
OTHERS = (
    "ConcatFromSequence", "Einsum", "GRU", "SequenceAt", "SequenceConstruct", "SequenceMap",
    "SplitToSequence",
)  # fmt: skip
# Two halves that lie between the same two numbers of float16.
ROUNDED = {"test_attention_4d_causal_fp16_expanded": 1e-3}


def modelled(case: TestCase) -> onnx.ModelProto:
    assert case.model is not None
    return case.model


@cache
def cases() -> dict[str, list[TestCase]]:
    """Cases over arrays whose operators C has, by the operator that they are of."""
    found = defaultdict(list)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        every = collect_testcases(None)
    for case in every:
        operators = {node.op_type for node in modelled(case).graph.node}
        values = [each for inputs, outputs in case.data_sets or () for each in (*inputs, *outputs)]
        arrays = all(isinstance(each, np.ndarray | np.generic) for each in values)
        if operators <= set(OPERATORS) and arrays:
            for operator in operators:
                found[operator].append(case)
    return found


def sized(value: onnx.ValueInfoProto, shape: tuple[int, ...]) -> None:
    value.type.tensor_type.shape.ClearField("dim")
    for size in shape:
        value.type.tensor_type.shape.dim.add().dim_value = size


def answered(model: onnx.ModelProto, feeds: Feeds, wanted: Feeds, *, free: int) -> Feeds:
    """What C makes of the model where the first inputs are given to it, and others constants."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    ports = list(made.graph.input)
    for port in ports:
        sized(port, feeds[port.name].shape)
    outputs = [port for port in made.graph.output if port.name in wanted]
    for port in outputs:
        sized(port, wanted[port.name].shape)
    del made.graph.input[:], made.graph.output[:]
    made.graph.input.extend(ports[:free])
    made.graph.output.extend(outputs)
    made.graph.initializer.extend(
        numpy_helper.from_array(np.ascontiguousarray(feeds[port.name]), port.name)
        for port in ports[free:]
    )
    return run(made.SerializeToString(), {port.name: feeds[port.name] for port in ports[:free]})


def is_right(case: TestCase) -> bool:
    """Whether C gives what ONNX says; False where it is refused."""
    model = modelled(case)
    names = [[port.name for port in side] for side in (model.graph.input, model.graph.output)]
    for given, results in case.data_sets or ():
        feeds, wanted = (
            {name: np.asarray(each) for name, each in zip(side, values, strict=True)}
            for side, values in zip(names, (given, results), strict=True)
        )
        try:
            try:
                got = answered(model, feeds, wanted, free=len(feeds))
            except (
                Unsupported
            ):  # in a policy axes and weights are constants, and one result is used
                wanted = {names[1][0]: wanted[names[1][0]]}
                got = answered(model, feeds, wanted, free=1)
        except (Unsupported, BundleError):
            return False
        for name, each in wanted.items():
            assert got[name].dtype == each.dtype
            np.testing.assert_allclose(
                got[name].astype(np.float64), each.astype(np.float64),
                rtol=case.rtol or 1e-3, atol=ROUNDED.get(case.name, case.atol or 1e-7),
                err_msg=case.name,
            )  # fmt: skip
    return True


@pytest.mark.slow
@pytest.mark.parametrize("operator", sorted(OPERATORS))
def test_cases_of_onnx_are_right_or_refused(operator: str) -> None:
    right = [is_right(case) for case in cases()[operator][:FEW]]
    assert any(right) or operator in OTHERS


@pytest.mark.slow
@pytest.mark.long
def test_all_cases_of_onnx_are_right_or_refused() -> None:
    every = {case.name: case for each in cases().values() for case in each}
    right = [is_right(case) for case in every.values()]
    assert sum(right) > 850, f"{sum(right)} of {len(right)}"
