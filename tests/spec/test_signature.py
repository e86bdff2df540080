"""The signature: strict JSON both ways, and every rule that is broken reported at once."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

import roadworthy as rw
from roadworthy.errors import UsageError
from roadworthy.spec.port import Memory, Port
from roadworthy.spec.signature import Action
from tests.conftest import Exported

OBS = Port(name="obs", dtype="float32", shape=("batch", 4))
OUT = Port(name="actions", dtype="float32", shape=("batch", 2))


def again(signature: rw.Signature) -> rw.Signature:
    text = json.dumps(signature.to_json(), allow_nan=False)
    return rw.Signature.from_json(json.loads(text))


def problems(**parts: Any) -> list[str]:
    with pytest.raises(UsageError) as caught:
        rw.Signature(**{"inputs": (OBS,), "outputs": (OUT,)} | parts)
    return [str(finding) for finding in caught.value.findings]


def port(**parts: Any) -> Port:
    about = {key: parts.pop(key) for key in ("low", "high", "elements") if key in parts}
    values = {"name": "obs", "dtype": "float32", "shape": ("batch", 4)} | parts
    return Port(**values, about=rw.About(**about))


def memory(**parts: Any) -> Memory:
    return Memory(**{"name": "h", "dtype": "float32", "shape": ("batch", 2)} | parts)


def test_signature_survives_strict_json(exported: Exported) -> None:
    signature = exported.bundle.signature
    assert again(signature) == signature
    assert str(again(signature)) == str(signature)


def test_infinite_limits_survive_strict_json() -> None:
    limits = port(low=-math.inf, high=(1.0, math.inf, 2.0, math.inf))
    action = Action(output="actions", kind="continuous", low=-math.inf, high=math.inf)
    signature = rw.Signature(inputs=(limits,), outputs=(OUT,), action=action)
    assert again(signature) == signature
    assert again(signature).inputs[0].about.high == (1.0, math.inf, 2.0, math.inf)
    assert again(signature).action == action


def test_initial_values_survive_to_the_last_bit() -> None:
    row = np.array([[np.float32(0.1), -0.0]], np.float32)
    signature = rw.Signature(inputs=(OBS,), outputs=(OUT,), memory=(memory(initial=row),))
    assert again(signature).memory[0].fresh(1).tobytes() == row.tobytes()


def test_equal_initial_values_are_kept_as_one_number() -> None:
    assert memory(initial=np.full((1, 2), 0.5)).initial == 0.5
    mixed_zeros = memory(initial=((0.0, -0.0),)).initial
    assert mixed_zeros == ((0.0, -0.0),)


def test_fresh_memory_repeats_the_row_along_the_batch_axis() -> None:
    value = memory(shape=(2, "batch", 1), initial=(((1.0,),), ((2.0,),))).fresh(3)
    assert value.shape == (2, 3, 1)
    assert value[:, 2, 0].tolist() == [1.0, 2.0]


def test_all_problems_are_reported_at_once() -> None:
    found = problems(
        inputs=(port(dtype="complex64"), port(low=2, high=1)),
        outputs=(Port(name="a", dtype="float32", shape=("rows", 0)),),
        memory=(memory(initial=math.nan),),
        action=Action(output="b", kind="continuous"),
        period_s=-1.0,
        decimation=0,
    )
    assert [text[1:6] for text in found] == [
        "RW021", "RW022", "RW022", "RW022", "RW023", "RW024", "RW020", "RW020", "RW020",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"inputs": ()}, "[RW020] a policy needs at least one input"),
        ({"outputs": ()}, "[RW020] a policy needs at least one output"),
        (
            {"outputs": (OBS,)},
            "[RW021] obs: the name is used by 2 ports"
            "\n  → give every input, output and memory port its own name",
        ),
        (
            {"memory": (memory(input="i"), memory(output="o"))},
            "[RW021] h: the name is used by 2 memories",
        ),
        (
            {"inputs": (port(name=" obs"),)},
            "[RW021] ' obs' is not a port name\n  → use printable text",
        ),
        ({"inputs": (port(name=""),)}, "[RW021] '' is not a port name\n  → use printable text"),
        (
            {"inputs": (port(name="a\nb"),)},
            "[RW021] 'a\\nb' is not a port name\n  → use printable text",
        ),
        (
            {"inputs": (port(dtype="bfloat16"),)},
            "[RW022] obs: a port cannot have dtype bfloat16"
            "\n  → module.float() and a float32 example; or rw.export(…, fix=True)",
        ),
        (
            {"inputs": (port(dtype="complex64"),)},
            "[RW022] obs: a port cannot have dtype complex64\n  → use one of float16, float32, "
            "float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64, bool",
        ),
        (
            {"outputs": (Port(name="a", dtype="bool", shape=("length",)),)},
            "[RW022] a: no input has the dimension 'length'",
        ),
        (
            {"inputs": (port(shape=("batch", "n")),), "memory": (memory(shape=("batch", "n")),)},
            "[RW022] h: memory can have no dynamic size but the batch",
        ),
        (
            {"inputs": (port(elements=("a", "b")),)},
            "[RW023] obs: 2 element names for a last axis of 4"
            "\n  → give one name for each element, in the order of the tensor, or none",
        ),
        ({"inputs": (port(low=math.nan),)}, "[RW023] obs: the low limit is NaN"),
        ({"inputs": (port(low=1, high=1),)}, "[RW023] obs: low 1 is not below high 1"),
        (
            {"inputs": (port(low=(0, 0, 0), high=(1, 1, 1)),)},
            "[RW023] obs: the low limit has shape (3,), a row has (4,)"
            "\n  → give one number, or one for each element of a row",
        ),
        (
            {"memory": (memory(initial=((1, 2), (3,))),)},
            "[RW024] h: the initial value has shape None, expected one row (1, 2)",
        ),
        (
            {"memory": (memory(initial=((1, 2, 3),)),)},
            "[RW024] h: the initial value has shape (1, 3), expected one row (1, 2)",
        ),
        (
            {"action": Action(output="act", kind="discrete")},
            "[RW020] the action 'act' is not an output\n  → outputs: actions",
        ),
        (
            {"period_s": math.inf},
            "[RW020] period_s must be positive, got inf"
            "\n  → it is the time between two steps in seconds: 0.02 for 50 Hz",
        ),
        (
            {"decimation": 0},
            "[RW020] decimation must be 1 to 10000, got 0"
            "\n  → it is the number of simulation ticks in one policy step: step_dt / physics_dt",
        ),
    ],
)
def test_broken_rule_is_named(parts: dict[str, Any], expected: str) -> None:
    assert problems(**parts)[0] == expected


def test_text_shows_units_limits_and_period() -> None:
    signature = rw.Signature(inputs=(OBS,), outputs=(OUT,), memory=(memory(),), period_s=0.02)
    text = str(signature)
    assert "input   obs      float32 (batch, 4)" in text
    assert "memory  h        float32 (batch, 2) from 0  h_in → h_out" in text
    assert "0.02" in text
