"""A manifest that is not as it must be is answered with findings: no traceback, no gigabytes."""

from __future__ import annotations

import copy
import json
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import roadworthy as rw
from roadworthy.spec.bundle import Bundle
from roadworthy.spec.json_file import from_json
from roadworthy.spec.limits import JSON_BYTES
from tests import hostile

WRONG: tuple[Any, ...] = (
    None, True, 0, -1, 10**9, 10**30, 1e308, "", "obs", "inf", [], [[]], {}, {"a": {}}, ["x"],
    [None],
)  # fmt: skip


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside."""
    inside = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in inside:
        yield (*path, key)
        if isinstance(value, (dict, list)):
            yield from places(value, (*path, key))


def changed(path: tuple[Any, ...], *value: Any) -> dict[str, Any]:
    """The manifest with one value replaced, or removed where none is given."""
    whole = copy.deepcopy(hostile.manifest())
    at: Any = whole
    for key in path[:-1]:
        at = at[key]
    if value:
        at[path[-1]] = value[0]
    else:
        del at[path[-1]]
    return whole


def named(path: tuple[Any, ...]) -> str:
    return ".".join(map(str, path))


def findings_of(use: Callable[[], object]) -> tuple[rw.Finding, ...] | None:
    """What an attempt was answered with; None where it went well. Any other error is raised."""
    try:
        use()
    except rw.RoadworthyError as error:
        return error.findings
    return None


def read(folder: Path) -> None:
    bundle = Bundle.open(folder)
    assert bundle.signature.inputs
    assert bundle.targets
    assert bundle.sampling is not None


def memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@pytest.mark.parametrize("path", list(places(hostile.manifest())), ids=named)
def test_every_value_missing_or_wrong_is_read_or_answered_with_findings(
    tmp_path: Path, path: tuple[Any, ...]
) -> None:
    before = memory_mb()
    raw = []
    for value in [(), *((each,) for each in WRONG)]:
        text = json.dumps(changed(path, *value)).encode()
        folder = hostile.sealed(tmp_path / "bundle", {"manifest.json": text})
        try:
            found = findings_of(lambda folder=folder: read(folder))
        except Exception as error:
            raw.append((value, f"{type(error).__name__}: {error}"))
        else:
            assert found is None or (found and all(finding.what for finding in found))
    assert raw == []
    assert memory_mb() - before < 100


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("signature", "memory", 0, "shape"), ["batch", 7]),
        (("signature", "memory", 0, "initial"), [[1.0, 2.0, 3.0]]),
        (("signature", "memory", 0, "dtype"), "int8"),
        (("signature", "inputs", 0, "shape"), ["batch", 2, 2]),
        (("signature", "inputs", 0, "shape"), ["rows", 3]),
        (("signature", "inputs", 0, "name"), "other"),
        (("signature", "outputs", 0, "dtype"), "float64"),
        (("signature", "decimation"), 4),
        (("signature", "clock"), "tick"),
        (("sampling", "typical"), {"nobody": {"mean": 0.0, "spread": 1.0}}),
        (("sampling", "typical", "obs", "mean"), [1.0, 2.0]),
        (("sampling", "horizon"), 10**12),
        (("targets",), {"nobody": ["policy.onnx"]}),
        (("targets",), {"onnx": ["trace.npz"]}),
    ],
    ids=str,
)
def test_manifest_that_speaks_of_another_policy_is_answered_with_findings(
    tmp_path: Path, path: tuple[Any, ...], value: Any
) -> None:
    text = json.dumps(changed(path, value)).encode()
    folder = hostile.sealed(tmp_path / "bundle", {"manifest.json": text})
    obs = np.zeros(hostile.WIDTH, np.float32)
    assert findings_of(lambda: rw.load(folder, canary=False).act(obs)) != ()
    assert findings_of(lambda: rw.verify(folder, canary=False)) != ()


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("signature", "decimation"), 10**9, "decimation must be 1 to 10000, got 1000000000"),
        (("signature", "decimation"), 1.5, "signature.decimation: expected a whole number"),
        (("signature", "inputs", 0, "shape"), "batch", "inputs[0].shape: expected a list, got 'b"),
        (("signature", "inputs", 0, "shape"), ["batch", 10**12], "a row has 3725 GiB"),
        (("signature", "period_s"), True, "period_s: expected null or a number, got True"),
        (("signature", "action"), {"kind": 3}, "action.output: expected text, got nothing"),
        (("targets",), ["onnx"], "targets: expected an object, got a list"),
        (("provenance", "torch"), 2, "provenance.torch: expected text, got 2"),
    ],
)  # fmt: skip
def test_finding_names_the_place_and_both_sides(
    tmp_path: Path, path: tuple[Any, ...], value: Any, said: str
) -> None:
    text = json.dumps(changed(path, value)).encode()
    folder = hostile.sealed(tmp_path / "bundle", {"manifest.json": text})
    for use in (rw.load, rw.verify, Bundle.open):
        with pytest.raises(rw.BundleError) as caught:
            use(folder)
        assert said in str(caught.value)


TEXTS = {
    "empty": b"",
    "no JSON": b"{",
    "no text": b"\xff\xfe",
    "a list": b"[]",
    "a number": b"7",
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "deep inside": json.dumps(hostile.manifest()).encode()[:-1]
    + b', "more": ' + b"[" * 200 + b"]" * 200 + b"}",
    "NaN": b'{"format": NaN}',
    "infinity": b'{"format": Infinity}',
    "long number": b'{"format": ' + b"1" * 10_000 + b"}",
}  # fmt: skip


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("name", ["manifest.json", "certificate.json"])
def test_text_that_is_no_manifest_is_refused(tmp_path: Path, kind: str, name: str) -> None:
    folder = hostile.sealed(tmp_path / "bundle", {name: TEXTS[kind]})
    with pytest.raises(rw.BundleError) as caught:
        rw.Certificate.from_bytes(Bundle.open(folder).files["certificate.json"])
    assert caught.value.findings[0].code in ("RW200", "RW205")


def test_json_beyond_its_limit_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json, "loads", lambda *_, **__: pytest.fail("it was parsed"))
    with pytest.raises(rw.BundleError, match="at most 64 MiB is read") as caught:
        from_json(bytes(JSON_BYTES + 1), where="manifest.json")
    assert caught.value.findings[0].code == "RW204"


@pytest.mark.parametrize("key", ["checks", "seed", "findings", "version", "passed"])
def test_certificate_without_an_entry_is_read_or_refused(key: str) -> None:
    whole = json.loads(hostile.files()["certificate.json"])
    for value in WRONG:
        data = json.dumps(whole | {key: value}).encode()
        assert findings_of(lambda data=data: rw.Certificate.from_bytes(data)) != ()
    lacking = json.dumps({name: each for name, each in whole.items() if name != key}).encode()
    if key != "passed":  # which is worked out
        with pytest.raises(rw.BundleError):
            rw.Certificate.from_bytes(lacking)
