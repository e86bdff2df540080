"""From the parameters of a distribution to the action; formulas where torch.export cannot enter."""

from __future__ import annotations

import math
from typing import Any, Protocol

import torch
from tensordict import TensorDictBase
from tensordict.nn import InteractionType, ProbabilisticTensorDictModule
from torch import Tensor
from torchrl.modules import TanhDelta, TruncatedNormal

from roadworthy.errors import ExportError, Finding
from roadworthy.frameworks.torchrl.keys import key_path
from roadworthy.frameworks.torchrl.stage import RewrittenStage

SQRT_2 = math.sqrt(2)
INV_SQRT_2 = 1 / SQRT_2
INV_SQRT_2PI = 1 / math.sqrt(2 * math.pi)
# What TorchRL's truncated normal keeps away from 0 and 1.
EPS = 1e-6
# What a distribution raises when it has no such value in closed form.
_NO_CLOSED_FORM = (AttributeError, NotImplementedError, RuntimeError)


class Formula(Protocol):
    """A distribution as far as an action needs it."""

    @property
    def deterministic_sample(self) -> Tensor: ...

    @property
    def mode(self) -> Tensor: ...

    @property
    def mean(self) -> Tensor: ...

    def rsample(self) -> Tensor: ...


class TruncatedNormalFormula:
    """TorchRL's `TruncatedNormal`, whose constructor reads tensors as Python numbers."""

    def __init__(
        self,
        loc: Tensor,
        scale: Tensor,
        upscale: Any = 5.0,
        low: Any = -1.0,
        high: Any = 1.0,
        tanh_loc: bool = False,
    ) -> None:
        if tanh_loc:
            loc = (loc / upscale).tanh() * upscale
        self.loc, self.scale = loc, scale.clamp_min(EPS)
        self.low, self.high = (torch.as_tensor(each, dtype=loc.dtype) for each in (low, high))
        a, b = (self.low - self.loc) / self.scale, (self.high - self.loc) / self.scale
        self._little = _density(a), _density(b)
        self._below = _cumulative(a)
        self._inside = (_cumulative(b) - self._below).clamp(EPS, 1 - EPS)

    @property
    def mean(self) -> Tensor:
        little_a, little_b = self._little
        return -(little_b - little_a) / self._inside * self.scale + self.loc

    @property
    def deterministic_sample(self) -> Tensor:
        return self.mean

    @property
    def mode(self) -> Tensor:
        return torch.maximum(torch.minimum(self.loc, self.high - EPS), self.low + EPS)

    def rsample(self) -> Tensor:
        raise ExportError(
            "a drawn TruncatedNormal cannot be exported: where a bound lies beyond three "
            "deviations, TorchRL's float32 inverse turns a last bit into a thousandth",
            code="RW143",
            where="exploration='random'",
            hint="export exploration='deterministic' or 'mode', or train with TanhNormal",
        )


class TanhDeltaFormula:
    """TorchRL's `TanhDelta`, whose constructor refuses to be compiled."""

    def __init__(
        self,
        param: Tensor,
        low: Any = -1.0,
        high: Any = 1.0,
        event_dims: int = 1,
        atol: float = 1e-6,
        rtol: float = 1e-6,
        safe: bool = True,
    ) -> None:
        low, high = (torch.as_tensor(each, dtype=param.dtype) for each in (low, high))
        squashed = (param + (high - low) / 2 + low).tanh()
        if safe:
            limit = 1.0 - torch.finfo(param.dtype).resolution
            squashed = squashed.clamp(-limit, limit)
        self.mode: Tensor = squashed * ((high - low) / 2) + (high + low) / 2

    @property
    def deterministic_sample(self) -> Tensor:
        return self.mode

    @property
    def mean(self) -> Tensor:
        raise AttributeError("TanhDelta has no mean in closed form")

    def rsample(self) -> Tensor:
        return self.mode


FORMULAS: dict[Any, type[Formula]] = {
    TruncatedNormal: TruncatedNormalFormula,
    TanhDelta: TanhDeltaFormula,
}


def _density(x: Tensor) -> Tensor:
    density: Tensor = (-(x**2) * 0.5).exp() * INV_SQRT_2PI
    return density


def _cumulative(x: Tensor) -> Tensor:
    below: Tensor = (0.5 * (1 + (x * INV_SQRT_2).erf())).clamp(EPS, 1 - EPS)
    return below


class DistributionHead(RewrittenStage):
    """The action that a distribution gives for an interaction type; log-probabilities where they
    are wanted."""

    def __init__(
        self, module: ProbabilisticTensorDictModule, interaction_type: InteractionType
    ) -> None:
        super().__init__(module)
        self.interaction_type = interaction_type
        self.wants_log_prob = False
        if module.num_samples is not None:
            raise ExportError(
                f"the policy draws {tuple(module.num_samples)} samples for one observation",
                code="RW143",
                where=type(module).__name__,
                hint="export a policy with num_samples=None",
            )

    @property
    def distribution_name(self) -> str:
        """The name of the distribution, which findings show."""
        given = self.module.distribution_class
        return getattr(given, "__name__", type(given).__name__)

    @property
    def caveat(self) -> Finding | None:
        """What to know if the artifact and TorchRL do not agree."""
        if (
            self.module.distribution_class is not TruncatedNormal
            or self.interaction_type.value == "mode"
        ):
            return None
        return Finding(
            code="RW142",
            where=f"exploration={self.interaction_type.value!r}",
            what="TruncatedNormal divides by the difference of two nearly equal float32 numbers "
            "where the mean lies far outside the bounds; there no two libraries agree",
            hint="keep the mean near the bounds (tanh on the network's output), or export "
            "exploration='mode', which is exact",
            severity="note",
        )

    def compute(self, values: TensorDictBase) -> None:
        distribution = self._distribution(values)
        action = self._action(distribution)
        if isinstance(action, TensorDictBase):
            values.update(action)
        else:
            tensors = action if isinstance(action, tuple) else (action,)
            for key, tensor in zip(self.module.dist_sample_keys, tensors, strict=True):
                values.set(key, tensor)
        if self.wants_log_prob:
            self._score(values, distribution, action)

    def _distribution(self, values: TensorDictBase) -> Any:
        module: Any = self.module
        formula = FORMULAS.get(module.distribution_class)
        if formula is None:
            return module.get_dist(values)
        arguments = {
            key_path(name)[-1]: values.get(key)
            for name, key in zip(module.dist_keys, module.in_keys, strict=True)
        }
        return formula(**arguments, **dict(module.distribution_kwargs))

    def _action(self, distribution: Any) -> Any:
        if self.interaction_type is InteractionType.RANDOM:
            drawn = getattr(distribution, "has_rsample", True)
            return distribution.rsample() if drawn else distribution.sample()
        if self.interaction_type in (InteractionType.MEAN, InteractionType.MODE):
            return self._closed_form(distribution, self.interaction_type.value)
        if type(distribution) in FORMULAS.values():
            return distribution.deterministic_sample
        return self.module._dist_sample(distribution, interaction_type=self.interaction_type)

    def _closed_form(self, distribution: Any, value_name: str) -> Any:
        try:
            value = getattr(distribution, value_name)
        except _NO_CLOSED_FORM as error:
            raise self._refused(value_name, f"has no {value_name} in closed form") from error
        if not torch.compiler.is_compiling():
            tensors = value.values(True, True) if isinstance(value, TensorDictBase) else [value]
            if any(tensor.isnan().all() for tensor in tensors):
                raise self._refused(value_name, f"has no {value_name}: TorchRL gives NaN")
        return value

    def _refused(self, value_name: str, why: str) -> ExportError:
        return ExportError(
            f"{self.distribution_name} {why}",
            code="RW142",
            where=f"exploration={value_name!r}",
            hint="exploration='deterministic' gives the value that TorchRL acts with in evaluation",
        )

    def _score(self, values: TensorDictBase, distribution: Any, action: Any) -> None:
        if isinstance(action, TensorDictBase) or type(distribution) in FORMULAS.values():
            raise ExportError(
                f"the log-probability of a {self.distribution_name} cannot be exported",
                code="RW143",
                where=str(self.module.log_prob_keys[0]),
                hint="leave it out of outputs=: acting does not need it",
            )
        values.set(self.module.log_prob_key, distribution.log_prob(action))
