"""`roadworthy verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roadworthy.cli import target_help
from roadworthy.cli.console import out, print_certificate, print_json, working
from roadworthy.cli.play import environment
from roadworthy.cli.targets import resolve
from roadworthy.verification.verify import verify as verify_bundle
from roadworthy.worlds.world import World


def verify(
    folder: Annotated[Path, typer.Argument(help="A bundle folder.")],
    against: Annotated[
        str | None, typer.Option(help="The live module: file.py:name. Needs PyTorch.")
    ] = None,
    env: Annotated[
        str | None,
        typer.Option(help="Play in closed loop: Gymnasium id, module:Id, or file.py:make_env."),
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, help="How many episodes to play.")] = 20,
    margin: Annotated[
        float | None, typer.Option(min=0, help="Mean return that the artifact may lose.")
    ] = None,
    trust: Annotated[bool, typer.Option("--trust", help=target_help.TRUST)] = False,
    seed: Annotated[int, typer.Option(help="Seed of the fresh steps and episodes.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Test a bundle and print its certificate; exit 1 when it fails.

    Alone, it replays the recorded steps of the original: the self-test on the robot.

    roadworthy verify walker

    roadworthy verify walker --against my_policy.py:actor

    roadworthy verify cartpole --against my_policy.py:actor --env CartPole-v1 --episodes 50
    """
    world = World(environment(env), episodes=episodes, margin=margin) if env else None
    with working(silent=as_json) as progress:
        live = resolve(against) if against else None
        certificate = verify_bundle(
            folder, against=live, env=world, seed=seed, trust=trust, progress=progress
        )
    if as_json:
        print_json(certificate.to_json())
    else:
        print_certificate(certificate)
        if live is None:
            out().print("the live module was not part of it: --against file.py:name", style="dim")
    if not certificate.passed:
        raise typer.Exit(1)
