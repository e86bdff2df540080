"""Mistakes in a registration, all at once: each would export a file that does something else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from roadworthy.environment.numbers import WRITTEN, Number, write
from roadworthy.environment.source import ACTIONS, CLOCK, OBSERVATIONS, EnvironmentSource
from roadworthy.errors import Finding, UsageError
from roadworthy.inspection.snapshot import preserved

CONTRACT_DTYPES = (torch.float32, torch.int32, torch.bool)


def problems(source: EnvironmentSource, *, contract: bool) -> list[Finding]:
    """What is wrong with the registration; `contract` adds what Exploy's controller cannot run."""
    found = [*_names(source), *_metadata(source), *_tensors(source, contract=contract)]
    if found:
        return found
    return [*_shapes(source), *_shared(source), *_copied(source)]


def _finding(where: str, what: str, hint: str = "") -> Finding:
    return Finding(code="RW122", where=where, what=what, hint=hint)


def _names(source: EnvironmentSource) -> Iterator[Finding]:
    context = source.env.context_manager()
    used = Counter([*context.get_input_names(), *context.get_output_names()])
    used.update(group.name for group in context.groups)
    for name, count in used.items():
        if count > 1:
            yield _finding(name, f"the name is used {count} times", "give each its own name")
        if name in (ACTIONS, OBSERVATIONS, CLOCK):
            yield _finding(name, "the name is reserved for the policy", "choose another name")
        if not name.isprintable() or not name.strip() or name != name.strip():
            yield _finding(repr(name), "not a usable port name", "use printable text")
    if not source.inputs:
        yield _finding(
            "environment",
            "no Input is registered",
            "register what the policy reads: rw.discover(env, actor) lists it",
        )


def _metadata(source: EnvironmentSource) -> Iterator[Finding]:
    said: dict[Any, Any] = dict(source.env.metadata())
    for key, value in said.items():
        if not isinstance(key, str) or not isinstance(value, str):
            yield _finding(
                f"metadata {key!r}",
                f"expected text, got {type(value).__name__}",
                f"json.dumps({value!r})",
            )


def _tensors(source: EnvironmentSource, *, contract: bool) -> Iterator[Finding]:
    for name, read in (source.ports | source.outputs).items():
        value: Any = read()
        if not isinstance(value, torch.Tensor):
            yield _finding(
                name,
                f"the callback returns a {type(value).__name__}, expected a tensor",
                "return the tensor that the environment keeps",
            )
        elif contract and value.dtype not in CONTRACT_DTYPES:
            yield _finding(
                name,
                f"Exploy's controller cannot pass {str(value.dtype).removeprefix('torch.')}",
                "use float32, int32 or bool",
            )


def _shapes(source: EnvironmentSource) -> Iterator[Finding]:
    with preserved(*source.roots.values()), torch.inference_mode():
        observations = source.env.compute_observations()
        try:
            with _layers_called(source.actor) as called:
                actions = source.actor(observations)
        except Exception:
            layer, expected, got = called[-1] if called else ("", 0, 0)
            if expected == got:
                raise
            shown = tuple(observations.shape) if isinstance(observations, torch.Tensor) else "them"
            yield _finding(
                "compute_observations",
                f"returns observations of shape {shown}, and the actor is for others: its layer "
                f"{layer} takes {expected} numbers, and got {got}",
                "export the actor that was trained in this environment, or give the environment "
                "the observations of its training",
            )
            return
    empty = source.env.empty_actions()
    if actions.shape != empty.shape:
        yield _finding(
            "empty_actions",
            f"returns shape {tuple(empty.shape)}, the actor's actions have {tuple(actions.shape)}",
            "return zeros of the actions' shape",
        )


@contextmanager
def _layers_called(actor: torch.nn.Module) -> Iterator[list[tuple[str, int, int]]]:
    """A list that grows with each layer that is called: its name, the width it takes and gets."""
    called: list[tuple[str, int, int]] = []

    def note(name: str, expected: int) -> Callable[[Any, tuple[Any, ...]], None]:
        def hook(layer: Any, given: tuple[Any, ...]) -> None:
            if given and isinstance(given[0], torch.Tensor) and given[0].ndim:
                called.append((name, expected, given[0].shape[-1]))

        return hook

    with ExitStack() as hooks:
        for name, layer in actor.named_modules():
            expected = getattr(layer, "in_features", getattr(layer, "input_size", None))
            if isinstance(expected, int):
                handle = layer.register_forward_pre_hook(note(name, expected))
                hooks.callback(handle.remove)
        yield called


def _shared(source: EnvironmentSource) -> Iterator[Finding]:
    seen: dict[tuple[object, ...], str] = {}
    for name, read in source.ports.items():
        tensor = read()
        place: tuple[object, ...] = (tensor.data_ptr(), *tensor.shape, *tensor.stride())
        if isinstance(read, WRITTEN):
            place = (read.place.path,) if isinstance(read, Number) else (id(read),)
        if place in seen and tensor.numel():
            yield _finding(
                name, f"is the same tensor as {seen[place]}", "register it once, under one name"
            )
        seen.setdefault(place, name)


def _copied(source: EnvironmentSource) -> Iterator[Finding]:
    """Callbacks that return a copy: what is written there never reaches the environment."""
    for name, read in (source.inputs | source.memory).items():
        with preserved(*source.roots.values()), torch.inference_mode():
            try:
                write(name, read, _moved(read()))
            except UsageError as error:
                yield error.findings[0]


def _moved(tensor: torch.Tensor) -> torch.Tensor:
    """Other values: integers by integers, so that an index stays an index."""
    if tensor.dtype == torch.bool:
        return ~tensor
    if not tensor.is_floating_point():
        return torch.where(tensor > 0, tensor - 1, tensor + 1)
    steps = torch.linspace(0.1, 0.4, tensor.numel()).reshape(tensor.shape)
    return tensor + steps.to(tensor)
