"""Flights: read as if a stranger had written them, repeated by their bundle, and drawn."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import roadworthy as rw
from roadworthy.show.charts import thinned
from roadworthy.show.flight import excursions, repeated, timing
from roadworthy.spec.samples import draw_ordinary
from tests.cli.conftest import roadworthy
from tests.conftest import Exported

Once = Callable[[str], Exported]


def flight(folder: Path, place: Path, *, steps: int = 60, rows: int = 1, keep: int = 1000) -> Path:
    with rw.FlightRecorder(
        rw.load(folder, seed=3), place, steps=keep, memory_every=7, replace=True
    ) as policy:
        drawn = draw_ordinary(policy.signature, np.random.default_rng(0), steps=steps, rows=rows)
        for step in range(steps):
            if step == 40:
                policy.reset()
            policy.step({p.name: drawn[p.name][step] for p in policy.signature.observed})
    return place


def written(record: rw.FlightRecord) -> bytes:
    buffer = io.BytesIO()
    record.write(buffer)
    return buffer.getvalue()


def words(place: Path) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", place.read_text().partition("<body>")[2]))


@pytest.mark.parametrize("keep", [1000, 25], ids=["whole", "ring"])
@pytest.mark.parametrize("name", ["mlp", "lstm", "integer_clock", "squashed_gaussian"])
def test_bundle_repeats_its_flight(name: str, keep: int, export_once: Once, tmp_path: Path) -> None:
    """Also from the middle, where what is remembered there was looked at."""
    folder = export_once(name).folder
    place = flight(folder, tmp_path / "flight.npz", rows=2, keep=keep)
    repeat = repeated(rw.load(folder), rw.FlightRecord.open(place))
    assert repeat is not None
    assert repeat.start < 8
    assert not repeat.departures
    assert max(gap.max() for gap in repeat.gaps.values()) == 0.0


@pytest.mark.slow
def test_two_rates_are_repeated_from_the_middle_of_a_decision(
    export_environment_once: Callable[[str], object], tmp_path: Path
) -> None:
    folder = export_environment_once("pd_four_ticks").bundle.folder  # type: ignore[attr-defined]
    record = rw.FlightRecord.open(flight(folder, tmp_path / "flight.npz", keep=25))
    assert record.ticks[0] > 0
    repeat = repeated(rw.load(folder), record)
    assert repeat is not None
    assert not repeat.departures


def test_flight_that_is_not_repeated_fails_with_its_step(export_once: Once, tmp_path: Path) -> None:
    folder = export_once("lstm").folder
    record = rw.FlightRecord.open(flight(folder, tmp_path / "flight.npz"))
    port = record.signature.outputs[0].name
    changed = {name: values.copy() for name, values in record.outputs.items()}
    changed[port][17] += 0.01
    page = rw.report(replace(record, outputs=changed), tmp_path / "f.html", bundle=folder)
    assert 'class="verdict failed"' in page.read_text()
    assert f"{port} is out of tolerance for the first time at step 17" in words(page)


def test_memory_set_from_outside_is_no_departure(export_once: Once, tmp_path: Path) -> None:
    folder = export_once("lstm").folder
    with rw.FlightRecorder(rw.load(folder), tmp_path / "flight.npz") as policy:
        drawn = draw_ordinary(policy.signature, np.random.default_rng(0), steps=20, rows=1)
        inputs = [{port: values[step] for port, values in drawn.items()} for step in range(20)]
        kept = None
        for step in range(20):
            if step == 5:
                kept = policy.state()
            if step == 11 and kept is not None:
                policy.restore(kept)
            if step == 15:
                policy.set_memory({name: 0 * value for name, value in policy.memory.items()})
            policy.step(inputs[step])
    record = rw.FlightRecord.open(tmp_path / "flight.npz")
    assert record.frames.tolist() == [11, 15]
    repeat = repeated(rw.load(folder), record)
    assert repeat is not None
    assert (repeat.start, repeat.steps, repeat.departures) == (0, 20, {})


@pytest.fixture(scope="module")
def walker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with limits and a period."""
    folder = tmp_path_factory.mktemp("flights") / "walker"
    torch.manual_seed(0)
    about = rw.About(elements=("hip", "knee"), unit="rad", low=-1.0, high=(1.0, 2.0))
    source = rw.Source(
        torch.nn.Linear(2, 1), example={"joints": torch.zeros(1, 2)}, about={"joints": about},
        period_s=0.02,
    )  # fmt: skip
    rw.export(source, folder)
    return folder


def hand_made(
    folder: Path, place: Path, values: np.ndarray[tuple[int, ...], np.dtype[np.float32]]
) -> rw.FlightRecord:
    with rw.FlightRecorder(rw.load(folder), place, replace=True) as policy:
        for value in values:
            policy.step({"joints": value})
    record = rw.FlightRecord.open(place)
    start = np.arange(len(values), dtype=np.int64) * 20_000_000
    return replace(record, start_ns=start, took_ns=np.full(len(values), 9_000, np.int64))


def test_what_left_its_range_was_no_number_or_came_late_is_said(
    walker: Path, tmp_path: Path
) -> None:
    values = np.zeros((50, 2), np.float32)
    values[:, 0] = 1.0  # at its limit, and not beyond
    values[30:33, 1] = 2.5
    values[40, 0] = np.nan
    record = hand_made(walker, tmp_path / "flight.npz", values)
    start = record.start_ns.copy()
    start[20:] += 15_000_000
    record = replace(record, start_ns=start)
    (found,) = excursions(record)
    assert (found.name, found.steps, found.first, found.most) == ("joints.knee", 3, 30, 2.5)
    assert timing(record).late.tolist() == [20]
    page = rw.report(record, tmp_path / "f.html", bundle=walker)
    assert ">look closer<" in page.read_text()
    said = words(page)
    assert "joints.knee in 3 steps; first at 30" in said
    assert "joints in 1 step, first at 40" in said
    assert "1 step began more than 1.5 periods of 0.02 s after the one before" in said
    assert "Not so: Every value is a number; Inputs stay within their declared limits" in said
    assert "50 steps repeated" in said


def test_calm_flight_passes_and_draws_everything(walker: Path, tmp_path: Path) -> None:
    record = hand_made(walker, tmp_path / "flight.npz", np.zeros((50, 2), np.float32))
    page = rw.report(record, tmp_path / "f.html", bundle=walker)
    said = words(page)
    assert "50 steps repeated, to the last bit" in said
    assert "Not so" not in said
    for section in ("checks", "inputs", "outputs", "latency", "ports", "provenance"):
        assert f'id="{section}"' in page.read_text()
    assert "left at" not in said


def test_without_its_bundle_a_flight_is_drawn_and_not_judged(walker: Path, tmp_path: Path) -> None:
    hand_made(walker, tmp_path / "flight.npz", np.zeros((50, 2), np.float32))
    text = rw.report(tmp_path / "flight.npz", tmp_path / "f.html").read_text()
    assert ">not compared<" in text


def test_command_line_writes_the_report_of_a_flight(walker: Path, tmp_path: Path) -> None:
    hand_made(walker, tmp_path / "flight.npz", np.zeros((50, 2), np.float32))
    words = ("report", "flight.npz", "--bundle", str(walker), "-o", "f.html")
    assert roadworthy(*words, cwd=tmp_path).code == 0
    assert 'class="verdict passed"' in (tmp_path / "f.html").read_text()


def test_flight_of_another_policy_is_refused(
    export_once: Once, walker: Path, tmp_path: Path
) -> None:
    record = rw.FlightRecord.open(flight(export_once("mlp").folder, tmp_path / "flight.npz"))
    with pytest.raises(rw.BundleError, match=r"RW351.*has other ports"):
        rw.report(record, tmp_path / "f.html", bundle=walker)
    torch.manual_seed(1)
    torch.nn.init.normal_((other := torch.nn.Linear(2, 1)).weight)
    manifest = rw.Bundle.open(walker)
    about = {"joints": manifest.signature.inputs[0].about}
    source = rw.Source(other, example={"joints": torch.zeros(1, 2)}, about=about, period_s=0.02)
    rw.export(source, tmp_path / "other")
    record = hand_made(walker, tmp_path / "mine.npz", np.zeros((5, 2), np.float32))
    with pytest.raises(rw.BundleError, match="has the same ports, but is another policy"):
        rw.report(record, tmp_path / "f.html", bundle=tmp_path / "other")
    assert not (tmp_path / "f.html").exists()


def test_what_a_flight_has_no_use_for_is_refused(walker: Path, tmp_path: Path) -> None:
    record = hand_made(walker, tmp_path / "flight.npz", np.zeros((5, 2), np.float32))
    with pytest.raises(rw.UsageError, match="neither played nor certified"):
        rw.report(record, tmp_path / "f.html", env="CartPole-v1")
    with pytest.raises(rw.UsageError, match="this is no flight"):
        rw.report(walker, tmp_path / "f.html", bundle=walker)


def test_files_that_are_no_flight_are_refused(walker: Path, tmp_path: Path) -> None:
    place = tmp_path / "flight.npz"
    whole = written(hand_made(walker, place, np.zeros((50, 2), np.float32)))
    for data, said in (
        (b"", "no flight record"),
        (b"hello", "no flight record"),
        (whole[: len(whole) // 2], "cut short"),
        (whole[:-30], "cut short"),
        (whole[:2000] + b"\1" + whole[2001:], "cut short|no flight record"),
    ):
        place.write_bytes(data)
        with pytest.raises(rw.BundleError, match=rf"RW350.*({said})"):
            rw.report(place, tmp_path / "f.html")
    with pytest.raises(rw.BundleError, match="does not exist"):
        rw.FlightRecord.open(tmp_path / "fligt.npz")
    with pytest.raises(rw.BundleError, match="RW350"):
        rw.report(walker / "trace.npz", tmp_path / "f.html")
    with pytest.raises(rw.BundleError, match="RW350"):
        rw.report(walker / "policy.onnx", tmp_path / "f.html")


def test_pickle_and_what_unpacks_to_too_much_are_refused(
    walker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = hand_made(walker, tmp_path / "flight.npz", np.zeros((5, 2), np.float32))
    buffer = io.BytesIO()
    np.savez(buffer, header=np.asarray([{"an": "object"}], dtype=object))
    with pytest.raises(rw.BundleError, match="RW350"):
        rw.FlightRecord.from_bytes(buffer.getvalue())
    with monkeypatch.context() as patch:
        patch.setattr("roadworthy.spec.trace.TRACE_BYTES", 500)
        with pytest.raises(rw.BundleError, match=r"RW204.*it unpacks to"):
            rw.FlightRecord.from_bytes(written(record))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("resets", np.zeros((0, 1), bool)),
        ("resets", np.zeros(5)),
        ("start_ns", np.zeros(4, np.int64)),
        ("took_ns", np.zeros(5)),
        ("frames", np.asarray([9], np.int64)),
        ("frames", np.asarray([-1], np.int64)),
        ("inputs", {}),
        ("inputs", {"joints": np.zeros((5, 1, 3), np.float32)}),
        ("outputs", {"action": np.zeros((5, 1, 1), np.float64)}),
        ("first", -1),
    ],
)
def test_record_that_lacks_something_is_refused(
    walker: Path, tmp_path: Path, name: str, value: object
) -> None:
    record = hand_made(walker, tmp_path / "flight.npz", np.zeros((5, 2), np.float32))
    changed = {name: value} | ({"ticks": np.zeros(1, np.int64)} if name == "frames" else {})
    with pytest.raises(rw.BundleError, match="RW350"):
        rw.FlightRecord.from_bytes(written(replace(record, **changed)))  # type: ignore[arg-type]


def test_header_is_held_to_its_form(walker: Path, tmp_path: Path) -> None:
    data = written(hand_made(walker, tmp_path / "flight.npz", np.zeros((5, 2), np.float32)))
    with np.load(io.BytesIO(data)) as opened:
        arrays = dict(opened)
    header = json.loads(arrays["header"].tobytes())
    for changed in ({"version": 2}, {"first": "1"}, {"signature": {}}, {"format": 3}):
        text = json.dumps(header | changed).encode()
        buffer = io.BytesIO()
        np.savez(buffer, **(arrays | {"header": np.frombuffer(text, np.uint8)}))
        with pytest.raises(rw.BundleError, match=r"RW350|RW205"):
            rw.FlightRecord.from_bytes(buffer.getvalue())


def test_names_from_a_file_stay_text(tmp_path: Path) -> None:
    attack = "<img src=x onerror=alert(1)>"
    source = rw.Source(torch.nn.Linear(2, 1), example={attack: torch.zeros(1, 2)})
    rw.export(source, tmp_path / "odd")
    with rw.FlightRecorder(rw.load(tmp_path / "odd"), tmp_path / "flight.npz") as policy:
        policy.step({attack: np.zeros((1, 2), np.float32)})
    page = rw.report(tmp_path / "flight.npz", tmp_path / "f.html", bundle=tmp_path / "odd")
    assert attack not in page.read_text()


def test_no_peak_is_lost_where_points_are_too_many() -> None:
    values = np.sin(np.arange(100_000) / 500)
    values[77_777], values[12_345] = 9.0, -9.0
    drawn, every = thinned(values, 700)
    assert len(drawn) <= 702
    assert (drawn.max(), drawn.min()) == (9.0, -9.0)
    assert abs(np.argmax(drawn) * every - 77_777) <= 2 * every
    same, once = thinned(values[:500], 700)
    assert once == 1
    assert same.tobytes() == values[:500].tobytes()


def test_zip_of_a_flight_has_nothing_but_arrays(walker: Path, tmp_path: Path) -> None:
    hand_made(walker, tmp_path / "flight.npz", np.zeros((5, 2), np.float32))
    with zipfile.ZipFile(tmp_path / "flight.npz") as opened:
        assert all(each.endswith(".npy") for each in opened.namelist())
    with np.load(tmp_path / "flight.npz", allow_pickle=False) as arrays:
        assert arrays["in:joints"].shape == (5, 1, 2)
