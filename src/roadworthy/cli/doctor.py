"""`roadworthy doctor`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from roadworthy.cli.console import finding_lines, out, print_json, working
from roadworthy.cli.export import example, pair
from roadworthy.cli.targets import resolve
from roadworthy.errors import UsageError, need

if TYPE_CHECKING:
    from roadworthy.diagnosing import Diagnosis


def doctor(
    source: Annotated[str, typer.Argument(help="file.py:name or package.module:name")],
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", help="NAME=SHAPE of one row: obs=48, image=uint8:84,84,4"),
    ] = None,
    memory: Annotated[
        list[str] | None, typer.Option(help="NAME=attribute that persists: h=hidden")
    ] = None,
    outputs: Annotated[
        list[str] | None, typer.Option("--output", help="Name of a result; - leaves it out.")
    ] = None,
    fix: Annotated[
        bool, typer.Option("--fix", help="Try it with the repairs that `export --fix` makes.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say everything that stands between a policy and its export; exit 1 when there are errors.

    SOURCE is a module, a roadworthy.Source, or a function that returns one. Without --input only
    the code is read; with it the policy is run, and an export is tried.

    roadworthy doctor my_policy.py:actor --input obs=48

    Next: roadworthy explain CODE.
    """
    for module in ("torch", "onnx", "onnxscript"):
        need(module, extra="export")
    with working(silent=as_json) as progress:
        progress("loading the source")
        found = resolve(source)
        progress("reading, running and trying it")
        diagnosis = _diagnosed(found, inputs or [], memory or [], outputs or [], fix=fix)
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


def _diagnosed(
    found: Any, inputs: list[str], memory: list[str], outputs: list[str], *, fix: bool
) -> Diagnosis:
    from roadworthy.capture.source import Source
    from roadworthy.diagnosing import diagnose
    from roadworthy.exporting import ExportOptions

    options = ExportOptions(fix=fix)

    if isinstance(found, Source):
        if inputs or memory or outputs:
            raise UsageError("a Source already says this", hint="drop --input/--memory/--output")
        return diagnose(found, options=options)
    return diagnose(
        found,
        example=dict(example(each) for each in inputs) or None,
        memory=dict(pair(each) for each in memory),
        outputs=[None if name == "-" else name for name in outputs] or None,
        options=options,
    )


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
