"""The flight recorder: what it keeps, what a step costs it, and what is left when a flight ends."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import roadworthy as rw
from roadworthy.runtime.flight_rings import Rings
from roadworthy.spec.samples import draw
from tests.conftest import Exported

Once = Callable[[str], Exported]


def flown(
    folder: Path, place: Path, *, steps: int = 30, rows: int = 1, keep: int | None = None
) -> Path:
    """The file of a flight with a reset in its middle."""
    with rw.FlightRecorder(rw.load(folder, seed=3), place, steps=keep, memory_every=7) as policy:
        drawn = draw(policy.signature, np.random.default_rng(0), steps=steps, rows=rows)
        observed = {port.name: drawn[port.name] for port in policy.signature.observed}
        for step in range(steps):
            if step == steps // 2:
                policy.reset()
            policy.step({name: values[step] for name, values in observed.items()})
    return place


@pytest.mark.parametrize("name", ["mlp", "lstm", "squashed_gaussian", "integer_clock"])
def test_record_is_what_went_in_and_came_out(name: str, export_once: Once, tmp_path: Path) -> None:
    bundle = export_once(name).bundle
    record = rw.FlightRecord.open(flown(bundle.folder, tmp_path / "flight.npz", rows=2))
    assert (record.steps, record.rows, record.first) == (30, 2, 0)
    assert record.origin == bundle.origin
    assert record.signature == bundle.signature
    policy = rw.load(bundle.folder)
    for step in range(30):
        if record.resets[step].any():
            assert record.resets[step].all()
            policy.reset()
        outputs = policy.step({port: values[step] for port, values in record.inputs.items()})
        for port, values in outputs.items():
            assert record.outputs[port][step].tobytes() == values.tobytes()
    assert record.resets[15].all()
    assert (record.took_ns > 0).all()
    assert (np.diff(record.start_ns) > 0).all()


def test_outputs_are_those_of_the_policy_inside(export_once: Once, tmp_path: Path) -> None:
    folder = export_once("lstm").folder
    policy = rw.load(folder)
    recorder = rw.FlightRecorder(rw.load(folder), tmp_path / "flight.npz")
    obs = {"obs": np.ones((1, *policy.signature.inputs[0].shape[1:]), np.float32)}
    one, other = policy.step(obs), recorder.step(obs)
    assert all(one[port].tobytes() == other[port].tobytes() for port in one)
    assert isinstance(recorder, rw.PolicyLike)


def test_last_steps_are_kept_and_memory_with_them(export_once: Once, tmp_path: Path) -> None:
    folder = export_once("lstm").folder
    place = flown(folder, tmp_path / "f.npz", steps=100, keep=20)
    record = rw.FlightRecord.open(place)
    whole = rw.FlightRecord.open(flown(folder, tmp_path / "whole.npz", steps=100))
    assert (record.steps, record.first) == (20, 80)
    for port, values in record.inputs.items():
        assert values.tobytes() == whole.inputs[port][80:].tobytes()
    assert len(record.frames) == 3
    assert (np.diff(record.frames) == 7).all()
    assert all(len(values) == 3 for values in record.memory.values())


def test_rings_do_not_grow(
    export_once: Once, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roadworthy.runtime.flight_rings.USUAL_BYTES", 20_000)
    place = flown(export_once("mlp").folder, tmp_path / "f.npz", steps=500)
    record = rw.FlightRecord.open(place)
    kept = sum(each.nbytes for each in (*record.inputs.values(), *record.outputs.values()))
    assert record.first > 0
    assert kept < 20_000
    assert record.first + record.steps == 500


def test_rows_that_were_reset_are_marked(export_once: Once, tmp_path: Path) -> None:
    with rw.FlightRecorder(rw.load(export_once("lstm").folder), tmp_path / "f.npz") as policy:
        drawn = draw(policy.signature, np.random.default_rng(0), steps=3, rows=2)
        for step in range(3):
            if step == 2:
                policy.reset(np.asarray([True, False]))
                policy.reset(np.asarray([True, False]))
            policy.step({port: values[step] for port, values in drawn.items()})
        record = policy.record()
    assert record.resets.tolist() == [[True, True], [False, False], [True, False]]


def test_single_rows_may_come_without_their_axis(export_once: Once, tmp_path: Path) -> None:
    with rw.FlightRecorder(rw.load(export_once("mlp").folder), tmp_path / "f.npz") as policy:
        size = policy.signature.inputs[0].shape[1]
        assert isinstance(size, int)
        name = policy.signature.inputs[0].name
        for value in (np.zeros(size, np.float32), np.ones((1, size), np.float32)):
            policy.step({name: value})
        with pytest.warns(UserWarning, match="rounded"):
            policy.step({name: [2.0] * size})
        record = policy.record()
    assert record.inputs[name][:, 0, 0].tolist() == [0, 1, 2]


def test_other_number_of_rows_is_refused(export_once: Once, tmp_path: Path) -> None:
    policy = rw.FlightRecorder(rw.load(export_once("mlp").folder), tmp_path / "f.npz")
    size, name = policy.signature.inputs[0].shape[1], policy.signature.inputs[0].name
    policy.step({name: np.zeros((2, size), np.float32)})
    with pytest.raises(rw.UsageError, match="one recorder for each number of rows"):
        policy.step({name: np.zeros((1, size), np.float32)})
    assert policy.recorded == 1


ENDS = """
import os, signal, sys
import numpy as np
import roadworthy as rw

end = sys.argv[3]
signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it may be ignored
policy = rw.FlightRecorder(rw.load(sys.argv[1]), sys.argv[2])
obs = {{policy.signature.inputs[0].name: np.zeros((1, {size}), np.float32)}}
if end == "exit":
    for _ in range(7):
        policy.step(obs)
    sys.exit(0)
with policy:
    for step in range(1000):
        policy.step(obs)
        if step == 6 and end == "interrupt":
            os.kill(os.getpid(), signal.SIGINT)
        if step == 6 and end == "error":
            raise RuntimeError("a motor is gone")
        if step == 6 and end == "kill":
            policy.save()
        if step == 9 and end == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("end", ["exit", "interrupt", "error", "kill"])
def test_however_a_flight_ends_its_file_is_whole(
    end: str, export_once: Once, tmp_path: Path
) -> None:
    bundle = export_once("mlp").bundle
    script = ENDS.format(size=bundle.signature.inputs[0].shape[1])
    place = tmp_path / "flight.npz"
    run = subprocess.run(
        [sys.executable, "-c", script, str(bundle.folder), str(place), end], capture_output=True
    )
    assert (run.returncode == 0) == (end == "exit"), run.stderr
    assert rw.FlightRecord.open(place).steps in (7, 8)  # Python looks for signals now and then
    assert [each.name for each in tmp_path.iterdir()] == ["flight.npz"]


def test_step_that_is_interrupted_halfway_is_not_in_the_record(
    export_once: Once, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what the policy remembers by then is looked at before the next one."""
    policy = rw.FlightRecorder(rw.load(export_once("lstm").folder), tmp_path / "f.npz", steps=4)
    drawn = draw(policy.signature, np.random.default_rng(0), steps=12, rows=1)
    inputs = [{port: values[step] for port, values in drawn.items()} for step in range(12)]
    for step in range(9):
        policy.step(inputs[step])
    before = policy.record()

    def interrupted(rings: Rings, *step: object) -> None:
        for ring in rings.inputs:
            ring.whole[step[0] % rings.slots] = 7  # type: ignore[operator]
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Rings, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            policy.step(inputs[9])
    after = policy.record()
    assert all(after.inputs[p].tobytes() == before.inputs[p].tobytes() for p in before.inputs)
    policy.step(inputs[10])
    assert policy.record().frames[-1] == 3
    policy.close()


def test_full_disk_is_an_error_and_leaves_the_old_file(
    export_once: Once, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = flown(export_once("mlp").folder, tmp_path / "flight.npz")
    old = place.read_bytes()

    def full(file: object, **arrays: object) -> None:
        raise OSError(28, "No space left on device")

    recorder = rw.FlightRecorder(rw.load(export_once("mlp").folder), place, replace=True)
    name = recorder.signature.inputs[0].name
    recorder.step({name: np.zeros((1, recorder.signature.inputs[0].shape[1]), np.float32)})
    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", full)
        with pytest.raises(rw.BundleError, match="No space left on device"):
            recorder.save()
    assert place.read_bytes() == old
    assert [each.name for each in tmp_path.iterdir()] == ["flight.npz"]
    recorder.close()
    assert rw.FlightRecord.open(place).steps == 1


def test_mistakes_are_answered_before_the_flight(export_once: Once, tmp_path: Path) -> None:
    policy = rw.load(export_once("mlp").folder)
    flown(export_once("mlp").folder, tmp_path / "flight.npz")
    with pytest.raises(rw.UsageError, match="is there already"):
        rw.FlightRecorder(policy, tmp_path / "flight.npz")
    with pytest.raises(rw.UsageError, match="there is no folder"):
        rw.FlightRecorder(policy, tmp_path / "none" / "flight.npz")
    with pytest.raises(rw.UsageError, match=r"does not end in \.npz"):
        rw.FlightRecorder(policy, tmp_path / "flight.bin")
    with pytest.raises(rw.UsageError, match="expected a whole number"):
        rw.FlightRecorder(policy, tmp_path / "f.npz", steps=0)
    with pytest.raises(rw.UsageError, match="around the policy itself"):
        rw.FlightRecorder(rw.PolicyWrapper(policy), tmp_path / "f.npz")  # type: ignore[arg-type]
    recorder = rw.FlightRecorder(policy, tmp_path / "f.npz")
    with pytest.raises(rw.UsageError, match="cannot be copied"):
        copy.copy(recorder)
    with pytest.raises(rw.UsageError, match="no step was recorded"):
        recorder.save()
    recorder.close()
    assert not (tmp_path / "f.npz").exists()
