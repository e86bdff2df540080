"""Discovery: the registration that an environment needs, proposed by watching it live."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from roadworthy.capture.export_mode import one_thread, uncompiled
from roadworthy.environment.exportable import ExportableEnvironment
from roadworthy.environment.hidden import Hidden, hidden
from roadworthy.environment.movement import movement
from roadworthy.environment.paths import Place, find
from roadworthy.environment.running import running
from roadworthy.environment.source import EnvironmentSource, refuse_other_types
from roadworthy.environment.stepping import captured_halves, set_evaluation_mode
from roadworthy.environment.unseen import constants
from roadworthy.errors.unforeseen import answers
from roadworthy.inspection.snapshot import changed, preserved, values


@dataclass(frozen=True, slots=True, eq=False)
class Discovery:
    """What is missing from a registration. Printing it gives the lines to add."""

    source: EnvironmentSource
    proposals: tuple[Hidden, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(each.line(self.source) for each in self._lines())

    def _lines(self) -> list[Hidden]:
        """What a line can register: what no attribute leads to needs other code."""
        return [each for each in self.proposals if each.place is not None]

    def register(self) -> None:
        """Accept the proposal: every component is added to the context manager."""
        context = self.source.env.context_manager()
        for each in self._lines():
            context.add_component(each.component(self.source))

    def __str__(self) -> str:
        others = [each for each in self.proposals if each not in self._lines()]
        asked = [str(each.finding(self.source)) for each in others]
        return "\n".join([*self.lines, *asked]) or "nothing is missing"


@answers
def discover(env: ExportableEnvironment, actor: torch.nn.Module) -> Discovery:
    """The components that the environment lacks; it is handed back as it was.

    Printed, they are the lines to add; `register()` adds them.
    """
    refuse_other_types(env)
    source = EnvironmentSource(env, actor)
    with uncompiled(), preserved(env, actor), one_thread():
        set_evaluation_mode(env, actor)
        env.prepare_export()
        halves = captured_halves(source)
        reads = {name: half.reads for name, half in halves.items()}
        ran = running(source)
        moved = movement(source, ran.codes, reads)
        reached = {name: half.reach for name, half in halves.items()}
        found, handed_over = hidden(
            source, reads, moved, constants(halves), ran.codes_of_step, reached
        )
        known = [each.place for each in found if each.place] + handed_over
        found += _outputs(source, {place.path for place in known})
    return Discovery(source, tuple(_named(source, found)))


def _named(source: EnvironmentSource, found: list[Hidden]) -> Iterator[Hidden]:
    """The proposals, each with a name of its own: as much of its path as that takes."""
    context = source.env.context_manager()
    taken = {
        each.name for each in (*context.get_input_components(), *context.get_output_components())
    }
    alike: dict[str, list[Hidden]] = {}
    for each in found:
        if each.place is None:
            yield each
        else:
            alike.setdefault(each.name, []).append(each)
    for name, several in alike.items():
        if len(several) == 1 and name not in taken:
            yield several[0]
            continue
        labels = _told_apart([each.place.path for each in several if each.place], taken)
        yield from (replace(e, label=label) for e, label in zip(several, labels, strict=True))


def _told_apart(paths: list[str], taken: set[str]) -> list[str]:
    """The ends of the paths, of the least length at which no two of them are the same."""
    parts = [[part for part in re.split(r"[^0-9A-Za-z]+", path) if part] for path in paths]
    for length in range(2, max(map(len, parts)) + 1):
        said = ["_".join(each[-length:]) for each in parts]
        if len(set(said)) == len(said) and not taken.intersection(said):
            return said
    return paths


def _outputs(source: EnvironmentSource, taken: set[str]) -> list[Hidden]:
    """Tensors that apply_actions writes and nothing reads: commands, if none is registered."""
    if source.outputs:
        return []
    with preserved(*source.roots.values()), torch.inference_mode():
        actions = source.actor(source.env.compute_observations())
        source.env.process_actions(actions)
        before = values(source.roots)
        source.env.apply_actions()
        written = changed(before, values(source.roots))
    places, _ = find(source.roots)
    ports = {id(read()) for read in source.ports.values()}
    found = []
    for path in written:
        place = places.get(path)
        value = place.get(source.roots) if place else None
        if (
            place
            and path not in taken
            and isinstance(value, torch.Tensor)
            and id(value) not in ports
        ):
            found.append(Hidden(Place(path, place.keys), "Output", ""))
    return found
