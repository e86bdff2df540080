"""Running statistics that files hold: of observations, and of the returns that critics learn."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from roadworthy.frameworks.network.layers import Weights
from roadworthy.spec.transforms import EpsInsideRoot

VALUE = "value"
CLIP = 5.0


def with_value(
    outputs: tuple[str, ...], critic: object
) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """The outputs of a reading and of its critic; or, where that is a reason, why it has none."""
    if isinstance(critic, str):
        return outputs, {VALUE: critic}
    return (*outputs, VALUE), {}


def normalizer_of(statistics: Weights, *, clip: float = CLIP) -> EpsInsideRoot | None:
    """`clip((x - mean) / sqrt(var + 1e-5), ±clip)`; None where no statistics are kept."""
    mean, var = statistics.get("running_mean"), statistics.get("running_var")
    if mean is None or var is None:
        return None
    return EpsInsideRoot(mean=mean.float(), var=var.float(), eps=1e-5, clip=clip)


class Returns(nn.Module):
    """`clip(value, ±5) * sqrt(variance + eps) + mean`: all three clip before they scale back."""

    mean: Tensor
    scale: Tensor

    def __init__(self, mean: Tensor, variance: Tensor, eps: float) -> None:
        super().__init__()
        self.register_buffer("mean", mean.float())
        self.register_buffer("scale", (variance.float() + eps).sqrt())

    def forward(self, value: Tensor) -> Tensor:
        return value.clamp(-CLIP, CLIP) * self.scale + self.mean


def returns_of(statistics: Weights, *, eps: float) -> nn.Module:
    """The way back from a critic's value to returns; where no statistics are kept, none."""
    mean = statistics.get("running_mean")
    variance = statistics.get("running_var", statistics.get("running_variance"))
    if mean is None or variance is None:
        return nn.Identity()
    return Returns(torch.as_tensor(mean), torch.as_tensor(variance), eps)
