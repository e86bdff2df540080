"""Silently wrong exports 9, 11 and 13 to 25: an artifact that somebody made wrong.

`verify` beside the original fails, names port, step and both values, and says what would explain
it: each of the causes was tried on the numbers.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

import pytest
import torch
from torch import nn

import roadworthy as rw
from tests.verdicts import artifacts, walkers
from tests.verdicts.artifacts import (
    RSL_RL,
    SB3,
    Actor,
    Agent,
    Camera,
    Cell,
    Clipped,
    FromDict,
    Half,
    Joints,
    KeepsHistory,
    Lstm,
    Menu,
    Pair,
    ResetsOnDone,
    Scaled,
    Squashed,
    Stack,
    Stateless,
    Swapped,
    WithNormalizer,
    camera,
    net,
    normalized,
    obs,
    plain,
    recurrent,
    two_states,
)
from tests.verdicts.conftest import Judged

BOUNDS = rw.ScaleToBounds(low=-2.0, high=5.0)
POSE = rw.ScaleOffset(scale=0.25, offset=(0.1, -0.7, 1.4))
IDENTITY = (0, 1, 2, 3, 4, 5)
ONE_STATE = {"h": torch.zeros(1, 1, 8)}
Build = Callable[[], Pair]


def normalised_by(module: nn.Module) -> rw.Source:
    return plain(Actor(), normalizer=module)


def two_normalisers() -> rw.Source:
    return normalised_by(nn.Sequential(*[WithNormalizer().obs_normalizer for _ in range(2)]))


def done(listens: bool) -> rw.Source:
    example = {"obs": obs(), "done": torch.zeros(1, 1, dtype=torch.bool)}
    return rw.Source(
        ResetsOnDone(listens), example=example, memory={"h": torch.zeros(1, artifacts.HIDDEN)}
    )


def stack(newest_first: bool, *shape: int) -> rw.Source:
    return rw.Source(Stack(newest_first), example={"frames": obs(*shape)})


def history(newest_first: bool) -> rw.Source:
    return recurrent(KeepsHistory(newest_first), {"history": torch.zeros(1, 3, 6)})


def keys(*order: str) -> rw.Source:
    return rw.Source(FromDict(order), example={"obs": {"joints": obs(4), "base": obs(2)}})


def joints(reads: tuple[int, ...], writes: tuple[int, ...]) -> rw.Source:
    names = tuple(f"joint_{i}" for i in range(6))
    return plain(Joints(reads, writes), about={"obs": rw.About(elements=names)})


def two_cameras(swapped: bool) -> rw.Source:
    class Two(Actor):
        def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
            one, other = (right, left) if swapped else (left, right)
            return self.net(torch.cat([one, other], dim=-1))

    return rw.Source(Two(), example={"left": obs(3), "right": obs(3)})


def masked(listens: bool) -> rw.Source:
    if listens:
        return plain(net(6, 5), action=rw.Argmax(mask="action_mask"))
    mask = torch.ones(1, 5, dtype=torch.bool)
    return rw.Source(Menu(), example={"obs": obs(), "action_mask": mask})


def groups(*sizes: int) -> rw.Source:
    return plain(net(6, 7), action=rw.MultiDiscrete(sizes=sizes))


def ticks(truncated: bool) -> rw.Source:
    return rw.Source(
        walkers.TicksAsFloat(truncated),
        example={"obs": obs(), "tick": torch.zeros(1, dtype=torch.int64)},
        about={"tick": rw.About(low=0, high=2**26)},
    )


# What was exported, what should have been, and the cause that has to be named.
CASES: dict[str, tuple[Build, str]] = {
    "9 missing": (
        lambda: (plain(Actor()), normalized(SB3)),
        "obs: the normaliser of 'obs' is missing in the artifact",
    ),
    "9 missing module": (
        lambda: (plain(Actor()), normalised_by(WithNormalizer().obs_normalizer)),
        "obs: the normaliser of 'obs' is missing in the artifact",
    ),
    "9 missing inside": (
        lambda: (plain(Actor()), plain(WithNormalizer())),
        "obs_normalizer: the artifact lacks 'obs_normalizer' (BatchNorm1d): the original "
        "without it gives the same values",
    ),
    "9 twice": (
        lambda: (two_normalisers(), normalised_by(WithNormalizer().obs_normalizer)),
        "obs: 'obs' is normalised twice in the artifact",
    ),
    "11 eps": (
        lambda: (normalized(RSL_RL), normalized(SB3)),
        "obs: 'obs' is normalised by EpsOutsideRoot(eps=0.01, clip=None) in the artifact and by "
        "EpsInsideRoot(eps=1e-08, clip=10.0) in the original",
    ),
    "11 clip": (
        lambda: (normalized(dataclasses.replace(SB3, clip=None)), normalized(SB3)),
        "obs: 'obs' is normalised by EpsInsideRoot(eps=1e-08, clip=None) in the artifact and by "
        "EpsInsideRoot(eps=1e-08, clip=10.0) in the original",
    ),
    "13 missing": (
        lambda: (plain(Squashed(squashes=0)), plain(Squashed(squashes=1))),
        "actions: the tanh is missing: tanh(artifact) is what the original gives",
    ),
    "13 twice": (
        lambda: (plain(Squashed(squashes=2)), plain(Squashed(squashes=1))),
        "actions: one tanh too many: the artifact gives tanh(original)",
    ),
    "13 missing before bounds": (
        lambda: (plain(Actor(), action=BOUNDS), plain(Actor(), action=(rw.Tanh(), BOUNDS))),
        "action: the artifact lacks the action step Tanh",
    ),
    "14 missing": (
        lambda: (plain(Scaled(times=0)), plain(Scaled(times=1))),
        "actions: artifact = 4 · original + [-0.4, -3.2, 6]",
    ),
    "14 twice": (
        lambda: (plain(Scaled(times=2)), plain(Scaled(times=1))),
        "actions: artifact = 0.25 · original + [0.1, 0.8, -1.5]",
    ),
    "14 missing step": (
        lambda: (plain(Actor()), plain(Actor(), action=POSE)),
        "action: the artifact lacks the action step ScaleOffset",
    ),
    "14 doubled step": (
        lambda: (plain(Actor(), action=(POSE, POSE)), plain(Actor(), action=POSE)),
        "action: the artifact applies the action step ScaleOffset twice",
    ),
    "14 clip missing": (
        lambda: (plain(Actor()), plain(Clipped(limit=0.5))),
        "actions: the clip is missing: inside [-0.5, 0.5] both agree, outside it only the "
        "original clips",
    ),
    "15 fresh at each step": (
        lambda: (
            recurrent(Lstm(forgets=True), two_states()),
            recurrent(Lstm(), two_states()),
        ),
        "'h', 'c': the artifact forgets: it gives what the original gives when its memory is "
        "reset at every step",
    ),
    "16 done ignored": (
        lambda: (done(False), done(True)),
        "done: the artifact does not respond to 'done'; the original does",
    ),
    "17 gate order": (
        lambda: (recurrent(Cell("zrn"), ONE_STATE), recurrent(Cell("torch"), ONE_STATE)),
        "rnn: the artifact takes the gates of 'rnn' for (z, r, n); PyTorch keeps them as (r, z, n)",
    ),
    "17 reset gate": (
        lambda: (recurrent(Cell("reset first"), ONE_STATE), recurrent(Cell("torch"), ONE_STATE)),
        "rnn: the artifact applies the reset gate of 'rnn' before the matrix product; PyTorch "
        "applies it after",
    ),
    "20 frames": (
        lambda: (stack(True, 4, 6), stack(False, 4, 6)),
        "frames: axis 1 of 'frames' is read in the reverse order",
    ),
    "20 flat frames": (
        lambda: (stack(True, 24), stack(False, 24)),
        "frames: 'frames' is read with its 4 frames in the reverse order",
    ),
    "20 history": (
        lambda: (history(True), history(False)),
        "memory history: axis 1 of the memory is reversed: the newest comes first where the "
        "original has the oldest",
    ),
    "21 keys": (
        lambda: (keys("base", "joints"), keys("joints", "base")),
        "obs.joints: the elements of the observation are in another order: obs.joints[0] is read "
        "as obs.joints[2], obs.joints[1] is read as obs.joints[3], obs.joints[2] is read as "
        "obs.base[0], obs.joints[3] is read as obs.base[1], obs.base[0] is read as obs.joints[0], "
        "obs.base[1] is read as obs.joints[1]",
    ),
    "21 ports": (
        lambda: (two_cameras(True), two_cameras(False)),
        "left: the inputs 'left' and 'right' are swapped",
    ),
    "21 joints in": (
        lambda: (joints((0, 2, 1, 3, 4, 5), (0, 1, 2)), joints(IDENTITY, (0, 1, 2))),
        "obs: the elements of the observation are in another order: joint_1 is read as joint_2, "
        "joint_2 is read as joint_1",
    ),
    "21 joints out": (
        lambda: (joints(IDENTITY, (2, 0, 1)), joints(IDENTITY, (0, 1, 2))),
        "actions: the elements come in another order: actions[0] is at [1], actions[1] is at "
        "[2], actions[2] is at [0]",
    ),
    "22 reshaped": (
        lambda: (camera(Camera("reshaped")), camera(Camera())),
        "pixels: the axes of 'pixels' are swapped in the artifact: (3, 1, 2)",
    ),
    "22 not divided": (
        lambda: (camera(Camera(divided=False)), camera(Camera())),
        "convolutions.0: the input of 'convolutions.0' is 255 times larger in the artifact: "
        "/255 is missing, or done twice",
    ),
    "23 half": (
        lambda: (plain(Half()), plain(Actor())),
        "weights: the weights of the artifact are those of the original, rounded to float16",
    ),
    "24 mask": (
        lambda: (masked(False), masked(True)),
        "action: the artifact ignores the mask 'action_mask': it chooses masked actions",
    ),
    "24 split": (
        lambda: (groups(4, 3), groups(3, 4)),
        "action: the artifact splits the logits into groups of (4, 3), the original into (3, 4)",
    ),
    "25 target": (
        lambda: (plain(Agent("target")), plain(Agent())),
        "actor: the artifact has the weights of 'target' where the original has those of 'actor'",
    ),
    "25 critic": (
        lambda: (plain(Agent("critic")), plain(Agent())),
        "actions: the original returns shape (2, 3) and the artifact (2, 1): another network",
    ),
    "25 old checkpoint": (
        lambda: (plain(artifacts.OldCheckpoint()), plain(Actor())),
        "weights: 2 of the 2 weight matrices of the original are not in the file: net.0.weight, "
        "net.2.weight",
    ),
    "25 swapped": (
        lambda: (plain(Swapped(True)), plain(Swapped(False))),
        "net.0: the artifact has the weights of 'net.0' and 'net.2' swapped",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_cause_is_named(judged: Judged, case: str) -> None:
    build, cause = CASES[case]
    failure, *others = judged(*build())
    causes = [each for each in others if each.code == "RW320"]
    assert (failure.code, failure.where) == ("RW300", "fresh steps")
    pattern = r"\S+ at step \d+: expected \S+, got \S+ \(off by "
    assert re.match(pattern, failure.what)
    assert {each.code for each in others} <= {
        "RW300",
        "RW301",
        "RW310",
        "RW311",
        "RW312",
        "RW313",
        "RW320",
        "RW330",
        "RW332",
    }
    assert cause in [f"{each.where}: {each.what}" for each in causes]


@pytest.mark.parametrize("case", ["23 overflow", "23 ticks"])
def test_23_numbers_that_a_narrower_type_does_not_have(judged: Judged, case: str) -> None:
    if case == "23 ticks":
        failure, *_ = judged(ticks(True), ticks(False))
        assert re.match(r"actions\[0\]\[\d\] at step \d+: expected ", failure.what)
    else:
        wrong, right = (plain(artifacts.Loud(half=half)) for half in (True, False))
        (cause,) = [each for each in judged(wrong, right) if each.code == "RW320"]
        assert re.match(r"the artifact gives \S+ at step \d+ where the original gives ", cause.what)
        assert "an overflow (float16 ends at 65504)" in cause.what


STRUCTURES: dict[str, tuple[Build, str]] = {
    "15 no memory": (
        lambda: (plain(Stateless()), recurrent(Lstm(), two_states())),
        "memory h: the original remembers it, the bundle does not: its state is not fed back",
    ),
    "16 starts elsewhere": (
        lambda: (
            recurrent(Lstm(), two_states() | {"h": torch.full((2, 1, 8), 0.3)}),
            recurrent(Lstm(), two_states()),
        ),
        "memory h: an episode starts at 0 in the original and at 0.3 in the bundle",
    ),
    "17 another cell": (
        lambda: (recurrent(Lstm(), two_states()), recurrent(Cell("torch"), ONE_STATE)),
        "memory c: the bundle remembers it, the original does not",
    ),
    "18 layout": (
        lambda: (history(False), recurrent(KeepsHistory(False), {"history": torch.zeros(3, 1, 6)})),
        "memory history: the original keeps (3, 1, 6), the bundle (batch, 3, 6): are layers "
        "and rows swapped?",
    ),
    "22 channels first": (
        lambda: (camera(Camera("as it is"), 3, 12, 12), camera(Camera())),
        "pixels: the original takes (batch, 12, 12, 3), the bundle (batch, 3, 12, 12): the "
        "axes are swapped (HWC and CHW?)",
    ),
    "23 double": (
        lambda: (plain(Actor()), plain(Actor().double(), example={"obs": obs().double()})),
        "obs: the original takes float64, the bundle float32: values would be cast",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", STRUCTURES)
def test_other_ports_are_named(judged: Judged, case: str) -> None:
    build, what = STRUCTURES[case]
    findings = judged(*build())
    assert {each.code for each in findings} == {"RW321"}
    assert what in [f"{each.where}: {each.what}" for each in findings]


def test_all_numbers_of_the_list_are_tried() -> None:
    from tests.verdicts import test_wrong_modules

    here = {int(case.split()[0]) for case in (*CASES, *STRUCTURES)}
    names = [name for name in dir(test_wrong_modules) if name.startswith("test_")]
    there = {int(part) for name in names for part in name.split("_") if part.isdigit()}
    assert here | there == set(range(1, 26))
