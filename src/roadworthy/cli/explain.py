"""`roadworthy explain`."""

from __future__ import annotations

from typing import Annotated

import typer

from roadworthy.cli.console import out, print_json
from roadworthy.cli.options import AsJson
from roadworthy.rules import pages


def explain(
    code: Annotated[str, typer.Argument(help="The code of a finding, such as RW112.")],
    as_json: AsJson = False,
) -> None:
    """Say what a finding means, why it matters and what to do, with code before and after.

    roadworthy explain RW112
    """
    from rich.markdown import Markdown  # other verbs start without it

    page = pages.page(code)
    if as_json:
        names = ("code", "title", "meaning", "why", "what_to_do", "before", "after")
        print_json({name: getattr(page, name) for name in names})
        return
    out().print(Markdown(page.markdown))
