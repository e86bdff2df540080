"""Options that several verbs share, stated once: a type each, or the fields of a dataclass.

A parameter of a verb whose type is a dataclass stands for the fields in it that have a help:
`spread` makes options of them, and hands the verb the dataclass.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import Field, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from roadworthy.api.options import FLAGS, HELP, option
from roadworthy.spec.targets import DEFAULT, TARGETS


def _listed(words: Iterable[str], last: str) -> str:
    *first, final = words
    return f"{', '.join(first)} {last} {final}" if first else final


def _meant(name: str) -> str:
    return f"{name} (the default)" if name == DEFAULT else name


_MEANINGS = "; ".join(f"{_meant(row.name)}: {row.about}" for row in TARGETS.values())

# What `--help` says of targets, read off their table.
WRITTEN = f"{_MEANINGS}. Again for more."
RUN = f"{_listed((*map(_meant, TARGETS), 'wasm'), 'or')}; again for more."
TRUST = f"Open files that are code: {_listed((n for n, r in TARGETS.items() if r.code), 'and')}."
SHOWN = (
    f"Whose graph: {_listed((n for n, r in TARGETS.items() if r.graph), 'or')}. "
    "The first in the bundle if not said."
)

Folder = Annotated[Path, typer.Argument(help="A bundle folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Trust = Annotated[bool, typer.Option("--trust", help=TRUST)]
Canary = Annotated[
    bool,
    typer.Option(
        help="Try a file that was never loaded before in a child process first, under limits."
    ),
]
EpisodeSeed = Annotated[int, typer.Option(min=0, help="Seed of the first episode.")]
AxisSizes = Annotated[
    list[str] | None,
    typer.Option("--size", help="NAME=NUMBER: an axis of the C that dynamic= left open: agents=8"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyAtOnce:
    """Whether many policies are done at once, and how."""

    jobs: int | None = option("--jobs", min=1, help="Many at once, in so many processes.")
    ray: str | None = option("--ray", help="Many at once, on the Ray cluster at ADDRESS.")
    again: bool = option("--again", help="Do again what an earlier run has done.", default=False)


@dataclass(frozen=True, slots=True)
class Only:
    """Which fields of a dataclass a verb takes: `Annotated[Described, Only("settings")]`."""

    names: tuple[str, ...]


def spread(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb as Typer calls it: with the fields of its dataclasses as options of their own."""
    parameters: list[inspect.Parameter] = []
    taken: dict[str, tuple[type, list[str]]] = {}
    hints = get_type_hints(verb, include_extras=True)
    for parameter in inspect.signature(verb).parameters.values():
        hint = hints[parameter.name]
        kind = getattr(hint, "__origin__", hint)
        if not (isinstance(kind, type) and is_dataclass(kind)):
            parameters.append(_keyword(parameter.name, hint, parameter.default))
            continue
        only = next((entry.names for entry in getattr(hint, "__metadata__", ())), None)
        types = get_type_hints(kind)
        options = [
            _keyword(entry.name, _option(entry, types[entry.name]), entry.default)
            for entry in fields(kind)
            if HELP in entry.metadata and (only is None or entry.name in only)
        ]
        parameters += options
        taken[parameter.name] = (kind, [entry.name for entry in options])

    @functools.wraps(verb)
    def call(**values: Any) -> None:
        for name, (kind, options) in taken.items():
            values[name] = kind(**{option: values.pop(option) for option in options})
        verb(**values)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {entry.name: entry.annotation for entry in parameters}
    return call


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _option(field: Field[Any], kind: Any) -> Any:
    """The type of a field as Typer reads it: annotated with what the field says of its option."""
    given = {key: value for key, value in field.metadata.items() if key != FLAGS}
    return Annotated[kind, typer.Option(*field.metadata.get(FLAGS, ()), **given)]
