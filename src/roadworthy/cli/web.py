"""`roadworthy web`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roadworthy.cli.console import out, print_json
from roadworthy.playground.site import web as write_site
from roadworthy.spec.limits import size_text


def web(
    folder: Annotated[Path, typer.Argument(help="A bundle folder.")],
    output: Annotated[Path, typer.Option("-o", "--out", help="The site's folder.")] = Path("site"),
    env: Annotated[
        str | None,
        typer.Option(help="Runs in the page: CartPole-v1, Pendulum-v1, Acrobot-v1, MountainCar-v0"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write a static site in which the bundle runs in the browser. Needs no network.

    roadworthy web walker -o site

    roadworthy web cartpole -o site --env CartPole-v1
    """
    place = write_site(folder, output, env=env)
    size = sum(each.stat().st_size for each in place.iterdir())
    if as_json:
        print_json({"site": str(place), "bytes": size})
    else:
        out().print(f"open {place / 'index.html'} ({size_text(size)} in all)")
