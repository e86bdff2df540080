"""TorchRL policies, each small, with the same weights every time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import distributions as D
from torch import nn
from torchrl.data import Bounded, Categorical, OneHot
from torchrl.envs.utils import set_exploration_type
from torchrl.modules import (
    Actor,
    AdditiveGaussianModule,
    Delta,
    DistributionalQValueActor,
    EGreedyModule,
    IndependentNormal,
    MaskedCategorical,
    NormalParamExtractor,
    OneHotCategorical,
    OrnsteinUhlenbeckProcessModule,
    ProbabilisticActor,
    QValueActor,
    TanhDelta,
    TanhNormal,
    TruncatedNormal,
)

import roadworthy as rw

BOX = Bounded(torch.tensor([-2.0, -1.0, 0.0]), torch.tensor([2.0, 1.0, 5.0]), (3,))
INDEX = Categorical(6)
ONE_HOT = OneHot(6)
EXAMPLE = {"observation": torch.zeros(1, 4)}
MASKED_EXAMPLE = {**EXAMPLE, "mask": torch.ones(1, 6, dtype=torch.bool)}


def seeded(build: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """What `build` makes with fixed weights, without touching the global generator."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        return build(*arguments, **keywords).eval()


def parameters(names: list[str], width: int) -> TensorDictModule:
    if len(names) == 1:
        return TensorDictModule(nn.Linear(4, width), ["observation"], names)
    # The mean stays near the bounds: squashed before it is split.
    net = nn.Sequential(nn.Linear(4, 2 * width), nn.Tanh(), NormalParamExtractor())
    return TensorDictModule(net, ["observation"], names)


def drawn_from(distribution: Any, names: list[str], width: int, **keywords: Any) -> Any:
    return seeded(
        lambda: ProbabilisticActor(
            parameters(names, width), in_keys=names, distribution_class=distribution, **keywords
        )
    )


LOC_SCALE = ["loc", "scale"]


def gaussian(distribution: Any, **keywords: Any) -> Any:
    return drawn_from(distribution, LOC_SCALE, 3, **keywords)


def masked() -> Any:
    return seeded(
        lambda: ProbabilisticActor(
            parameters(["logits"], 6),
            in_keys=["logits", "mask"],
            distribution_class=MaskedCategorical,
        )
    )


def greedy(spec: Any, eps: float = 0.5) -> Any:
    explore = EGreedyModule(spec, eps_init=eps, eps_end=eps)
    return seeded(lambda: TensorDictSequential(QValueActor(nn.Linear(4, 6), spec=spec), explore))


def noisy(explore: nn.Module) -> Any:
    return seeded(lambda: TensorDictSequential(Actor(nn.Linear(4, 3), spec=BOX), explore))


class Atoms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 30)

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        return self.net(observation).reshape(-1, 5, 6)


def distributional(spec: Any) -> Any:
    support = torch.linspace(-1, 1, 5)
    return seeded(lambda: DistributionalQValueActor(Atoms(), spec=spec, support=support))


TENSOR_BOUNDS = {"low": BOX.space.low, "high": BOX.space.high}
POLICIES: dict[str, Callable[[], Any]] = {
    "actor, safe": lambda: seeded(Actor, nn.Linear(4, 3), spec=BOX, safe=True),
    "Normal": lambda: gaussian(D.Normal),
    "IndependentNormal": lambda: gaussian(IndependentNormal),
    "TanhNormal": lambda: gaussian(TanhNormal),
    "TanhNormal, bounds": lambda: gaussian(TanhNormal, distribution_kwargs=TENSOR_BOUNDS),
    "TruncatedNormal": lambda: gaussian(TruncatedNormal),
    "Delta": lambda: drawn_from(Delta, ["param"], 3),
    "TanhDelta": lambda: drawn_from(TanhDelta, ["param"], 3),
    "TanhDelta, bounds": lambda: drawn_from(
        TanhDelta, ["param"], 3, distribution_kwargs=TENSOR_BOUNDS
    ),
    "Categorical": lambda: drawn_from(D.Categorical, ["logits"], 6),
    "OneHotCategorical": lambda: drawn_from(OneHotCategorical, ["logits"], 6),
    "MaskedCategorical": masked,
    "QValue, index": lambda: seeded(QValueActor, nn.Linear(4, 6), spec=INDEX),
    "QValue, one-hot": lambda: seeded(QValueActor, nn.Linear(4, 6), spec=ONE_HOT),
    "DistributionalQValue, index": lambda: distributional(INDEX),
    "DistributionalQValue, one-hot": lambda: distributional(ONE_HOT),
    "EGreedy, index": lambda: greedy(INDEX),
    "EGreedy, one-hot": lambda: greedy(ONE_HOT),
    "AdditiveGaussian": lambda: noisy(AdditiveGaussianModule(BOX, sigma_init=0.3, sigma_end=0.3)),
    "OrnsteinUhlenbeck": lambda: noisy(OrnsteinUhlenbeckProcessModule(BOX)),
}


def example_for(name: str) -> dict[str, torch.Tensor]:
    return MASKED_EXAMPLE if name == "MaskedCategorical" else EXAMPLE


def inputs_for(name: str, rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    inputs = {"observation": rng.standard_normal((rows, 4), dtype=np.float32) * 2}
    if name == "MaskedCategorical":
        inputs["mask"] = rng.random((rows, 6)) < 0.5
        inputs["mask"][:, seed % 6] = True
    return inputs


def torchrl_action(
    policy: Any, exploration: str, inputs: dict[str, np.ndarray], key: Any = "action"
) -> np.ndarray:
    """What TorchRL itself answers, in its own way of being called."""
    rows = len(next(iter(inputs.values())))
    values = TensorDict({k: torch.from_numpy(v) for k, v in inputs.items()}, batch_size=[rows])
    with torch.no_grad(), set_exploration_type(exploration):
        return policy(values)[key].numpy()


def exported(policy: Any, folder: Any, **keywords: Any) -> rw.Policy:
    rw.export(policy, folder, **keywords)
    return rw.load(folder, seed=0)
