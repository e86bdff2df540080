"""`roadworthy compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roadworthy.cli.console import out, print_json, table, working
from roadworthy.cli.objects import explained
from roadworthy.cli.options import AsJson, Canary, EpisodeSeed
from roadworthy.cli.play import environment

if TYPE_CHECKING:
    from roadworthy.show.compare import PolicyComparison


def compare(
    one: Annotated[Path, typer.Argument(help="A bundle folder.")],
    other: Annotated[Path, typer.Argument(help="A bundle folder with the same signature.")],
    env: Annotated[
        str | None,
        typer.Option(help="Play both: Gymnasium id, module:Id, or file.py:make_env."),
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, help="How many episodes each plays.")] = 20,
    output: Annotated[
        Path | None, typer.Option("-o", "--out", help="An HTML report to write as well.")
    ] = None,
    seed: EpisodeSeed = 0,
    canary: Canary = True,
    as_json: AsJson = False,
) -> None:
    """Put two bundles of one signature side by side, on the same observations and episodes.

    roadworthy compare walker-old walker-new

    roadworthy compare old new --env CartPole-v1 --episodes 50 -o compare.html
    """
    from roadworthy.show.compare import compare as compare_bundles  # other verbs start without it

    with working(silent=as_json) as progress, explained(env or ""):
        found = compare_bundles(
            one,
            other,
            output,
            env=None if env is None else environment(env),
            episodes=episodes,
            seed=seed,
            canary=canary,
            progress=progress,
        )
    if as_json:
        print_json(found.to_json() | {"report": None if output is None else str(output)})
        return
    _print(found)
    if output is not None:
        out().print(f"the report is {output}")


def _print(found: PolicyComparison) -> None:
    console = out()
    gaps = table("observations", "output", ">equal", ">mean distance", ">worst", "where")
    for row in found.rows():
        gaps.add_row(*row)
    facts = table("", *found.names)
    for name, both in found.facts.items():
        facts.add_row(name, *both)
    console.print(gaps, "", facts)
    if found.returns:
        console.print("", str(found.returns).replace(" against ", f" ({found.names[1]}) against "))
