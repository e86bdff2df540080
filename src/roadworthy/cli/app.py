"""The application: its verbs, and the one place where errors become exit codes."""

from __future__ import annotations

import functools
import json
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

import typer

import roadworthy
from roadworthy.cli import (
    bench,
    c_files,
    compare,
    demo,
    doctor,
    emit,
    explain,
    export,
    inspect,
    play,
    report,
    shrink,
    verify,
    web,
)
from roadworthy.cli.console import print_findings
from roadworthy.cli.many import with_ray_address
from roadworthy.cli.options import spread
from roadworthy.errors import CertificateFailed, RoadworthyError, RoadworthyWarning
from roadworthy.errors.unforeseen import unforeseen

FAILED_CERTIFICATE, USAGE, INTERRUPTED = 1, 2, 130
_DEBUG = "--debug"

app = typer.Typer(
    name="roadworthy",
    no_args_is_help=True,
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Take trained policies out of their simulators, with proof.\n\n"
    "Start with `roadworthy demo`; then `roadworthy export my_policy.py:actor --input obs=48 "
    "-o walker`.",
)


@app.callback()
def _program(
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
    debug: Annotated[
        bool, typer.Option(_DEBUG, help="Show the traceback of an error; also behind the verb.")
    ] = False,
) -> None:
    if version:
        sys.stdout.write(f"roadworthy {roadworthy.__version__}\n")
        raise typer.Exit


def _interruptible(verb: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(verb)
    def call(*args: Any, **kwargs: Any) -> None:
        try:
            verb(*args, **kwargs)
        except KeyboardInterrupt:
            sys.stderr.write("interrupted; nothing half-written was left behind\n")
            raise typer.Exit(INTERRUPTED) from None

    return call


_VERBS: dict[str, Callable[..., None]] = {
    "export": export.export,
    "verify": verify.verify,
    "run": play.run,
    "inspect": inspect.inspect,
    "emit": emit.emit,
    "bench": bench.bench,
    "report": report.report,
    "compare": compare.compare,
    "web": web.web,
    "c": c_files.c_files,
    "shrink": shrink.shrink,
    "doctor": doctor.doctor,
    "explain": explain.explain,
    "demo": demo.demo,
}
for _name, _verb in _VERBS.items():
    app.command(_name)(_interruptible(spread(_verb)))


def run(arguments: list[str] | None = None) -> None:
    """Run the application and exit: 1 for a failed certificate, 2 for a mistake in the call."""
    words = sys.argv[1:] if arguments is None else arguments
    # Behind the verb as well: it is wanted when the command has just failed.
    plain = with_ray_address([word for word in words if word != _DEBUG])
    # Every verb prints the findings of what it made.
    warnings.simplefilter("ignore", RoadworthyWarning)
    try:
        app(plain, prog_name="roadworthy")
    except Exception as raised:
        error = raised if isinstance(raised, RoadworthyError) else unforeseen(raised)
        if _DEBUG in words:
            traceback.print_exception(raised)
        _report(error, as_json="--json" in words)
        sys.exit(FAILED_CERTIFICATE if isinstance(error, CertificateFailed) else USAGE)


def _report(error: RoadworthyError, *, as_json: bool) -> None:
    if as_json:
        findings = [asdict(finding) for finding in error.findings]
        sys.stdout.write(json.dumps({"error": findings}, indent=2) + "\n")
    else:
        print_findings(error.findings)
