"""Heads: from the parameters of a distribution, or from action values, to the action."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import InteractionType, ProbabilisticTensorDictModule
from torchrl.modules import DistributionalQValueModule, TruncatedNormal

from roadworthy.adapters.torchrl.distributions import FORMULAS
from roadworthy.adapters.torchrl.keys import parts_of
from roadworthy.adapters.torchrl.part import Replaced
from roadworthy.errors import ExportError, Finding

# What a distribution raises when it has no such value in closed form.
_NO_CLOSED_FORM = (AttributeError, NotImplementedError, RuntimeError)


class Head(Replaced):
    """The action that a distribution gives, in one of TorchRL's ways; log-probabilities too."""

    def __init__(self, module: ProbabilisticTensorDictModule, way: InteractionType) -> None:
        super().__init__(module, in_keys=module.in_keys, out_keys=module.out_keys)
        self.way = way
        self.scored = False
        if module.num_samples is not None:
            raise ExportError(
                f"the policy draws {tuple(module.num_samples)} samples for one observation",
                code="RW143",
                where=type(module).__name__,
                hint="export a policy with num_samples=None",
            )

    @property
    def name(self) -> str:
        given = self.module.distribution_class
        return getattr(given, "__name__", type(given).__name__)

    @property
    def caveat(self) -> Finding | None:
        """What to know if the artifact and TorchRL do not agree."""
        if self.module.distribution_class is not TruncatedNormal or self.way.value == "mode":
            return None
        return Finding(
            code="RW142",
            where=f"exploration={self.way.value!r}",
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
        if self.scored:
            self._score(values, distribution, action)

    def _distribution(self, values: TensorDictBase) -> Any:
        module: Any = self.module
        formula = FORMULAS.get(module.distribution_class)
        if formula is None:
            return module.get_dist(values)
        arguments = {
            parts_of(name)[-1]: values.get(key)
            for name, key in zip(module.dist_keys, module.in_keys, strict=True)
        }
        return formula(**arguments, **dict(module.distribution_kwargs))

    def _action(self, distribution: Any) -> Any:
        if self.way is InteractionType.RANDOM:
            drawn = getattr(distribution, "has_rsample", True)
            return distribution.rsample() if drawn else distribution.sample()
        if self.way in (InteractionType.MEAN, InteractionType.MODE):
            return self._closed_form(distribution, self.way.value)
        if type(distribution) in FORMULAS.values():
            return distribution.deterministic_sample
        return self.module._dist_sample(distribution, interaction_type=self.way)

    def _closed_form(self, distribution: Any, way: str) -> Any:
        try:
            value = getattr(distribution, way)
        except _NO_CLOSED_FORM as error:
            raise self._refused(way, f"has no {way} in closed form") from error
        if not torch.compiler.is_compiling():
            tensors = value.values(True, True) if isinstance(value, TensorDictBase) else [value]
            if any(tensor.isnan().all() for tensor in tensors):
                raise self._refused(way, f"has no {way}: TorchRL gives NaN")
        return value

    def _refused(self, way: str, why: str) -> ExportError:
        return ExportError(
            f"{self.name} {why}",
            code="RW142",
            where=f"exploration={way!r}",
            hint="exploration='deterministic' gives the value that TorchRL acts with in evaluation",
        )

    def _score(self, values: TensorDictBase, distribution: Any, action: Any) -> None:
        if isinstance(action, TensorDictBase) or type(distribution) in FORMULAS.values():
            raise ExportError(
                f"the log-probability of a {self.name} cannot be exported",
                code="RW143",
                where=str(self.module.log_prob_keys[0]),
                hint="leave it out of outputs=: acting does not need it",
            )
        values.set(self.module.log_prob_key, distribution.log_prob(action))


class DistributionalHead(Replaced):
    """The best action by expected value over the atoms of a categorical return."""

    def __init__(self, module: DistributionalQValueModule) -> None:
        super().__init__(module, in_keys=module.in_keys, out_keys=module.out_keys)
        if module.action_space not in ("one_hot", "categorical"):
            raise ExportError(
                f"action space {module.action_space!r} cannot be exported",
                code="RW143",
                where=type(module).__name__,
                hint="use 'one_hot' or 'categorical'",
            )

    def compute(self, values: TensorDictBase) -> None:
        module: Any = self.module
        logs = values.get(module.action_value_key)
        if module.action_mask_key is not None:
            mask = values.get(module.action_mask_key)
            logs = torch.where(mask, logs, torch.finfo(logs.dtype).min)
        expected = (logs.exp() * module.support.unsqueeze(-1)).sum(-2)
        if module.action_space == "one_hot":
            action = (expected == expected.amax(-1, keepdim=True)).to(torch.long)
        else:
            action = expected.argmax(-1)
        values.set(self.out_keys[0], action)
        values.set(self.out_keys[1], logs)
