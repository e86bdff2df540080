"""From an environment and its actor to a Program of two rates."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from roadworthy.capture.export_mode import collecting_rarely, one_thread, uncompiled
from roadworthy.capture.memory import one_row
from roadworthy.capture.program import Program, source_name
from roadworthy.capture.substitution import Read
from roadworthy.environment import registration
from roadworthy.environment.exportable import ExportableEnvironment
from roadworthy.environment.free_run import free_run
from roadworthy.environment.hidden import hidden
from roadworthy.environment.horizon import Horizon
from roadworthy.environment.ignoring import not_ignored
from roadworthy.environment.life import Life
from roadworthy.environment.movement import Movement, movement
from roadworthy.environment.paths import Place, find
from roadworthy.environment.running import Running, running
from roadworthy.environment.source import CLOCK, EnvironmentSource, Tensors, results
from roadworthy.environment.stepping import CapturedHalf, captured_halves, set_evaluation_mode
from roadworthy.environment.steps import EnvironmentSteps, environment_steps
from roadworthy.environment.ticks import eager, watch_ticks
from roadworthy.environment.two_rates import TwoRates
from roadworthy.environment.unseen import constants, unseen
from roadworthy.errors import ExportError, Finding
from roadworthy.inspection.snapshot import preserved
from roadworthy.runtime.policy import Policy
from roadworthy.spec.certificate import Check
from roadworthy.spec.port import BATCH, About, Array, Memory, Port, freeze
from roadworthy.spec.sampling import Sampling
from roadworthy.spec.signature import Action, Signature
from roadworthy.verification.originals.original import Original, Yardstick


@dataclass(frozen=True, slots=True, eq=False)
class EnvironmentOriginal(Original):
    """A captured environment: its program, and everything needed to step the original beside it."""

    source: EnvironmentSource
    program: Program
    initial: Tensors
    observed: Mapping[str, Array]
    horizon: Horizon
    # What the environment lived through when it was captured; None where it must live once more.
    life: Life | None

    @property
    def rows(self) -> int | None:
        return self.source.rows

    @contextmanager
    def open(self, signature: Signature, *, rows: int) -> Iterator[EnvironmentSteps]:
        with environment_steps(self.source, self.initial, signature.decimation) as live:
            yield live

    def draw(
        self,
        signature: Signature,
        rng: np.random.Generator,
        *,
        steps: int,
        rows: int,
        sampling: Sampling,
    ) -> dict[str, Array]:
        """Values that the environment really had, and others near them."""
        return {port.name: _near(self.observed[port.name], rng, steps) for port in signature.inputs}

    def yardstick(self, signature: Signature) -> Yardstick:
        return TwoRates(self.program)

    def advisories(self, signature: Signature) -> Sequence[Finding]:
        found = [*self.source.env.advisories(), *map(_unused, sorted(self.source.unused))]
        if self.source.rows > 1 and all(BATCH not in port.shape for port in signature.inputs):
            found.append(_fixed_rows(self.source))
        return found

    def extra_checks(self, policy: Policy) -> Sequence[Check]:
        signature = policy.signature
        truth = partial(self.yardstick, signature)
        return [free_run(policy, self.source, self.horizon, truth, self.life)]


def capture_environment(
    source: EnvironmentSource, *, contract: bool = False
) -> EnvironmentOriginal:
    """The captured environment, or every mistake in its registration at once.

    `contract` asks for what Exploy's controller can run.
    """
    env, actor = source.env, source.actor
    with collecting_rarely(), uncompiled(), preserved(env, actor), one_thread():
        set_evaluation_mode(env, actor)
        env.prepare_export()
        wrong = registration.problems(source, contract=contract)
        if wrong:
            raise ExportError(findings=wrong)
        ran = running(source)
        halves = captured_halves(source)
        _refuse_randomness(halves)
        moved = movement(source, ran.codes, {name: half.reads for name, half in halves.items()})
        source, halves = _complete(source, halves, moved, ran)
        source, halves = _pruned(source, halves)
        # A life in which nobody knew of what is handed over does not tell of it.
        life = None if source.handed_over else moved.life
        initial = _initial(source) if life is None else life.starts[0][1]
        alone = contract or source.rows == 1 or _shared_by_rows(source, initial)
        several = None if alone else _symbolic_halves(source)
        halves = several or halves
        signature = _signature(source, initial, symbolic=several is not None)
        reads = [read for half in _that_run(source, halves).values() for read in half.reads]
        for half in halves.values():
            half.own_constants()
        return EnvironmentOriginal(
            source=source,
            program=Program(
                signature=signature,
                graph=halves["step"].graph,
                substep=halves["substep"].graph,
                recipe={
                    "environment": type(env).__qualname__,
                    "constants": _constants(source, reads),
                    "handed_over": sorted(source.handed_over),
                    **({"ignore": sorted(source.ignore)} if source.ignore else {}),
                },
                source_name=source_name(env),
                metadata=_metadata(env),
            ),
            initial=initial,
            observed={name: moved.observed[name] for name in source.inputs},
            horizon=moved.horizon,
            life=life,
        )


def _complete(
    source: EnvironmentSource, halves: dict[str, CapturedHalf], moved: Movement, ran: Running
) -> tuple[EnvironmentSource, dict[str, CapturedHalf]]:
    """The source with what process_actions hands over; hidden inputs are refused."""
    run = _that_run(source, halves)
    reads = {name: half.reads for name, half in run.items()}
    reached = {name: half.reach for name, half in run.items()}
    found, handed_over = hidden(source, reads, moved, constants(halves), ran.codes_of_step, reached)
    findings = [*(each.finding(source) for each in found), *ran.findings]
    findings = not_ignored(source, findings)
    findings += unseen(source, moved)
    if findings:
        raise ExportError(findings=findings)
    if not handed_over:
        return source, halves
    taken = {*source.memory, *source.inputs, *source.outputs}
    roots = source.roots
    named = {_name(place, taken): partial(place.get, roots) for place in handed_over}
    source = replace(source, handed_over=named)
    return source, captured_halves(source)


def _that_run(
    source: EnvironmentSource, halves: dict[str, CapturedHalf]
) -> dict[str, CapturedHalf]:
    """Without the ticks between two decisions where every tick decides: nobody waits for those."""
    return halves if source.env.decimation > 1 else {"step": halves["step"]}


def _pruned(
    source: EnvironmentSource, halves: dict[str, CapturedHalf]
) -> tuple[EnvironmentSource, dict[str, CapturedHalf]]:
    """The source without the Inputs that reach nothing, as generic registrations have them.

    By the graph and not by trial: a command that only matters while a selector is on is used.
    """
    used = [half.reach.inputs for half in halves.values()]
    unused = [name for name, *by in zip(source.ports, *used, strict=True) if not any(by)]
    unused = [name for name in unused if name in source.inputs]
    if not unused:
        return source, halves
    if len(unused) == len(source.inputs):
        raise ExportError(
            f"no output and no memory depends on any of the Inputs: {', '.join(unused)}",
            code="RW122",
            hint="return the tensors that the environment really reads: rw.discover(env, actor) "
            "lists them",
        )
    source = replace(source, unused=frozenset(unused))
    return source, captured_halves(source)


def _name(place: Place, taken: set[str]) -> str:
    short = place.path.rpartition(".")[2].strip("_")
    return place.path if short in taken else short


def _refuse_randomness(halves: Mapping[str, CapturedHalf]) -> None:
    places = dict.fromkeys(place for half in halves.values() for place in half.draws)
    if places:
        raise ExportError(
            findings=[
                Finding(
                    code="RW123",
                    where=place,
                    what="the environment draws random numbers here, and a file must not",
                    hint="switch the noise off for the export, or keep it in a tensor and "
                    "register that as an Input",
                )
                for place in places
            ]
        )


def _initial(source: EnvironmentSource) -> Tensors:
    """Memory as it is when an episode begins."""
    with preserved(*source.roots.values()), eager(source), watch_ticks(source) as live:
        live.restart()
        return live.memory()


def _shared_by_rows(source: EnvironmentSource, initial: Tensors) -> bool:
    """Whether a memory is one for all environments: then they can only be reset together."""
    return any(BATCH not in source.shape(value, symbolic=True) for value in initial.values())


def _unused(name: str) -> Finding:
    return Finding(
        code="RW132",
        where=name,
        what="is registered as Input, and no output and no memory depends on it: it was left out "
        "of the file",
        hint="nothing to do, unless the policy should read it: then return the tensor that the "
        "environment really reads",
        severity="note",
    )


def _fixed_rows(source: EnvironmentSource) -> Finding:
    rows = source.rows
    return Finding(
        code="RW189",
        severity="warning",
        where=type(source.env).__name__,
        what=f"the file takes exactly {rows} rows: the environment was made with {rows} "
        "environments, and its code or its constants depend on that number",
        hint="make the environment with one environment, and export that",
    )


def _symbolic_halves(source: EnvironmentSource) -> dict[str, CapturedHalf] | None:
    """Both halves for any number of environments; None where the code knows its number."""
    try:
        halves = captured_halves(source, symbolic=True)
    except ExportError:
        return None
    rows = source.rows
    for half in halves.values():
        for node in half.graph.graph.find_nodes(op="output")[0].args[0]:
            shape = node.meta["val"].shape
            if rows in [size for size in shape if isinstance(size, int)] and all(
                isinstance(size, int) for size in shape
            ):
                return None
    return halves


def _signature(source: EnvironmentSource, initial: Tensors, *, symbolic: bool) -> Signature:
    with preserved(*source.roots.values()), torch.inference_mode():
        outputs, _ = results(source, source.step, torch.Tensor.clone)
    about = dict(source.env.about()) | _observation_names(source)

    def port(name: str, value: torch.Tensor) -> Port:
        shape = source.shape(value, symbolic=symbolic)
        return Port(name=name, dtype=_dtype(value), shape=shape, about=about.get(name, About()))

    return Signature(
        inputs=tuple(port(name, read()) for name, read in source.inputs.items()),
        outputs=tuple(port(name, value) for name, value in outputs.items()),
        memory=tuple(
            Memory(
                name=name,
                dtype=_dtype(value),
                shape=source.shape(value, symbolic=symbolic),
                initial=freeze(_one_row(source, name, value) if symbolic else value),
                input=f"memory.{name}.in",
                output=f"memory.{name}.out",
            )
            for name, value in initial.items()
        ),
        action=Action(output="actions", kind="continuous"),
        decimation=source.env.decimation,
        period_s=source.env.tick_s,
        clock=CLOCK,
        robot=source.env.robot(),
    )


def _observation_names(source: EnvironmentSource) -> dict[str, About]:
    """The names of the observations' elements, by port, where there is one for each."""
    names = tuple(source.env.get_observation_names())
    widths = {port: each.shape[-1] for port, each in source.empty_observations().items()}
    if len(names) != sum(widths.values()):
        return {}
    found: dict[str, About] = {}
    for port, width in widths.items():
        found[port], names = About(elements=names[:width]), names[width:]
    return found


def _near(seen: Array, rng: np.random.Generator, steps: int) -> Array:
    picked = seen[np.arange(steps) % len(seen)]
    if seen.dtype == np.bool_:  # a selector that no run switched on is switched on now and then
        return picked ^ (rng.random(picked.shape) < 0.2)
    if seen.dtype.kind != "f":
        return picked
    spread = seen.std(axis=0) + 0.05
    near: Array = (picked + 0.2 * spread * rng.standard_normal(picked.shape)).astype(seen.dtype)
    return near


def _constants(source: EnvironmentSource, reads: list[Read]) -> list[str]:
    """The paths of what was read, never moved, and is now part of the graph."""
    _, known = find(source.roots)
    found = {known[id(read.tensor)] for read in reads if id(read.tensor) in known}
    return sorted({place.public(source.roots) for place in found})


def _metadata(env: ExportableEnvironment) -> dict[str, str]:
    registered = {key: json.dumps(v) for key, v in env.context_manager().metadata.items()}
    return dict(env.metadata()) | registered


def _one_row(source: EnvironmentSource, name: str, value: torch.Tensor) -> torch.Tensor:
    shape = source.shape(value, symbolic=True)
    return one_row(name, value, shape.index(BATCH)) if BATCH in shape else value


def _dtype(value: torch.Tensor) -> str:
    return str(value.dtype).removeprefix("torch.")
