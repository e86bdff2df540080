"""What an export may be asked for besides its source. Every keyword is a field, stated once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from roadworthy.errors import UsageError
from roadworthy.errors.progress import Progress, Say
from roadworthy.spec import targets as target_table
from roadworthy.spec.robot_reading import RobotMetadata

if TYPE_CHECKING:
    from roadworthy.capture.program import Program
    from roadworthy.targets.backend import Backend, Settings

P = ParamSpec("P")
R = TypeVar("R")
Table = Mapping[Any, Callable[..., Any]]
# What a field says of itself to the command line, which has no option for one without a help.
FLAGS, HELP = "flags", "help"


def option(*flags: str, help: str, default: Any = None, **more: Any) -> Any:  # noqa: A002
    """A field that is an option of the command line too; `more` is what else Typer is told."""
    return field(default=default, metadata={FLAGS: flags, HELP: help, **more})


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """How the artifact is written: nothing here changes what the policy does.

    opset, ir_version  of the ONNX file
    seed               of the recorded and compared steps
    allow_uncertified  keep a bundle that failed; the waiver is recorded in its manifest
    progress           called with each stage of the work, in words; False says nothing, and by
                       default long work shows its stage on a terminal or in a notebook
    """

    opset: int = option(help="ONNX opset, 18 to 23.", default=20)
    ir_version: int = option(help="ONNX IR version, 8 to 11.", default=10)
    seed: int = option(help="Seed of the recorded and compared steps.", min=0, default=0)
    allow_uncertified: bool = option(
        help="Keep a bundle that failed; recorded in its manifest.", default=False
    )
    progress: Progress = None

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise UsageError(f"seed must be 0 or more, got {self.seed}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportPlan(ExportOptions):
    """All that was asked for: the options, the targets, the user's own operators, repairs.

    `frame_skip` and `metadata` go into the signature beside the ports.
    `memory_defaults` and `whole_sigmoids` are as the backends' settings say
    """

    targets: Sequence[str] = (target_table.DEFAULT,)
    translations: Table = field(default_factory=dict)
    decompositions: Table = field(default_factory=dict)
    fix: bool = option("--fix", help="Repair what is safe to repair, in a copy.", default=False)
    frame_skip: int | None = option(min=1, help="Frames of the environment that one action lasts.")
    metadata: RobotMetadata | None = None
    memory_defaults: bool = False
    whole_sigmoids: bool = False

    def __post_init__(self) -> None:
        ExportOptions.__post_init__(self)
        if self.translations or self.decompositions:
            from roadworthy.targets.custom import refuse_bad_tables  # PyTorch comes with it

            refuse_bad_tables(self.translations, self.decompositions)
        # Each once, in the order of the registry: the order in which they are said means nothing.
        wanted = (self.targets,) if isinstance(self.targets, str) else tuple(self.targets)
        for name in wanted:
            target_table.get(name)
        if not wanted:
            raise UsageError("targets is empty", hint=f"targets=[{target_table.DEFAULT!r}]")
        object.__setattr__(
            self, "targets", tuple(name for name in target_table.names() if name in wanted)
        )

    def completed(self, program: Program) -> Program:
        """The program, with what was said about frames and the robot in its signature."""
        from roadworthy.spec.completing import completed

        steps = [step["kind"] for step in program.recipe.get("action", ())]
        signature = completed(
            program.signature, frame_skip=self.frame_skip, metadata=self.metadata, steps=steps
        )
        return replace(program, signature=signature)

    def say(self, stage: str) -> None:
        if callable(self.progress):
            self.progress(stage)

    def saying(self, say: Say) -> ExportPlan:
        """The plan that says its stages so."""
        return replace(self, progress=say)

    @property
    def settings(self) -> Settings:
        """What of this concerns the backends."""
        from roadworthy.targets.backend import Settings

        return Settings(**{entry.name: getattr(self, entry.name) for entry in fields(Settings)})

    def backend(self, target: str) -> Backend:
        """The backend of a target, set as the options say."""
        from roadworthy.targets import backend as backends

        return backends.get(target).configured(self.settings)

    def backends(self) -> dict[str, Backend]:
        """The backend of every target."""
        return {name: self.backend(name) for name in self.targets}


def options_in(options: ExportOptions | None) -> dict[str, Any]:
    """The fields of public options, by their names."""
    options = options or ExportOptions()
    return {entry.name: getattr(options, entry.name) for entry in fields(ExportOptions)}


def with_keywords_of(
    call: Callable[..., Any], names: Sequence[str]
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator for a function that hands these keywords of another call on to it.

    They are stated there; here they stand in the signature, for `help` and for the docs.
    """
    theirs = inspect.signature(call).parameters

    def stated(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        first, *others = signature.parameters.values()
        parameters = [first, *(theirs[name] for name in names), *others]
        function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return function

    return stated


def refuse_bare_options(keywords: Mapping[str, Any]) -> None:
    """An error for an option that stands beside `options=`, and not in it."""
    known = {entry.name for entry in fields(ExportOptions)}
    bare = [name for name in keywords if name in known]
    if bare:
        shown = ", ".join(f"{name}={keywords[name]!r}" for name in bare)
        raise UsageError(
            f"{', '.join(bare)}: said to export itself",
            where="export(…)",
            hint=f"these are options of the file: options=rw.ExportOptions({shown})",
        )
