"""The source: a live module, and everything about it that the module does not say."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from roadworthy.errors import Finding, UsageError, did_you_mean
from roadworthy.spec.layout import Layout, layout_of, ports_of, unpack
from roadworthy.spec.port import About
from roadworthy.spec.signature import Action
from roadworthy.spec.transforms import ActionStep, Argmax, MultiDiscrete, Normalizer

FORWARD = "forward"
FIRST_INPUT = "first input"
# What the memory is called that tells the first step of an episode from others.
STARTED = ("started", "episode_started")
Place = int | str | tuple[int | str, ...]
_STARRED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
# What an argument that never changes can be.
_PLAIN = (type(None), bool, int, float, str)
# Keywords that go by name, and what is written for them.
_BY_NAME = {
    "memory": "{'h': 'hidden'}",
    "about": "{'obs': rw.About(unit='rad')}",
    "dynamic": "{'tokens': {1: 'length'}}",
    "constants": "{'deterministic': True}",
}


@dataclass(frozen=True, slots=True)
class Attribute:
    """Memory that the module keeps itself, at a dotted path (`"encoder.state"`).

    `initial` is where an episode starts: a number or a tensor, "current" for what the attribute
    holds now, or "first input" where the first call of an episode makes it from what it is given
    (`if self.history is None: …`). Left out, the attribute must hold zeros, or None: values of an
    earlier step would otherwise travel with the policy.

    It may be a tensor or a number, a list, a tuple, a deque, a dict or a dataclass of these.
    """

    path: str
    initial: Any = None


@dataclass(frozen=True, slots=True)
class Argument:
    """Memory that is an argument, and where its successor stands among the results.

    `returned` is a position, a key or a field, or several of them, from the outside to the inside:
    `(1, "h")`. Negative positions count from the end.
    """

    initial: Any
    returned: Place | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Rewriting:
    """What a module was rewritten from: the truth that an artifact is compared with.

    `module` has the same arguments and results. `begin` is told which rows start anew at the next
    step. `keywords` are those that make the source once more, as a user types them. `caveats` are
    said beside a certificate that failed, `notes` beside every one. `alone` is the source of a
    truth that also normalises and acts: nothing of the rewriting is put around it.
    """

    module: torch.nn.Module
    keywords: str
    begin: Callable[[torch.Tensor], None] | None = None
    caveats: tuple[Finding, ...] = ()
    notes: tuple[Finding, ...] = ()
    alone: Source | None = None


@dataclass(frozen=True, eq=False)
class Source:
    """A module to export.

    example     a value for every input, batch axis first; the names become port names
    memory      what persists between steps: the name of a forward argument → its initial value,
                or a name of your own → the path of an attribute that the module keeps ("hidden",
                or an `Attribute` that also says where it starts)
    method      what is called: the name of a method ("act_inference"), or a function of the module
                and its inputs (lambda m, obs: m.act(obs)[0])
    constants   arguments that are the same at every call: {"deterministic": True}
    normalizer  a module or tagged statistics for the input; a mapping where there are several
    outputs     a name for each returned tensor; None leaves one out
    action      steps applied to the first output, in order
    about       port name → description, unit, element names, limits
    period_s    seconds between two steps
    frame_skip  for how many frames of its environment one action holds, where that is known
    dynamic     port name → {axis: name} for sizes that vary besides the batch
    batch       None: any number of rows; a number: that one only
    meaning     what the first output means to an environment, where `action` does not say it
    ignore      what persists between calls and does not matter, by name: "steps"
    rewritten   what `module` is a rewriting of, where an adapter made it
    origin      the checkpoint that it was read from, and who said what the file does not say
    """

    module: torch.nn.Module
    example: Any = field(kw_only=True)
    memory: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    normalizer: Normalizer | torch.nn.Module | Mapping[str, Any] | None = field(
        default=None, kw_only=True
    )
    outputs: Sequence[str | None] | None = field(default=None, kw_only=True)
    action: ActionStep | Sequence[ActionStep] = field(default=(), kw_only=True)
    about: Mapping[str, About] = field(default_factory=dict, kw_only=True)
    period_s: float | None = field(default=None, kw_only=True)
    frame_skip: int | None = field(default=None, kw_only=True)
    dynamic: Mapping[str, Mapping[int, str]] = field(default_factory=dict, kw_only=True)
    batch: int | None = field(default=None, kw_only=True)
    meaning: Action | None = field(default=None, kw_only=True)
    ignore: Sequence[str] = field(default=(), kw_only=True)
    rewritten: Rewriting | None = field(default=None, kw_only=True)
    origin: Mapping[str, Any] | None = field(default=None, kw_only=True)
    method: str | Callable[..., Any] = field(default=FORWARD, kw_only=True)
    constants: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "module", _unwrapped(self.module))
        if not isinstance(self.module, torch.nn.Module):
            raise UsageError(
                f"expected a torch.nn.Module, got {type(self.module).__name__}",
                hint="wrap it in a torch.nn.Module whose forward calls it",
            )
        findings = list(_no_mappings(self))
        if findings:
            raise UsageError(findings=findings)
        if not isinstance(self.action, (tuple, list)):
            object.__setattr__(self, "action", (self.action,))
        names = (self.ignore,) if isinstance(self.ignore, str) else tuple(self.ignore)
        object.__setattr__(self, "ignore", names)
        _refuse_no_method(self.module, self.method)
        _refuse_bad_constants(self.constants)
        _refuse_bad_batch(self.batch)
        object.__setattr__(self, "example", self._named_example())
        memory = {
            name: Attribute(each) if isinstance(each, str) else each
            for name, each in self.memory.items()
        }
        object.__setattr__(self, "memory", memory)

    @functools.cached_property
    def function(self) -> Callable[..., Any]:
        """What is called with the inputs: the module, a method of it, or a function of it."""
        if not isinstance(self.method, str):
            return functools.partial(self.method, self.module)
        # The module itself, so that its hooks run too.
        own = self.method == FORWARD
        return self.module if own else getattr(self.module, self.method)

    @property
    def code(self) -> Callable[..., Any]:
        """The function whose lines are cited: a method as its class has it."""
        if not isinstance(self.method, str):
            return self.method
        found: Callable[..., Any] | None = getattr(type(self.module), self.method, None)
        return found or getattr(self.module, self.method)

    @property
    def called(self) -> str:
        """What is called, as messages say it: `forward`, `act_inference`, `method=`."""
        return self.method if isinstance(self.method, str) else "method="

    @functools.cached_property
    def arguments(self) -> dict[str, inspect.Parameter]:
        """The arguments of what is called, without those that are constant."""
        known = inspect.signature(
            getattr(self.module, self.method) if isinstance(self.method, str) else self.function
        ).parameters
        return {name: each for name, each in known.items() if name not in self.constants}

    @functools.cached_property
    def parameters(self) -> list[str]:
        """The names of the arguments, without `*args` and `**kwargs`."""
        return [n for n, each in self.arguments.items() if each.kind not in _STARRED]

    @property
    def named(self) -> dict[str, Any]:
        """What the first call of an episode is given beside its inputs: constants, and memory."""
        memory = {n: each for n, each in self.memory.items() if not isinstance(each, Attribute)}
        starts = {n: e.initial if isinstance(e, Argument) else e for n, e in memory.items()}
        return {**self.constants, **starts}

    @property
    def takes_any_name(self) -> bool:
        """Whether it is `forward(**ports)`: every port by its name, whatever that is."""
        return [each.kind for each in self.arguments.values()] == [inspect.Parameter.VAR_KEYWORD]

    @functools.cached_property
    def steps(self) -> tuple[ActionStep, ...]:
        return tuple(self.action)  # type: ignore[arg-type]  # made a sequence in __post_init__

    @functools.cached_property
    def inputs(self) -> dict[str, Layout]:
        """Each named example, as the layout of the ports it is made of."""
        return {name: layout_of(name, value) for name, value in self.example.items()}

    @functools.cached_property
    def ports(self) -> list[str]:
        """The names of the ports that the examples are made of."""
        return [name for layout in self.inputs.values() for name in ports_of(layout)]

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """Port name → example tensor, on the CPU."""
        found: dict[str, torch.Tensor] = {}
        for name, layout in self.inputs.items():
            found |= unpack(layout, self.example[name])
        alone = len(found) == 1
        return {name: _tensor(name, value, alone=alone) for name, value in found.items()}

    @functools.cached_property
    def masks(self) -> list[str]:
        """The inputs that only the action steps read."""
        return [s.mask for s in self.steps if isinstance(s, (Argmax, MultiDiscrete)) and s.mask]

    def normalizers(self) -> dict[str, Normalizer | torch.nn.Module]:
        """Port name → its normaliser."""
        if self.normalizer is None:
            return {}
        ports = self.ports
        if isinstance(self.normalizer, Mapping):
            unknown = [name for name in self.normalizer if name not in ports]
            if unknown:
                raise UsageError(
                    f"normalizer= names {unknown[0]!r}, which is not an input",
                    hint=f"inputs: {', '.join(ports)}",
                )
            return dict(self.normalizer)
        tensors = self.tensors
        floating = [name for name in ports if tensors[name].is_floating_point()]
        if len(floating) != 1:
            raise UsageError(
                f"one normaliser, and {len(floating)} float inputs: {', '.join(floating)}",
                hint=f"say whose it is: normalizer={{{(floating or ports)[0]!r}: …}}",
            )
        return {floating[0]: self.normalizer}

    def _named_example(self) -> dict[str, Any]:
        if isinstance(self.example, Mapping):
            example = dict(self.example.items())  # a TensorDict has neither a truth nor such keys
            if not example:
                raise UsageError("the example is empty", hint="pass example={'obs': obs}")
            for name in example:
                if not isinstance(name, str):
                    raise UsageError(
                        f"the example has the key {name!r}, expected a name",
                        hint="pass example={'obs': obs}",
                    )
            return example
        parameters = self.parameters
        return {parameters[0] if parameters else "obs": self.example}


def _no_mappings(source: Source) -> Iterator[Finding]:
    """What is wrong with the keywords that go by name."""
    for keyword, such_as in _BY_NAME.items():
        value = getattr(source, keyword)
        hint = f"pass {keyword}={such_as}"
        if not isinstance(value, Mapping):
            what = f"expected a mapping from names, got {type(value).__name__}"
            yield Finding(code=UsageError.code, where=f"{keyword}=", what=what, hint=hint)
            continue
        expected = {"about": About, "dynamic": Mapping}.get(keyword, object)
        for name, each in value.items():
            if not isinstance(name, str) or not isinstance(each, expected):
                what = f"expected {such_as}, got {name!r}: {type(each).__name__}"
                yield Finding(code=UsageError.code, where=f"{keyword}=", what=what, hint=hint)


def _refuse_no_method(module: torch.nn.Module, method: str | Callable[..., Any]) -> None:
    if not isinstance(method, str):
        if not callable(method):
            raise UsageError(
                f"method= is a {type(method).__name__}, expected a name or a function",
                hint="method='act_inference', or method=lambda m, obs: m.act(obs)[0]",
            )
        return
    if not callable(getattr(module, method, None)):
        own = [name for name in dir(type(module)) if not name.startswith("_")]
        written = [name for name in own if not hasattr(torch.nn.Module, name)]
        raise UsageError(
            f"{type(module).__name__} has no method {method!r}",
            where="method",
            hint=did_you_mean(method, [*written, FORWARD]),
        )


def _refuse_bad_batch(batch: object) -> None:
    if batch is not None and (isinstance(batch, bool) or not isinstance(batch, int) or batch < 1):
        raise UsageError(
            f"expected a number of rows, got {batch!r}",
            where="batch",
            hint="batch=1 for a file that takes one row and no other; leave it out for any number",
        )


def _refuse_bad_constants(constants: Mapping[str, Any]) -> None:
    for name, value in constants.items():
        if not is_constant(value):
            raise UsageError(
                f"the constant is a {type(value).__name__}, expected a plain value",
                where=f"constants {name!r}",
                hint=f"a tensor that changes belongs into the example; one that does not: "
                f"method=lambda m, obs: m(obs, {name}=value)",
            )


def is_constant(value: object) -> bool:
    """Whether an argument of this value can be a constant: nothing of it can change."""
    if isinstance(value, (tuple, list)):
        return all(map(is_constant, value))
    if isinstance(value, Mapping):
        return all(map(is_constant, value.values()))
    return isinstance(value, _PLAIN)


def _unwrapped(module: Any) -> Any:
    """The module itself, without the wrappers that only training needs."""
    if isinstance(module, (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)):
        return _unwrapped(module.module)
    if isinstance(module, torch.jit.ScriptModule):
        raise UsageError(
            "a TorchScript module cannot be captured",
            where=type(module).__name__,
            hint="pass the Python module that it was made from",
        )
    # torch.compile wraps a module in another that holds the first under this name.
    return getattr(module, "_orig_mod", module)


def _tensor(name: str, value: Any, *, alone: bool) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        # As a runtime hands it over: in one piece, whatever view the example is.
        return value.detach().to("cpu", copy=True).contiguous()
    if isinstance(value, (np.ndarray, np.generic)):
        return torch.as_tensor(np.array(value))
    outer, _, inner = name.rpartition(".")
    if is_constant(value) and not alone and not inner.isdigit():
        raise UsageError(
            f"expected a tensor or an array, got {value!r}",
            where=f"example {name!r}",
            hint=f"if it is the same at every call, leave it out of the example: "
            f"constants={{{name!r}: {value!r}}}"
            if not outer
            else f"if it is the same at every call, leave it out of the example, and put it there: "
            f"method=lambda m, {outer}: m({{**{outer}, {inner!r}: {value!r}}})",
        )
    raise UsageError(
        f"expected a tensor or an array, got {type(value).__name__}",
        where=f"example {name!r}",
        hint="pass torch.as_tensor(value), batch axis first",
    )
