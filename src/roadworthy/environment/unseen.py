"""What a search shows to be wrong: nothing moved or was reset, an Input that is memory, an Output
that nothing writes, a reset that nobody was told of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch.fx import Node

from roadworthy.environment.movement import Movement
from roadworthy.environment.nudging import tensor_matters
from roadworthy.environment.numbers import WRITTEN
from roadworthy.environment.source import EnvironmentSource
from roadworthy.environment.stepping import CapturedHalf
from roadworthy.errors import Finding

# A few are enough: the far values find most thresholds.
MOST_CONSTANTS = 8


def unseen(source: EnvironmentSource, moved: Movement) -> list[Finding]:
    """Findings for a search that has seen nothing, and for what it has seen and must not be."""
    return [
        *_unwritten(source, moved),
        *_untold(source, moved),
        *_still(source, moved),
        *_never_reset(source, moved),
        *_written(source, moved),
    ]


def _unwritten(source: EnvironmentSource, moved: Movement) -> Iterator[Finding]:
    for name in source.outputs:
        if name not in moved.outputs_written:
            yield Finding(
                code="RW122",
                where=name,
                what="no step writes this output",
                hint="return the tensor that apply_actions writes",
            )


def _untold(source: EnvironmentSource, moved: Movement) -> Iterator[Finding]:
    if moved.untold_reset is not None:
        step, names = moved.untold_reset
        yield Finding(
            code="RW133",
            where=f"{type(source.env).__name__}.step",
            what=f"after its last tick, step {step} changed memory ({', '.join(names)}) and told "
            "of no reset: the file would go on with what it remembers",
            hint="return whether a reset happened: return observations, bool(done.any())",
        )


def _still(source: EnvironmentSource, moved: Movement) -> Iterator[Finding]:
    if not moved.inputs_moved:
        steps = moved.horizon.steps
        yield Finding(
            code="RW128",
            where=f"{type(source.env).__name__}.step",
            what=f"the search has seen nothing: in {steps} steps no Input moved "
            f"({', '.join(source.inputs)})",
            hint="let step() advance the world, and let each Input return the tensor that the "
            "world writes",
        )


def _never_reset(source: EnvironmentSource, moved: Movement) -> Iterator[Finding]:
    declared = [each.name for each in source.env.context_manager().get_memory_components()]
    if declared and not moved.resets:
        yield Finding(
            code="RW128",
            where=f"{type(source.env).__name__}.observations_reset",
            what="the search has seen nothing: observations_reset() changes no Input and no "
            f"memory, and there is memory to reset ({', '.join(declared)})",
            hint="put the state and the memory back where an episode begins in "
            "observations_reset(), then return compute_observations()",
        )


def _written(source: EnvironmentSource, moved: Movement) -> Iterator[Finding]:
    """Inputs in which the captured step leaves something for the next one to read."""
    for name, mask in moved.inputs_written.items():
        read = source.inputs[name]
        part = None if isinstance(read, WRITTEN) else mask.numpy()
        if part is None or any(
            tensor_matters(source, half, read(), part, also=[read]) for half in ("step", "substep")
        ):
            yield Finding(
                code="RW122",
                where=name,
                what="is registered as Input, and the step itself writes it: nobody outside could "
                "know what the file must be given",
                hint=f"register it as Memory: Memory({name!r}, …) with the same callback",
            )


def constants(halves: Mapping[str, CapturedHalf]) -> list[float]:
    """The numbers in the captured graphs, the largest first."""
    found: set[float] = set()
    for half in halves.values():
        for node in half.graph.graph.nodes:
            found |= set(_numbers(node))
    return sorted(found, key=abs, reverse=True)[:MOST_CONSTANTS]


def _numbers(node: Node) -> Iterator[float]:
    if node.op != "call_function":
        return
    for each in node.args:
        if isinstance(each, (int, float)) and not isinstance(each, bool) and 2 <= abs(each) < 1e9:
            yield float(each)
