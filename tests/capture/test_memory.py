"""Declared memory: where it starts, and what is said when the declaration does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import roadworthy as rw
from roadworthy.errors import CertificateFailed
from tests.capture import refused
from tests.capture.conftest import Refuse

OBS = {"obs": torch.zeros(1, 4)}
H = torch.zeros(1, 4)


def used() -> refused.HiddenAttribute:
    """A module that has been stepped: its attribute holds values."""
    module = refused.HiddenAttribute()
    module.hidden = torch.full((1, 4), 0.25)
    return module


REFUSED: dict[str, tuple[Any, Any, str]] = {
    "no argument": (
        refused.Recurrent, {"hh": H},
        "[RW001] Recurrent: memory 'hh' is not an argument of forward(obs, h)\n  → name an "
        "argument of forward, or the attribute that holds the state: memory={'hh': 'hidden'}",
    ),
    "no attribute": (
        refused.HiddenAttribute, {"h": "hiden"},
        "[RW001] memory: HiddenAttribute has no attribute 'hiden'\n  → did you mean 'hidden'?",
    ),
    "no attribute inside": (
        refused.HiddenInside, {"h": "encoder.hiden"},
        "[RW001] memory: HiddenInside has no attribute 'encoder.hiden'"
        "\n  → did you mean 'hidden'?",
    ),
    "not returned": (
        refused.Forgets, {"h": H},
        "[RW100] memory: forward returns 1 values, expected the outputs and then 1 memory "
        "values\n  → end forward with: return actions, h",
    ),
    "not in the mapping": (
        refused.ForgetsInMapping, {"h": H},
        "[RW100] memory: forward does not return the memory 'h'\n  → return its next value "
        "under that name: {'actions': …, 'h': …}, or say which it is: "
        "memory={'h': rw.Argument(…, returned='hidden')}",
    ),
    "no batch axis": (
        refused.HiddenBuffer, {"trace": "trace"},
        "[RW110] memory: no axis of the memory follows the batch: trace (4,)\n  → reset the "
        "module first, and give the memory one row for each row of the example, or several for "
        "each, one behind the other: batch * agents",
    ),
    "leftovers": (
        used, {"h": "hidden"},
        "[RW114] hidden: the attribute holds values that are not zero: every episode would "
        "start from them\n  → reset the module before the export, or keep them on purpose: "
        "memory={'h': rw.Attribute('hidden', initial='current')}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_memory_that_does_not_fit_is_refused(refuse: Refuse, name: str) -> None:
    make, memory, expected = REFUSED[name]
    assert [str(each) for each in refuse(make(), example=OBS, memory=memory)] == [expected]


def test_rows_that_start_differently_are_named(refuse: Refuse) -> None:
    memory = {"h": torch.tensor([[0.0] * 4, [1.0] * 4])}
    (finding,) = refuse(refused.Recurrent(), example={"obs": torch.zeros(2, 4)}, memory=memory)
    assert finding.what == "the rows of the initial value differ, and every row must start the same"


def test_initial_value_that_is_not_finite_is_named(refuse: Refuse) -> None:
    (finding,) = refuse(refused.Recurrent(), example=OBS, memory={"h": torch.full((1, 4), np.nan)})
    assert finding.code == "RW024"
    assert finding.what == "the initial value of the memory is NaN or infinite"


def test_memory_that_is_an_example_as_well_is_named(refuse: Refuse) -> None:
    (finding,) = refuse(refused.Recurrent(), example={**OBS, "h": H}, memory={"h": H})
    assert "'h'" in finding.what


def test_unknown_parent_of_an_attribute_is_answered_with_the_nearest(refuse: Refuse) -> None:
    (finding,) = refuse(refused.HiddenInside(), example=OBS, memory={"h": "encodr.hidden"})
    assert finding.what == "HiddenInside has no attribute 'encodr.hidden'"
    assert finding.hint == "did you mean 'encoder'?"


def test_unknown_word_for_the_start_is_refused(refuse: Refuse) -> None:
    memory = {"h": rw.Attribute("hidden", initial="curent")}
    (finding,) = refuse(refused.HiddenAttribute(), example=OBS, memory=memory)
    assert "'curent'" in finding.what


def test_attribute_starts_where_it_is_when_the_user_says_so(tmp_path: Path) -> None:
    memory = {"h": rw.Attribute("hidden", initial="current")}
    bundle = rw.export(used(), tmp_path / "bundle", example=OBS, memory=memory)
    assert bundle.signature.memory[0].initial == 0.25
    assert rw.load(tmp_path / "bundle").memory["h"].tolist() == [[0.25] * 4]


@pytest.mark.parametrize("initial", [0.5, torch.tensor([[0.5, 0.5, -1.0, 0.0]])])
def test_attribute_starts_at_the_given_value(tmp_path: Path, initial: Any) -> None:
    memory = {"h": rw.Attribute("hidden", initial=initial)}
    rw.export(used(), tmp_path / "bundle", example=OBS, memory=memory)
    start = np.broadcast_to(np.asarray(initial, np.float32), (1, 4))
    policy = rw.load(tmp_path / "bundle")
    assert np.array_equal(policy.memory["h"], start)
    module = used().eval()
    state = {"net.weight": torch.eye(4), "net.bias": torch.zeros(4)}
    module.load_state_dict(state)
    module.hidden = torch.from_numpy(start.copy())
    rw.export(module, tmp_path / "eye", example=OBS, memory=memory)
    got = rw.load(tmp_path / "eye").act(np.full(4, 0.1, np.float32))
    assert np.allclose(got, np.tanh(start[0] + 0.1), atol=1e-6)


def test_start_that_the_module_does_not_use_fails_the_certificate(tmp_path: Path) -> None:
    memory = {"h": rw.Attribute("hidden", initial=0.5)}
    with pytest.raises(CertificateFailed, match=r"replay: actions\[\d\]\[\d\] at step 0"):
        rw.export(refused.HiddenAttribute(), tmp_path / "bundle", example=OBS, memory=memory)


def test_memory_as_argument_and_as_attribute_go_together(tmp_path: Path) -> None:
    class Both(refused.HiddenAttribute):
        def forward(self, obs: torch.Tensor, h: torch.Tensor) -> Any:
            return super().forward(obs) + h, torch.tanh(h + obs)

    memory = {"h": H, "cache": "hidden"}
    bundle = rw.export(Both(), tmp_path / "bundle", example=OBS, memory=memory)
    assert [each.name for each in bundle.signature.memory] == ["h", "cache"]


def test_harmless_counters_are_no_hidden_state(tmp_path: Path) -> None:
    class Counts(refused.Base):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0
            self.register_buffer("steps", torch.zeros(()))

        def forward(self, obs: torch.Tensor) -> Any:
            self.calls += 1
            self.steps += 1
            return self.net(obs)

    module = Counts()
    rw.export(module, tmp_path / "bundle", example=OBS)
    assert (module.calls, module.steps.item()) == (0, 0)


def test_module_that_writes_into_its_input_is_followed(tmp_path: Path) -> None:
    class Halves(refused.Base):
        def forward(self, obs: torch.Tensor) -> Any:
            obs.mul_(0.5)
            return self.net(obs)

    example = {"obs": torch.ones(1, 4)}
    rw.export(Halves(), tmp_path / "bundle", example=example)
    assert example["obs"].tolist() == [[1.0] * 4]
    given = np.ones((2, 4), np.float32)
    rw.load(tmp_path / "bundle").act(given)
    assert np.array_equal(given, np.ones((2, 4)))
