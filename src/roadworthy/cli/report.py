"""`roadworthy report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roadworthy.cli.console import out, print_json, working
from roadworthy.cli.objects import explained
from roadworthy.cli.options import AsJson, Canary, EpisodeSeed
from roadworthy.cli.play import environment
from roadworthy.spec.certificate import Certificate
from roadworthy.spec.limits import size_text


def report(
    subject: Annotated[Path, typer.Argument(help="A bundle folder, or the file of a flight.")],
    output: Annotated[Path, typer.Option("-o", "--out", help="The HTML file to write.")] = Path(
        "report.html"
    ),
    bundle: Annotated[
        Path | None, typer.Option(help="Of a flight: the bundle that flew, to repeat it.")
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option(help="What `roadworthy verify --json` printed; else the bundle's own."),
    ] = None,
    env: Annotated[
        str | None,
        typer.Option(help="Play the artifact: Gymnasium id, module:Id, or file.py:make_env."),
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, help="How many episodes to play.")] = 20,
    seed: EpisodeSeed = 0,
    canary: Canary = True,
    as_json: AsJson = False,
) -> None:
    """Write everything about a bundle, or a flight, into one HTML file. Needs no network.

    roadworthy report walker -o walker.html

    roadworthy report cartpole -o cartpole.html --env CartPole-v1

    roadworthy report flight.npz --bundle walker -o flight.html
    """
    from roadworthy.show.report import report as write_report  # other verbs start without it

    shown = None if certificate is None else Certificate.from_bytes(certificate.read_bytes())
    with working(silent=as_json) as progress, explained(env or ""):
        place = write_report(
            subject,
            output,
            bundle=bundle,
            certificate=shown,
            env=None if env is None else environment(env),
            episodes=episodes,
            seed=seed,
            canary=canary,
            progress=progress,
        )
    size = place.stat().st_size
    if as_json:
        print_json({"report": str(place), "bytes": size})
    else:
        out().print(f"{place} ({size_text(size)})")
