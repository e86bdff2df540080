"""Experiments on the live policy that answer what a module does not say of itself."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from roadworthy.capture.compose import ComposedPolicy, PureStep
from roadworthy.capture.failures import explained
from roadworthy.capture.memory import (
    GROUPED,
    Slot,
    Tensors,
    axes_to_try,
    carried,
    grouped_rows,
    one_row,
    with_grouped,
)
from roadworthy.capture.state.starts import Works, declaration_of, made_at_first
from roadworthy.errors import ExportError, RoadworthyError, UsageError
from roadworthy.errors.lines import current_line
from roadworthy.inspection.snapshot import preserved
from roadworthy.spec.tolerance import SAME_POLICY

Results = tuple[torch.Tensor, ...]
# Each seed again, in no order that something else could follow by chance.
_SEEDS = (2, 1, 2, 2, 1, 1, 2)


def resized(example: Tensors, sizes: Mapping[str, Mapping[int, int]]) -> Tensors:
    """The example with axes stretched or cut to the given sizes; rows differ where they can."""
    result: Tensors = {}
    for name, tensor in example.items():
        for axis, size in sizes.get(name, {}).items():
            index = torch.arange(size) % tensor.shape[axis]
            tensor = tensor.index_select(axis, index)
        result[name] = _spread(tensor)
    return result


def _spread(tensor: torch.Tensor) -> torch.Tensor:
    """Equal rows made different, so that mixing them up cannot go unnoticed."""
    if not tensor.is_floating_point() or tensor.ndim == 0:
        return tensor.clone()
    steps = torch.arange(tensor.shape[0], dtype=torch.float64) * 0.03125
    shifted = tensor + steps.reshape(-1, *(1,) * (tensor.ndim - 1)).to(tensor.dtype)
    return shifted.to(tensor.dtype)


def expanded(
    rows: Mapping[str, torch.Tensor], axes: Mapping[str, int | None], count: int
) -> Tensors:
    """Initial memory of one row, repeated for `count` rows."""
    result: Tensors = {}
    for name, row in rows.items():
        axis = axes[name]
        result[name] = (row if axis is None else row.repeat_interleave(count, dim=axis)).clone()
    return result


def run(step: PureStep, inputs: Tensors, memory: Tensors) -> Results:
    """One step of the composed policy; a failure inside the user's code is explained."""
    ordered = [inputs[name] for name in step.composed.input_names]
    ordered += [memory[name] for name in step.composed.memory_names]
    source = step.composed.source
    asked, given = (next(iter(each.values())).shape[0] for each in (inputs, source.tensors))
    with explained(source, None if asked == given else asked), torch.no_grad():
        outputs: Results = step(*ordered)
    return outputs


def batch_axes(step: PureStep, initial: Tensors, example: Tensors) -> dict[str, int]:
    """Where each memory has its batch axis: the way in which some rows equal each row alone.

    Changes the composed policy: its slots say of which memory there are several rows for each row.
    """
    count = _unlike_any_size(step.composed.module, initial, example)
    several = resized(example, {name: {0: count} for name in example})
    alone = [{name: tensor[i : i + 1] for name, tensor in several.items()} for i in range(count)]
    differing: UsageError | None = None
    numeric: Exception | None = None
    ran: tuple[tuple[Slot, ...], Tensors] | None = None
    slots = step.composed.slots
    grouped = grouped_rows(slots, initial, next(iter(example.values())).shape[0])
    for way in axes_to_try(slots, initial, grouped):
        axes = {name: 0 if axis == GROUPED else axis for name, axis in way.items()}
        counts = {name: grouped[name] for name, axis in way.items() if axis == GROUPED}
        step.composed.memory_axes = {name: max(axis, 0) for name, axis in axes.items()}
        step.composed.slots = with_grouped(slots, counts) if counts else slots
        held = carried(step.composed.slots, initial)
        try:
            rows = {name: one_row(name, value, axes[name]) for name, value in held.items()}
        except UsageError as error:
            differing = error
            continue
        try:
            laid = step.composed.memory_axes
            together = run(step, several, expanded(rows, laid, count))
            singles = [run(step, one, expanded(rows, laid, 1)) for one in alone]
        except Exception as error:  # a wrong axis fails in whatever way the user's code fails
            numeric = numeric or (error if _reads_number(error) else None)
            continue
        if _keeps_shape(step, together, expanded(rows, laid, count)) and _row_by_row(
            step, together, singles, {name: axis or 0 for name, axis in laid.items()}
        ):
            return axes
        ran = step.composed.slots, expanded(rows, laid, count)
    step.composed.slots = slots
    if numeric is not None:
        raise numeric
    if differing is not None:
        raise differing
    if ran is not None:
        step.composed.slots = ran[0]
        refuse_randomness(step, several, ran[1])  # rows that are drawn follow nothing
    shapes = ", ".join(f"{name} {tuple(value.shape)}" for name, value in initial.items())
    raise ExportError(
        f"no axis of the memory follows the batch: {shapes}",
        code="RW110",
        where="memory",
        hint="reset the module first, and give the memory one row for each row of the example, or "
        "several for each, one behind the other: batch * agents",
    )


def _unlike_any_size(module: torch.nn.Module, *some: Tensors) -> int:
    """A number of rows that nothing else is the size of: three rows beside three columns fit in
    two ways."""
    held = [*module.parameters(), *module.buffers(), *(v for each in some for v in each.values())]
    sizes = {size for tensor in held for size in tensor.shape}
    return next((count for count in (3, 5, 7, 11) if count not in sizes), 13)


def _reads_number(error: Exception) -> bool:
    """Whether the code reads a number that is memory as only Python can."""
    return isinstance(error, RoadworthyError) and any(f.code == "RW103" for f in error.findings)


def refuse_randomness(step: PureStep, inputs: Tensors, memory: Tensors) -> None:
    """An error if the same inputs give different outputs."""
    first, again, other = (_seeded(step, inputs, memory, seed) for seed in (1, 1, 2))
    _refuse_unseeded(step, first, again)
    if not _close(first, other):
        for seed in _SEEDS:  # a clock that goes on between two seeds is no randomness
            _refuse_unseeded(
                step, first if seed == 1 else other, _seeded(step, inputs, memory, seed)
            )
        flag = _flag_against_randomness(step, inputs, memory)
        raise ExportError(
            "the outputs are random: the same inputs gave different values",
            code="RW111",
            where=random_line(step, inputs, memory) or type(step.composed.module).__name__,
            hint=f"{step.composed.source.called} has an argument that ends it: constants={flag!r}"
            if flag
            else "return the mean or the mode of the distribution instead of a sample",
        )


def _refuse_unseeded(step: PureStep, first: Results, later: Results) -> None:
    """An error for two calls from the same seed that gave different values."""
    if not _close(first, later):
        names = [*step.outputs, *step.composed.memory_names]
        calls = (dict(zip(names, each, strict=True)) for each in (first, later))
        raise _unlike(step.composed, *calls)


def _seeded(step: PureStep, inputs: Tensors, memory: Tensors, seed: int) -> Results:
    with preserved(step.composed.module, step.composed.normalizers):
        torch.manual_seed(seed)
        np.random.seed(seed)  # modules that draw use the global generator
        random.seed(seed)
        return run(step, inputs, memory)


def _flag_against_randomness(step: PureStep, inputs: Tensors, memory: Tensors) -> dict[str, bool]:
    """The argument, such as `deterministic`, with which nothing is drawn; found by trying."""
    composed = step.composed
    for name, argument in composed.source.arguments.items():
        if not isinstance(argument.default, bool):
            continue
        flag = {name: not argument.default}
        told = replace(composed.source, constants={**composed.source.constants, **flag})
        other = ComposedPolicy(told, composed.calling, composed.slots)
        other.memory_axes = composed.memory_axes
        try:
            quiet = PureStep(other, step.outputs)
            if _close(*(_seeded(quiet, inputs, memory, seed) for seed in (1, 2))):
                return flag
        except Exception:  # whatever the user's code does with the flag
            continue
    return {}


class _FirstDraw(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the line at which a random number is first drawn."""

    line = ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.Tag.nondeterministic_seeded in func.tags and not self.line:
            self.line = current_line()
        return func(*args, **(kwargs or {}))


def random_line(step: PureStep, inputs: Tensors, memory: Tensors) -> str:
    """The line at which a step first draws a random number; empty where it is not known."""
    draws = _FirstDraw()  # type: ignore[no-untyped-call]
    with preserved(step.composed.module), draws:
        run(step, inputs, memory)
    return draws.line


def refuse_unseen_state(
    step: PureStep, inputs: Tensors, memory: Tensors, works: Works | None = None
) -> None:
    """An error if an earlier step changes what a later step returns, by whatever way."""
    module, normalizers = step.composed.module, step.composed.normalizers
    other = {n: t + 1 if t.is_floating_point() else t.clone() for n, t in inputs.items()}
    with preserved(module, normalizers):
        call_natively(step.composed, other, memory)
        later = call_natively(step.composed, inputs, memory)
    with preserved(module, normalizers):
        first = call_natively(step.composed, inputs, memory)
    if _close(tuple(later.values()), tuple(first.values())):
        return
    if works is not None and not step.composed.source.ignore:
        _refuse_made_at_first(step, inputs, memory, works)
    raise _unlike(step.composed, first, later)


def _refuse_made_at_first(step: PureStep, inputs: Tensors, memory: Tensors, works: Works) -> None:
    """An error with the declaration of what a first call makes, where that can be declared."""
    module = step.composed.module
    places = made_at_first(module, lambda: call_natively(step.composed, inputs, memory))
    declared = [slot.path for slot in step.composed.slots]
    fresh = [each for each in places if each.partition("[")[0] not in declared]
    said = declaration_of(fresh, works)
    if said:
        raise ExportError(
            "the first call of an episode leaves something that every later call reads",
            code="RW112",
            where=f"{type(module).__name__}.{fresh[0]}",
            hint=f"declare what persists: {said}",
        )


def _unlike(composed: ComposedPolicy, first: Tensors, later: Tensors) -> ExportError:
    """The error for two calls that should be alike, with the values that show it."""
    seen = next(
        _differing(name, first[name], later[name])
        for name in first
        if not _close((first[name],), (later[name],))
    )
    ignored = ", ".join(composed.source.ignore)
    return ExportError(
        f"two calls with the same inputs gave {seen}"
        + (
            f": what is ignored matters: {ignored}"
            if ignored
            else ", from the same tensors and numbers in the module"
        ),
        code="RW112",
        where=type(composed.module).__name__,
        hint="declare what persists with memory=…, make an input of what is asked of the world, "
        "and take it out of ignore="
        if ignored
        else "look for what else forward reads: a global, a closure or another object that it "
        "writes, the clock, a random generator of its own. Draw no random numbers, keep state in a "
        "tensor attribute and declare it: memory={'name': 'attribute'}",
    )


def _differing(name: str, one: torch.Tensor, other: torch.Tensor) -> str:
    """`0.1 and 0.3 for actions[0][1]`: the element at which two results differ most."""
    if one.shape != other.shape:
        return f"shapes {tuple(one.shape)} and {tuple(other.shape)} for {name}"
    worst = int((other.double() - one.double()).abs().nan_to_num(torch.inf).argmax())
    place = "".join(f"[{int(each)}]" for each in np.unravel_index(worst, tuple(one.shape)))
    values = " and ".join(f"{float(each.flatten()[worst]):.6g}" for each in (one, other))
    return f"{values} for {name}{place}"


def call_natively(composed: ComposedPolicy, inputs: Tensors, memory: Tensors) -> Tensors:
    """The outputs of a call that leaves its marks on the module."""
    with explained(composed.source), torch.no_grad():
        outputs, _ = composed(
            {name: value.clone() for name, value in inputs.items()},
            {name: value.clone() for name, value in memory.items()},
        )
    return dict(outputs)


def _keeps_shape(step: PureStep, results: Results, memory: Tensors) -> bool:
    after = results[len(step.outputs) :]
    return all(a.shape == b.shape for a, b in zip(after, memory.values(), strict=True))


def _row_by_row(
    step: PureStep,
    together: Results,
    singles: list[Results],
    axes: Mapping[str, int],
) -> bool:
    positions = [*(0 for _ in step.outputs), *(axes[n] for n in step.composed.memory_names)]
    for index, (result, axis) in enumerate(zip(together, positions, strict=True)):
        stacked = torch.cat([single[index] for single in singles], dim=axis)
        if not _close((result,), (stacked,)):
            return False
    return True


def _close(one: Results, other: Results) -> bool:
    return all(SAME_POLICY.close(b, a) for a, b in zip(one, other, strict=True))


def symbolic_shapes(
    step: PureStep, sized: Any, memory: Any, symbols: list[str]
) -> list[tuple[int | str, ...]]:
    """The shape of every result; a size that follows a symbol bears its name."""
    base_sizes = dict.fromkeys(symbols, 0)
    base = run(step, sized(base_sizes), memory(base_sizes))
    shapes: list[list[int | str]] = [list(result.shape) for result in base]
    for symbol in symbols:
        grown_sizes = base_sizes | {symbol: 1}
        grown = run(step, sized(grown_sizes), memory(grown_sizes))
        for shape, small, large in zip(shapes, base, grown, strict=True):
            for axis, (before, after) in enumerate(zip(small.shape, large.shape, strict=True)):
                if after == before + 1:
                    shape[axis] = symbol
    return [tuple(shape) for shape in shapes]
