"""The registry: every kind of policy that an export must get right, each small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

import roadworthy as rw
from tests import networks, recurrent

MEAN = np.array([0.02, -0.41, 1.7, 0.0, -12.5, 3.3])
VAR = np.array([0.9, 0.04, 2.5, 1e-6, 30.0, 0.5])


@dataclass(frozen=True)
class Case:
    """One policy: `make` builds it anew with the same weights every time."""

    name: str
    make: Callable[[], rw.Source]

    def __str__(self) -> str:
        return self.name


CASES: dict[str, Case] = {}


def case(build: Callable[[], rw.Source]) -> Callable[[], rw.Source]:
    """Registers `build`, run with a fixed seed and without touching the global one."""
    name = build.__name__

    def make() -> rw.Source:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(len(name))
            return build()

    CASES[name] = Case(name, make)
    return make


def observation(rows: int = 1) -> dict[str, torch.Tensor]:
    return {"obs": torch.randn(rows, 6)}


@case
def mlp() -> rw.Source:
    return rw.Source(
        networks.Mlp(),
        example=observation(),
        about={
            "obs": rw.About(description="joint state", elements=tuple("abcdef")),
            "actions": rw.About(unit="rad", low=-10, high=10),
        },
        period_s=0.02,
    )


@case
def normalized_sb3() -> rw.Source:
    statistics = rw.EpsInsideRoot(mean=MEAN, var=VAR, eps=1e-8, clip=10.0)
    return rw.Source(networks.Mlp(), example=observation(), normalizer=statistics)


@case
def normalized_rl_games() -> rw.Source:
    statistics = rw.EpsInsideRoot(mean=MEAN, var=VAR, eps=1e-5, clip=5.0)
    return rw.Source(networks.Mlp(), example=observation(), normalizer=statistics)


@case
def normalized_rsl_rl() -> rw.Source:
    statistics = rw.EpsOutsideRoot(mean=MEAN, std=np.sqrt(VAR), eps=1e-2)
    return rw.Source(networks.Mlp(), example=observation(), normalizer=statistics)


@case
def normalized_skrl() -> rw.Source:
    statistics = rw.EpsOutsideRoot(mean=MEAN, std=np.sqrt(VAR), eps=1e-8, clip=5.0)
    return rw.Source(networks.Mlp(), example=observation(), normalizer={"obs": statistics})


@case
def normalized_by_module() -> rw.Source:
    return rw.Source(
        networks.Mlp(), example=observation(), normalizer=networks.RunningNorm(6).train()
    )


@case
def lstm() -> rw.Source:
    memory = {"h": torch.zeros(1, 1, 16), "c": torch.zeros(1, 1, 16)}
    return rw.Source(recurrent.Lstm(), example=observation(), memory=memory)


@case
def lstm_pair() -> rw.Source:
    state = (torch.zeros(2, 1, 16), torch.zeros(2, 1, 16))
    return rw.Source(recurrent.LstmTuple(), example=observation(), memory={"state": state})


@case
def gru() -> rw.Source:
    return rw.Source(recurrent.Gru(), example=observation(4), memory={"h": torch.zeros(1, 4, 16)})


@case
def own_cell() -> rw.Source:
    memory = {"trace": torch.zeros(1, 8), "last": torch.zeros(1, 3)}
    return rw.Source(recurrent.OwnCell(), example=observation(), memory=memory)


@case
def keeps_hidden() -> rw.Source:
    return rw.Source(recurrent.KeepsHidden(), example=observation(), memory={"h": "hidden"})


@case
def keeps_pair() -> rw.Source:
    return rw.Source(
        recurrent.KeepsPair(), example=observation(), memory={"hidden": "hidden_states"}
    )


@case
def keeps_buffer() -> rw.Source:
    return rw.Source(recurrent.KeepsBuffer(), example=observation(), memory={"history": "history"})


@case
def nonzero_memory() -> rw.Source:
    memory = {"phase": torch.full((1, 1), 0.25), "pose": torch.tensor([[0.1, -0.7, 1.4]])}
    return rw.Source(recurrent.Phase(), example=observation(), memory=memory, outputs=("targets",))


def _reference(tokens: int) -> dict[str, torch.Tensor]:
    return {
        **observation(),
        "ref_obs": torch.randn(1, tokens, 5),
        "ref_mask": torch.tensor([[False] * (tokens - 1) + [True]]),
    }


@case
def transformer() -> rw.Source:
    return rw.Source(networks.Bert(), example=_reference(4))


@case
def transformer_any_length() -> rw.Source:
    return rw.Source(
        networks.Bert(),
        example=_reference(4),
        dynamic={"ref_obs": {1: "tokens"}, "ref_mask": {1: "tokens"}},
    )


@case
def cnn() -> rw.Source:
    pixels = torch.randint(0, 256, (1, 36, 36, 4), dtype=torch.uint8)
    return rw.Source(networks.Nature(), example={"pixels": pixels}, action=rw.Argmax())


@case
def dict_observation() -> rw.Source:
    example = {"obs": {"joints": torch.randn(1, 6), "base": torch.randn(1, 4)}}
    return rw.Source(networks.DictActor(), example=example)


@case
def nested_dict_observation() -> rw.Source:
    robot = {"joints": torch.randn(1, 6), "base": torch.randn(1, 4)}
    example = {"obs": {"robot": robot}, "goal": torch.randn(1, 2)}
    return rw.Source(networks.NestedDictActor(), example=example)


@case
def discrete() -> rw.Source:
    table = ("left", "stay", "right")
    return rw.Source(networks.Mlp(), example=observation(), action=rw.Argmax(table=table))


@case
def masked_discrete() -> rw.Source:
    return rw.Source(
        networks.Mlp(6, 5), example=observation(), action=rw.Argmax(mask="action_mask")
    )


@case
def multi_discrete() -> rw.Source:
    return rw.Source(
        networks.Mlp(6, 7), example=observation(), action=rw.MultiDiscrete(sizes=(3, 4))
    )


@case
def masked_multi_discrete() -> rw.Source:
    step = rw.MultiDiscrete(sizes=(3, 4), mask="action_mask")
    return rw.Source(networks.Mlp(6, 7), example=observation(), action=step)


@case
def squashed_gaussian() -> rw.Source:
    return rw.Source(
        networks.GaussianActor(),
        example=observation(),
        outputs=("actions", None),
        action=(rw.Tanh(), rw.ScaleToBounds(low=(-2.0, 0.0), high=(2.0, 5.0))),
    )


@case
def scaled_and_clipped() -> rw.Source:
    steps = (rw.ScaleOffset(scale=0.25, offset=(0.1, -0.7, 1.4)), rw.Clip(low=-1.0, high=1.5))
    return rw.Source(networks.Mlp(), example=observation(), action=steps)


@case
def half_precision() -> rw.Source:
    return rw.Source(networks.Mlp().half(), example={"obs": torch.randn(1, 6).half()})


@case
def double_precision() -> rw.Source:
    return rw.Source(
        nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3)).double(),
        example={"obs": torch.randn(1, 6).double()},
    )


@case
def discrete_observation() -> rw.Source:
    return rw.Source(
        networks.TableActor(),
        example={"obs": torch.zeros(1, dtype=torch.int64)},
        about={"obs": rw.About(low=0, high=11)},
        action=rw.Argmax(),
    )


@case
def flags() -> rw.Source:
    example = {**observation(), "contacts": torch.zeros(1, 4, dtype=torch.bool)}
    return rw.Source(networks.ContactActor(), example=example)


@case
def dict_outputs() -> rw.Source:
    return rw.Source(networks.DictOutputs(), example=observation())


@case
def named_tuple_outputs() -> rw.Source:
    return rw.Source(networks.NamedTupleOutputs(), example=observation())


@case
def fixed_batch() -> rw.Source:
    return rw.Source(networks.Mlp(), example=observation(), batch=1)


@case
def fixed_batch_lstm() -> rw.Source:
    memory = {"h": torch.zeros(2, 1, 16), "c": torch.zeros(2, 1, 16)}
    return rw.Source(recurrent.Lstm(2), example=observation(), memory=memory, batch=1)


@case
def left_in_training() -> rw.Source:
    return rw.Source(networks.NormDropout().train(), example=observation())


@case
def odd_names() -> rw.Source:
    example = {
        "joint pos": torch.randn(1, 4),
        "base-vel.x": torch.randn(1, 3),
        "linear": torch.randn(1, 2),
    }
    return rw.Source(networks.OddNames(), example=example)


@case
def bare_sequential() -> rw.Source:
    return rw.Source(nn.Sequential(nn.Linear(6, 3), nn.Tanh()), example=observation())


@case
def image_and_vector() -> rw.Source:
    image = torch.randint(0, 256, (1, 12, 12, 3), dtype=torch.uint8)
    return rw.Source(
        networks.ImageAndVector(), example={"obs": {"image": image, "vector": torch.randn(1, 5)}}
    )


@case
def residual_layer_norm() -> rw.Source:
    return rw.Source(networks.Residual(), example=observation())


@case
def mixture_of_experts() -> rw.Source:
    return rw.Source(networks.Experts(), example=observation())


@case
def dueling() -> rw.Source:
    return rw.Source(networks.Dueling(), example=observation(), action=rw.Argmax())


@case
def beta_mean() -> rw.Source:
    steps = (rw.ScaleOffset(scale=2.0, offset=-1.0), rw.ScaleToBounds(low=-0.5, high=(1, 2, 3)))
    return rw.Source(networks.BetaMean(), example=observation(), action=steps)


@case
def joint_targets() -> rw.Source:
    statistics = rw.EpsOutsideRoot(mean=MEAN, std=np.sqrt(VAR), eps=1e-2)
    pose = rw.ScaleOffset(scale=(0.25, 0.25, 0.5), offset=(0.1, 0.8, -1.5))
    return rw.Source(
        networks.Mlp(),
        example=observation(),
        normalizer=statistics,
        action=(pose, rw.Clip(low=(-1.0, -0.5, -2.7), high=(1.0, 3.4, -0.9))),
        about={"actions": rw.About(unit="rad", elements=("hip", "thigh", "calf"))},
        period_s=0.02,
    )


@case
def task_conditioned() -> rw.Source:
    return rw.Source(
        networks.Tasks(),
        example={**observation(), "task": torch.zeros(1, dtype=torch.int64)},
        about={"task": rw.About(low=0, high=4)},
    )


@case
def action_filter() -> rw.Source:
    return rw.Source(
        recurrent.ActionFilter(), example=observation(), memory={"last": torch.zeros(1, 3)}
    )


@case
def gru_two_layers() -> rw.Source:
    return rw.Source(
        recurrent.GruTwoLayers(), example=observation(), memory={"h": torch.zeros(2, 1, 12)}
    )


@case
def normalized_lstm() -> rw.Source:
    memory = {"h": torch.zeros(1, 1, 16), "c": torch.zeros(1, 1, 16)}
    return rw.Source(recurrent.NormalizedLstm(), example=observation(), memory=memory)


@case
def window_transformer() -> rw.Source:
    return rw.Source(
        recurrent.WindowTransformer(),
        example=observation(),
        memory={"window": torch.zeros(1, 4, 8)},
    )


@case
def integer_clock() -> rw.Source:
    return rw.Source(
        recurrent.IntegerClock(),
        example=observation(),
        memory={"tick": torch.zeros(1, 1, dtype=torch.int64)},
    )
