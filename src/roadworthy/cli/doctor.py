"""`roadworthy doctor`."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from roadworthy.cli.console import finding_lines, out, print_json, working
from roadworthy.cli.describing import Described, need_export
from roadworthy.cli.objects import refuse_unreachable, thing
from roadworthy.cli.options import AsJson, Only

if TYPE_CHECKING:
    from roadworthy.api.diagnose import Diagnosis

# All but --outputs: what a checkpoint gives besides the action does not stand in its way.
DESCRIBED = tuple(field.name for field in fields(Described) if field.name != "more")


def doctor(
    source: Annotated[str, typer.Argument(help="file.py:name, package.module:name, or a file.")],
    described: Annotated[Described, Only(DESCRIBED)],
    fix: Annotated[
        bool, typer.Option("--fix", help="Try it with the repairs that `export --fix` makes.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say everything that stands between a policy and its export; exit 1 when there are errors.

    SOURCE is a module, a roadworthy.Source, a function that returns one, or a checkpoint. Of a bare
    module only the code is read without --input; with it the policy is run, and an export is tried.

    roadworthy doctor my_policy.py:actor --input obs=48

    roadworthy doctor ppo.zip --assume vecnormalize=none

    Next: roadworthy explain CODE.
    """
    # Before PyTorch is imported, which takes seconds.
    described.refuse_unreadable()
    refuse_unreachable(source)
    need_export()
    from roadworthy.api.diagnose import diagnose

    with working(silent=as_json) as progress:
        progress("loading the source")
        found = thing(source)
        progress("reading, running and trying it")
        diagnosis = diagnose(found, **described.keywords(), fix=fix)
    if as_json:
        print_json(
            {
                "ok": diagnosis.ok,
                "exported": diagnosis.exported,
                "findings": [asdict(finding) for finding in diagnosis.findings],
            }
        )
    else:
        _print(diagnosis)
    if not diagnosis.ok:
        raise typer.Exit(1)


def _print(diagnosis: Diagnosis) -> None:
    console = out()
    console.print(Text.assemble((diagnosis.subject, "bold"), f": {diagnosis.verdict}"))
    for title, findings in diagnosis.grouped():
        console.print(f"\n{title}", style="dim")
        for finding in findings:
            console.print(*finding_lines(finding), sep="\n")
    if diagnosis.findings:
        code = diagnosis.findings[0].code
        console.print(f"\nnext: roadworthy explain {code}", style="dim")
