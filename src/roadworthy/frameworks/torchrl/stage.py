"""A stage: what a policy, and every transform around it, is a sequence of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from tensordict import TensorDictBase, unravel_key_list
from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn

from roadworthy.frameworks.torchrl.keys import NestedKey, is_within

# Where the memory of transforms lies in the TensorDict: no key of a user's begins like this.
MEMORY = "_memory"


class Stage(nn.Module):
    """A module that reads keys of a TensorDict and writes others.

    name     what findings call it
    memory   name → (the key that is read, the key that is written for the next step)
    initial  name → the value at which one row starts, with a batch axis of size 1

    Here the module itself runs on the TensorDict; subclasses run it in another way.
    """

    def __init__(
        self,
        module: TensorDictModuleBase,
        *,
        name: str | None = None,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        memory: Mapping[str, tuple[NestedKey, NestedKey]] | None = None,
        initial: Mapping[str, Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.name = type(module).__name__ if name is None else name
        read = module.in_keys if in_keys is None else in_keys
        written = module.out_keys if out_keys is None else out_keys
        self.in_keys: tuple[NestedKey, ...] = tuple(unravel_key_list(list(read)))
        self.out_keys: tuple[NestedKey, ...] = tuple(unravel_key_list(list(written)))
        self.memory = dict(memory or {})
        self.initial = dict(initial or {})
        # The names of initializers in ONNX files contain the name of this attribute.
        self.module = module

    def forward(self, values: TensorDictBase) -> TensorDictBase:
        result: TensorDictBase = self.module(values)
        return result


class RewrittenStage(Stage):
    """A module whose maths is written again; its forward hooks (`safe=True`) still run."""

    def forward(self, values: TensorDictBase) -> TensorDictBase:
        self.compute(values)
        for hook in self.module._forward_hooks.values():
            replaced = hook(self.module, (values,), values)
            values = values if replaced is None else replaced
        return values

    def compute(self, values: TensorDictBase) -> None:
        """Writes the out_keys into `values`."""
        raise NotImplementedError


class TransformStage(Stage):
    """A transform of the environment, computed by a module over tensors.

    The module takes the tensors of `in_keys` and then the memory, and returns those of `out_keys`
    and then the memory. The memory lies under keys of its own.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        name: str,
        in_keys: Sequence[NestedKey],
        out_keys: Sequence[NestedKey],
        initial: Mapping[str, Tensor],
    ) -> None:
        places: dict[str, NestedKey] = {each: (MEMORY, each) for each in initial}
        super().__init__(
            module,
            name=name,
            in_keys=in_keys,
            out_keys=out_keys,
            memory={each: (key, key) for each, key in places.items()},
            initial=initial,
        )
        self.memory_keys = tuple(places.values())

    def forward(self, values: TensorDictBase) -> TensorDictBase:
        given = [values.get(key) for key in (*self.in_keys, *self.memory_keys)]
        result = self.module(*given)
        tensors = result if isinstance(result, (tuple, list)) else (result,)
        for key, tensor in zip((*self.out_keys, *self.memory_keys), tensors, strict=True):
            values.set(key, tensor)
        return values

    def with_memory_names(self, names: Sequence[str]) -> TransformStage:
        """The same stage with other names for its memory."""
        return TransformStage(
            self.module,
            name=self.name,
            in_keys=self.in_keys,
            out_keys=self.out_keys,
            initial=dict(zip(names, self.initial.values(), strict=True)),
        )


def run_stages(stages: Iterable[nn.Module], values: TensorDictBase) -> TensorDictBase:
    """What is in the TensorDict after every stage, without TorchRL's checks of distributions."""
    validated = torch.distributions.Distribution._validate_args
    # They read tensors as Python booleans, which a graph cannot hold.
    torch.distributions.Distribution.set_default_validate_args(False)
    try:
        for stage in stages:
            values = stage(values)
        return values
    finally:
        torch.distributions.Distribution.set_default_validate_args(validated)


def needed_stages(stages: Sequence[Stage], keys: Sequence[NestedKey]) -> list[Stage]:
    """The stages that `keys` depend on, in order; a value head beside the policy is left out."""
    wanted, needed = list(keys), []
    for stage in reversed(stages):
        if not stage.out_keys or any(is_within(o, w) for o in stage.out_keys for w in wanted):
            wanted += stage.in_keys
            needed.append(stage)
    return needed[::-1]
