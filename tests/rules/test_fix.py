"""`fix=True` repairs what is safe, in a copy, says so, and is certified against the original."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import roadworthy as rw
from roadworthy.cli.app import app
from tests.capture.failures.case import OBS
from tests.capture.failures.modules import CommandAsInt, TrainedInDouble
from tests.capture.failures.values import Actor, ResetInside, TensorFlag, TwoGaits

HINT = "in the exported program only: your module and your file are unchanged"


class Fallen(nn.Module):
    """Stands up where it lies, walks otherwise: written for one robot."""

    def __init__(self) -> None:
        super().__init__()
        self.walk, self.rise = nn.Linear(8, 4), nn.Linear(8, 4)

    def forward(self, obs: Tensor) -> Tensor:
        if obs[:, 2] < 0:
            return self.rise(obs)
        return self.walk(obs)


class FallenInSteps(Fallen):
    def forward(self, obs: Tensor) -> Tensor:
        scale = obs[:, 1:2] if not obs[:, 0] > 0 else obs[:, 3:4]
        if obs[:, 2] < 0:  # noqa: SIM108 (the form is what is tested)
            action = self.rise(obs)
        else:
            action = self.walk(obs)
        return action * scale


class Rare(Fallen):
    def forward(self, obs: Tensor) -> Tensor:
        if obs[:, 2] < -1e9:
            return self.rise(obs)
        return self.walk(obs)


class Counts(Fallen):
    """Two statements on a side: more than one choice can say."""

    def forward(self, obs: Tensor) -> Tensor:
        action = self.walk(obs)
        if obs[:, 2] < 0:
            lifted = self.rise(obs)
            action = action + lifted
        return action


class Uneven(Fallen):
    """Sides of different shape: nothing that `torch.where` could choose between."""

    def forward(self, obs: Tensor) -> Tensor:
        if obs[:, 2] < 0:
            obs = obs[:, :1]
        return self.walk(obs.expand(-1, 8))


class SecondFails(Fallen):
    """The first branch can be fixed, the second cannot."""

    def forward(self, obs: Tensor) -> Tensor:
        scale = obs[:, 1:2] if obs[:, 0] > 0 else obs[:, 3:4]
        return self.walk(obs) * scale * float(obs[:, 4])


class Elif(Fallen):
    def forward(self, obs: Tensor) -> Tensor:
        action = self.walk(obs)
        if obs[:, 2] < 0:
            action = self.rise(obs)
        elif obs[:, 1] < 0:
            action = -action
        return action


class InPlace(Fallen):
    def forward(self, obs: Tensor) -> Tensor:
        action: Tensor = self.walk(obs)
        if obs[:, 2] < 0:
            action.mul_(0.5)
        return action


class Early(Fallen):
    def forward(self, obs: Tensor) -> Tensor:
        if obs[:, 2] < 0:
            return self.rise(obs)
        action: Tensor = self.walk(obs)
        return action * 2


class Elsewhere(Fallen):
    def forward(self, obs: Tensor) -> Tensor:
        self.last = obs
        if obs[:, 2] < 0:
            self.last = -obs
        return self.walk(self.last)


class Counted(nn.Module):
    """Statistics that count until the training ends, as people write them."""

    mean: Tensor

    def __init__(self, n: int) -> None:
        super().__init__()
        self.register_buffer("n", torch.tensor(n))
        self.register_buffer("mean", torch.linspace(-1, 1, 8))
        self.clip = 5.0

    def forward(self, obs: Tensor) -> Tensor:
        if self.n > 0:
            obs = obs - self.mean
            if self.clip:
                obs = obs.clamp(-self.clip, self.clip)
        elif self.clip:
            obs = 0.5 * obs
        return obs


class TwoCounted(Actor):
    """Of one class, and in two states."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = Counted(3), Counted(0)

    def forward(self, obs: Tensor) -> Tensor:
        return self.net(self.one(obs) + self.other(obs))


class Switched(Actor):
    """A flag that a ternary asks, under another name than `self`."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("enabled", torch.tensor(True))

    def forward(me, obs: Tensor) -> Tensor:
        return me.net(obs) * 2.0 if me.enabled else obs[:, :4]


class AsksAProperty(Actor):
    """What it says is code of the author's: to ask it may do anything."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("n", torch.tensor(3))

    @property
    def ready(self) -> Tensor:
        return self.n > 0

    def forward(self, obs: Tensor) -> Tensor:
        if self.ready:
            return self.net(obs)
        return obs[:, :4]


class Repeats(Actor):
    """A loop asks more than once."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("n", torch.tensor(3))

    def forward(self, obs: Tensor) -> Tensor:
        times = 0
        while self.n > 0:
            obs, times = obs * 2, times + 1
            if times > 2:
                break
        return self.net(obs)


class CountsItsSteps(Actor):
    """The same words, of a value that moves."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("n", torch.zeros(1, 1))

    def forward(self, obs: Tensor) -> Tensor:
        self.n = self.n + 1
        action = self.net(obs)
        if self.n.sum() > 3:
            action = action * 3
        return action


class Held(TrainedInDouble):
    """Cannot be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


class FlagOfAPart(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.other = TensorFlag(), TensorFlag()
        self.other.standard_normal.fill_(False)

    def forward(self, obs: Tensor) -> Tensor:
        return self.norm(obs) + self.other(obs)


class Viewed(Actor):
    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs.view(obs.shape[0], -1))


def fixed(folder: Path, module: nn.Module, **described: Any) -> rw.Bundle:
    """The bundle; the module is looked at before and after."""
    before = {name: value.clone() for name, value in module.state_dict().items()}
    attributes = dict(vars(module))
    forward = type(module).forward
    source = rw.Source(module, **({"example": OBS} | described))
    bundle = rw.export(source, folder / "bundle", fix=True)
    after = module.state_dict()
    assert {n: v.dtype for n, v in before.items()} == {n: v.dtype for n, v in after.items()}
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert dict(vars(module)) == attributes
    assert type(module).forward is forward
    assert not module._forward_pre_hooks
    return bundle


def whats(bundle: rw.Bundle) -> list[str]:
    fixes = bundle.manifest["fixes"]
    assert all((f["code"], f["severity"], f["hint"]) == ("RW195", "note", HINT) for f in fixes)
    return [f["what"] for f in fixes]


def test_module_in_double_is_cast_and_compared_in_double(tmp_path: Path) -> None:
    bundle = fixed(tmp_path, TrainedInDouble())
    assert whats(bundle) == ["the module was cast from float64 to float32"]
    assert bundle.manifest["fixes"][0]["where"].endswith("(return torch.tanh(self.net(obs)))")
    assert [port.dtype for port in bundle.signature.outputs] == ["float32"]


def test_index_in_int32_is_passed_on_as_int64(tmp_path: Path) -> None:
    gait = torch.tensor([0, 1], dtype=torch.int32)
    bundle = fixed(tmp_path, CommandAsInt(), example=OBS | {"gait": gait})
    assert whats(bundle) == ["the inputs gait are passed on as int64"]
    assert [port.dtype for port in bundle.signature.inputs] == ["float32", "int32"]


def test_flag_in_a_tensor_is_taken_as_it_is_in_each_part(tmp_path: Path) -> None:
    bundle = fixed(tmp_path, FlagOfAPart())
    assert whats(bundle) == [
        "self.standard_normal was taken as True, which it is now",
        "self.standard_normal was taken as False, which it is now",
    ]


def test_branch_is_computed_on_both_sides(tmp_path: Path) -> None:
    module = Fallen()
    bundle = fixed(tmp_path, module, example={"obs": OBS["obs"][:1]}, batch=1)
    assert whats(bundle) == ["both sides of the branch are computed, torch.where chooses"]
    policy = rw.load(tmp_path / "bundle")
    for height in (-1.0, 1.0):
        obs = torch.full((1, 8), height)
        np.testing.assert_allclose(policy.act(obs.numpy()), module(obs).detach(), atol=1e-6)


def test_several_branches_of_one_function_are_fixed_together(tmp_path: Path) -> None:
    bundle = fixed(tmp_path, FallenInSteps(), example={"obs": OBS["obs"][:1]}, batch=1)
    assert len(whats(bundle)) == 2
    assert [f["where"].partition(" ")[2] for f in bundle.manifest["fixes"]] == [
        "(scale = obs[:, 1:2] if not obs[:, 0] > 0 else obs[:, 3:4])",
        "(if obs[:, 2] < 0:  # noqa: SIM108 (the form is what is tested))",
    ]


def test_reset_inside_forward_is_fixed_for_any_batch(tmp_path: Path) -> None:
    example = OBS | {"is_init": torch.zeros(2, 1, dtype=torch.bool)}
    bundle = fixed(tmp_path, ResetInside(), example=example, memory={"h": torch.zeros(2, 6)})
    assert whats(bundle) == ["both sides of the branch are computed, torch.where chooses"]
    assert bundle.signature.fixed_rows is None


def test_branch_that_is_never_taken_cannot_be_certified(tmp_path: Path) -> None:
    with pytest.raises(rw.RoadworthyError) as caught:
        fixed(tmp_path, Rare(), example={"obs": OBS["obs"][:1]}, batch=1)
    (finding,) = caught.value.findings
    assert finding.code == "RW194"
    assert finding.where.endswith("(if obs[:, 2] < -1e9:)")
    assert finding.what == (
        "the condition was False in all 256 recorded steps: the other side cannot be certified"
    )
    assert finding.hint == (
        "give the inputs limits that reach both sides, about={'obs': rw.About(low=…, high=…)}, "
        "or write the line with torch.where yourself"
    )


def test_what_is_not_safe_is_refused_as_without_fix(tmp_path: Path) -> None:
    for fix in (False, True):
        source = rw.Source(Counts(), example={"obs": OBS["obs"][:1]}, batch=1)
        with pytest.raises(rw.RoadworthyError) as caught:
            rw.export(source, tmp_path / "bundle", fix=fix)
        (finding,) = caught.value.findings
        assert finding.code == "RW103"
        assert finding.where.endswith("(if obs[:, 2] < 0:)")


def test_repair_that_raises_leaves_the_first_refusal(tmp_path: Path) -> None:
    with pytest.raises(rw.RoadworthyError) as caught:
        fixed(tmp_path, Uneven(), example={"obs": OBS["obs"][:1]}, batch=1)
    (finding,) = caught.value.findings
    assert finding.code == "RW103"
    assert finding.where.endswith("(if obs[:, 2] < 0:)")


def test_next_line_that_cannot_be_fixed_is_named(tmp_path: Path) -> None:
    with pytest.raises(rw.RoadworthyError) as caught:
        fixed(tmp_path, SecondFails(), example={"obs": OBS["obs"][:1]}, batch=1)
    finding = next(each for each in caught.value.findings if "float(obs[:, 4])" in each.where)
    assert finding.code == "RW103"
    assert finding.where.endswith("(return self.walk(obs) * scale * float(obs[:, 4]))")


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (Elif, "it has an elif, or an if inside of its else"),
        (InPlace, "a side changes something in place"),
        (Counts, "a side has more than one statement"),
        (Early, "it returns early, and the way on is more than one return"),
        (Elsewhere, "a side does something else than to assign to one plain name"),
        (Uneven, "with both sides computed, forward raised TypeError: the sides of the branch "),
    ],
)
def test_branch_that_is_left_alone_says_why(
    kind: type[nn.Module], why: str, tmp_path: Path
) -> None:
    hints = []
    for fix in (False, True):
        source = rw.Source(kind(), example={"obs": OBS["obs"][:1]}, batch=1)
        with pytest.raises(rw.RoadworthyError) as caught:
            rw.export(source, tmp_path / "bundle", fix=fix)
        hints.append(next(f.hint for f in caught.value.findings if f.code == "RW103"))
    assert "fix=True" not in hints[0]
    assert hints[1].startswith(f"{hints[0]}; fix=True left it alone: {why}")


def test_condition_on_what_never_changes_is_offered_and_taken_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(rw.RoadworthyError) as caught:
        rw.export(TwoCounted(), tmp_path / "bundle", example=OBS)
    (finding,) = caught.value.findings
    assert finding.code == "RW103"
    assert finding.hint.endswith("if it never changes on the robot, as it says now: "
                                 "rw.export(…, fix=True)")  # fmt: skip
    bundle = fixed(tmp_path, module := TwoCounted())
    assert whats(bundle) == [
        "self.n > 0 was taken as True, which it is now",
        "self.n > 0 was taken as False, which it is now",
    ]
    obs = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
    got = rw.load(tmp_path / "bundle").act(obs.numpy())
    assert torch.allclose(torch.from_numpy(got), module(obs), atol=1e-5)


def test_flag_that_a_ternary_asks_is_taken_as_it_is(tmp_path: Path) -> None:
    bundle = fixed(tmp_path, Switched())
    assert whats(bundle) == ["me.enabled was taken as True, which it is now"]


@pytest.mark.parametrize(("kind", "then"), [(AsksAProperty, "RW194"), (Repeats, "RW103")])
def test_nothing_is_settled_but_what_is_kept_and_asked_once(
    kind: type[nn.Module], then: str, tmp_path: Path
) -> None:
    for fix, code in ((False, "RW103"), (True, then)):
        with pytest.raises(rw.RoadworthyError) as caught:
            rw.export(kind(), tmp_path / "bundle", example=OBS, fix=fix)
        assert code in {each.code for each in caught.value.findings}
        assert "as it says now" not in str(caught.value)


def test_condition_on_memory_is_never_settled(tmp_path: Path) -> None:
    """It says False now, and True from the fourth step on."""
    with pytest.raises(rw.RoadworthyError, match="RW112"):  # declared or not
        fixed(tmp_path, CountsItsSteps(), batch=1, example={"obs": OBS["obs"][:1]})
    bundle = fixed(tmp_path, module := CountsItsSteps(), memory={"n": "n"}, batch=1,
                   example={"obs": OBS["obs"][:1]})  # fmt: skip
    assert whats(bundle) == ["both sides of the branch are computed, torch.where chooses"]
    policy, obs = rw.load(tmp_path / "bundle"), OBS["obs"][:1]
    for step in range(6):
        expected = module.net(obs) * (3 if step >= 3 else 1)
        assert torch.allclose(torch.from_numpy(policy.act(obs.numpy())), expected, atol=1e-5)


def test_module_that_cannot_be_copied_says_so(tmp_path: Path) -> None:
    with pytest.raises(rw.RoadworthyError) as caught:
        rw.export(Held(), tmp_path / "bundle", example=OBS, fix=True)
    (finding,) = caught.value.findings
    assert str(finding) == (
        "[RW194] Held: the module cannot be copied, so it cannot be fixed: cannot pickle "
        "'_thread.lock' object\n  → export without fix=True, and change the lines that it names"
    )


def test_command_line_prints_what_was_fixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "actor.py").write_text(
        "import torch\n\nactor = torch.nn.Sequential(torch.nn.Linear(8, 4)).double()\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    words = ["export", "actor.py:actor", "--input", "obs=8", "-o", "walker", "--fix"]
    app(words, standalone_mode=False)
    shown = capsys.readouterr().err
    assert "RW195 Sequential: the module was cast from float64 to float32" in shown
    assert f"→ {HINT}" in shown


def test_choice_that_mixes_rows_fails_the_certificate(tmp_path: Path) -> None:
    with pytest.raises(rw.RoadworthyError) as caught:
        fixed(tmp_path, TwoGaits())
    assert "RW300" in {finding.code for finding in caught.value.findings}


def test_nothing_is_listed_where_nothing_was_fixed(tmp_path: Path) -> None:
    bundle = fixed(tmp_path, Actor())
    assert bundle.manifest["fixes"] == []


def test_example_that_is_a_view_is_handed_over_in_one_piece(tmp_path: Path) -> None:
    example = {"obs": torch.ones(4, 2, 2).permute(1, 2, 0)}
    assert not example["obs"].is_contiguous()
    rw.export(Viewed(), tmp_path / "bundle", example=example)
