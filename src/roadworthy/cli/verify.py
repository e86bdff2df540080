"""`roadworthy verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roadworthy.cli.console import out, print_certificate, print_json, working
from roadworthy.cli.targets import resolve
from roadworthy.verification.verify import verify as verify_bundle


def verify(
    folder: Annotated[Path, typer.Argument(help="A bundle folder.")],
    against: Annotated[
        str | None, typer.Option(help="The live module: file.py:name. Needs PyTorch.")
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Run the targets that are code: torch_export, aoti.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the fresh steps.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Test a bundle and print its certificate; exit 1 when it fails.

    Alone, it replays the recorded steps of the original: the self-test on the robot.

    roadworthy verify walker

    roadworthy verify walker --against my_policy.py:actor
    """
    with working(silent=as_json) as progress:
        live = resolve(against) if against else None
        certificate = verify_bundle(folder, against=live, seed=seed, trust=trust, progress=progress)
    if as_json:
        print_json(certificate.to_json())
    else:
        print_certificate(certificate)
        if live is None:
            out().print("the live module was not part of it: --against file.py:name", style="dim")
    if not certificate.passed:
        raise typer.Exit(1)
