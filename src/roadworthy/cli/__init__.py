"""The command line: one file per verb."""

from __future__ import annotations

import sys


def main() -> None:
    """Run `roadworthy`; without Typer and Rich, say how to get them."""
    try:
        from roadworthy.cli.app import run
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.stderr.write(f"{error.name} is not installed\n  → pip install 'roadworthy[cli]'\n")
        sys.exit(2)
    run()
