"""The ticks between decisions, taken out of the file: the same bits, and nothing besides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import roadworthy as rw
from roadworthy import export_environment
from roadworthy.runtime.between import between
from roadworthy.runtime.engine import OnnxEngine
from roadworthy.spec.bundle import POLICY
from roadworthy.spec.port import Array
from tests.environment.environments import ENVIRONMENTS

TICKING = {
    # Reads the target that was handed over, and hands both memories on.
    "pd_four_ticks": ({"q", "v", "memory.target.in"}, {"torque"}, {"actions", "obs"}),
    # Writes two memories at every tick.
    "ring": (
        {"memory.pointer.in", "memory.phase.in", "memory.env.target.in"},
        {"target", "memory.phase.out", "memory.env.target.out"},
        {"actions", "obs"},
    ),
    # Any number of rows: the zeros for actions are as many as come.
    "four_robots": (
        {"q", "v", "memory.last.in", "memory.target.in"},
        {"actions", "obs", "torque"},
        set(),
    ),
}


class ByTheFile:
    """The whole file in plain onnxruntime, memory and step count kept by hand."""

    def __init__(self, folder: Path) -> None:
        bundle = rw.Bundle.open(folder)
        self.signature = bundle.signature
        self.session = onnxruntime.InferenceSession(
            bundle.files[POLICY], providers=["CPUExecutionProvider"]
        )
        self.names = [port.name for port in self.session.get_outputs()]
        self.reset()

    def reset(self) -> None:
        self.memory = {m.input: m.fresh(ROWS) for m in self.signature.memory}
        self.tick = 0

    def step(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        clock = {"ctx.step_count": np.asarray(self.tick, np.int32)}
        given = self.session.run(None, {**inputs, **self.memory, **clock})
        got = dict(zip(self.names, given, strict=True))
        self.memory = {m.input: got[m.output] for m in self.signature.memory}
        self.tick += 1
        return got


ROWS = 1


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folders: dict[str, Path] = {}

    def folder(style: str) -> Path:
        if style not in folders:
            folders[style] = tmp_path_factory.mktemp(style) / "bundle"
            export_environment(*ENVIRONMENTS[style](), folders[style])
        return folders[style]

    return folder


@pytest.mark.parametrize("style", ["pd_four_ticks", pytest.param("ring", marks=pytest.mark.slow)])
def test_a_policy_gives_the_bits_of_the_whole_file(
    style: str, exported: Callable[[str], Path]
) -> None:
    policy, whole = rw.load(exported(style)), ByTheFile(exported(style))
    rng = np.random.default_rng(0)
    for step in range(23):
        if step == 14:  # in the middle of a decision's ticks
            policy.reset()
            whole.reset()
        inputs = {
            port.name: rng.standard_normal([int(d) for d in port.shape]).astype(port.dtype)
            for port in policy.signature.inputs
        }
        got, expected = policy.step(inputs), whole.step(inputs)
        for name, value in got.items():
            assert value.tobytes() == expected[name].tobytes(), (step, name)
        for memory in policy.signature.memory:
            assert policy.memory[memory.name].tobytes() == whole.memory[memory.input].tobytes()


@pytest.mark.parametrize(
    "style", [pytest.param(s, marks=() if s[0] == "p" else pytest.mark.slow) for s in TICKING]
)
def test_a_tick_reads_and_writes_what_it_touches_alone(
    style: str, exported: Callable[[str], Path]
) -> None:
    bundle = rw.Bundle.open(exported(style))
    found = between(bundle.files[POLICY], bundle.signature)
    assert found is not None
    assert (set(found.inputs), set(found.outputs), set(found.constant)) == TICKING[style]
    session = OnnxEngine(found.model).session
    assert {port.name for port in session.get_inputs()} == set(found.inputs)
    assert [port.name for port in session.get_outputs()] == list(found.outputs.values())


def test_what_a_tick_gives_is_the_callers_own(exported: Callable[[str], Path]) -> None:
    policy = rw.load(exported("pd_four_ticks"))
    inputs = {name: np.ones((1, 2), np.float32) for name in ("q", "v")}
    policy.step(inputs)
    one = policy.step(inputs)
    kept = {name: value.copy() for name, value in one.items()}
    for value in policy.step({name: 2 * value for name, value in inputs.items()}).values():
        value += 7.0
    for name, value in one.items():
        np.testing.assert_array_equal(value, kept[name])
    assert not policy.step(inputs)["obs"].any()


def test_a_file_of_another_form_is_run_as_it_is(exported: Callable[[str], Path]) -> None:
    bundle = rw.Bundle.open(exported("pd_four_ticks"))
    assert between(b"no model", bundle.signature) is None
    assert between(bundle.files[POLICY][:-40], bundle.signature) is None
