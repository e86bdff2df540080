"""The trace: every value comes back, bytes depend on values alone, equal rows are stored once."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pytest

from roadworthy.errors import BundleError
from roadworthy.spec.trace import Trace
from tests.conftest import Exported


def trace(seed: int = 0) -> Trace:
    rng = np.random.default_rng(seed)
    pool = rng.integers(0, 256, (3, 20, 20, 4), dtype=np.uint8)
    odd = rng.standard_normal((30, 2, 5)).astype(np.float32)
    odd[3, 1] = (np.nan, np.inf, -np.inf, -0.0, 0.0)
    resets = rng.random((30, 2)) < 0.1
    return Trace(
        inputs={"pixels": pool[rng.integers(0, 3, (30, 2))], "joint pos:x": odd},
        outputs={"a.rows": rng.random((30, 2)) < 0.5, "order/b": rng.integers(0, 9, (30, 2, 1))},
        resets=resets,
    )


def test_every_value_comes_back_bit_for_bit() -> None:
    one = trace()
    back = Trace.from_bytes(one.to_bytes())
    for side in ("inputs", "outputs"):
        before, after = getattr(one, side), getattr(back, side)
        assert list(after) == list(before)
        for name, value in before.items():
            assert after[name].dtype == value.dtype
            assert after[name].shape == value.shape
            assert after[name].tobytes() == value.tobytes()
    assert np.array_equal(back.resets, one.resets)
    assert (back.steps, back.rows, back.episodes) == (30, 2, int(one.resets.sum()))


def test_trace_of_every_policy_comes_back(exported: Exported) -> None:
    data = exported.bundle.files["trace.npz"]
    assert Trace.from_bytes(data).to_bytes() == data


def test_bytes_depend_on_the_values_alone() -> None:
    assert trace().to_bytes() == trace().to_bytes()
    assert trace(1).to_bytes() != trace(2).to_bytes()


def test_equal_rows_are_stored_once() -> None:
    with np.load(io.BytesIO(trace().to_bytes())) as stored:
        assert stored["in.rows:pixels"].shape == (3, 20, 20, 4)
        assert stored["in.order:pixels"].shape == (30, 2)
        assert stored["in:joint pos:x"].shape == (30, 2, 5)


def test_trace_of_images_stays_small(export_once: Callable[[str], Exported]) -> None:
    exported = export_once("cnn")
    whole = Trace.from_bytes(exported.bundle.files["trace.npz"]).inputs["pixels"].nbytes
    assert len(exported.bundle.files["trace.npz"]) < whole / 20


@pytest.mark.parametrize("kind", ["empty", "text", "half a zip", "cut", "no resets", "no order"])
def test_what_is_no_trace_is_refused(kind: str) -> None:
    whole = trace().to_bytes()
    lacking = io.BytesIO()
    kept = {"resets": np.ones((1, 1), bool)} if kind == "no order" else {}
    np.savez(lacking, **kept, **{"in.rows:obs" if kept else "in:obs": np.zeros((1, 1, 2))})
    data = {
        "empty": b"",
        "text": b"junk",
        "half a zip": b"PK\x03\x04junk",
        "cut": whole[:-40],
    }.get(kind, lacking.getvalue())
    with pytest.raises(BundleError) as caught:
        Trace.from_bytes(data)
    assert str(caught.value) == "[RW200] trace.npz cannot be read\n  → export the bundle again"
