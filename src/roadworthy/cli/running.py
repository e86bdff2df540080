"""Tasks on their way: how many are done, and a table of what became of each."""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import typer
from rich.text import Text

from roadworthy.cli.console import finding_lines, out, print_json, table, working
from roadworthy.cli.options import ManyAtOnce
from roadworthy.deploy.many import records
from roadworthy.deploy.many.local import run_local
from roadworthy.deploy.many.task import Outcome, Task
from roadworthy.errors import Finding


def run_all(
    tasks: Sequence[Task],
    at_once: ManyAtOnce,
    *,
    as_json: bool,
    row: Callable[[dict[str, Any]], Sequence[str]],
    columns: Sequence[str],
    more: Callable[[Task], dict[str, Any]] = lambda task: {},
) -> None:
    """Runs what is not done yet, and prints what became of every task; exits 1 if one failed."""
    outcomes: dict[str, Outcome] = {}
    for task in tasks:
        known = None if at_once.again else records.finished(task)
        if known is not None:
            outcomes[task.name] = known
    left = [task for task in tasks if task.name not in outcomes]
    with working(silent=as_json) as progress:
        for outcome in _running(left, at_once):
            outcomes[outcome.task.name] = outcome
            # A certificate that failed is a result; a refusal may be gone the next time.
            if outcome.code == 0 or (outcome.code == 1 and outcome.task.result is None):
                records.keep(outcome, **more(outcome.task))
            progress(f"{len(outcomes)} of {len(tasks)} done, the last {outcome.task.name}")
    _print([outcomes[task.name] for task in tasks], row, columns, as_json=as_json)
    if any(outcome.code for outcome in outcomes.values()):
        raise typer.Exit(1)


def perform(task: Task) -> Outcome:
    """Exit code and printed JSON of a task, in a worker: the command as a user would type it."""
    from roadworthy.cli.app import run  # PyTorch comes with it, and only where the work is done

    printed, code = io.StringIO(), 0
    os.chdir(task.cwd)
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        try:
            run([*task.words, "--json"])
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else int(left.code is not None)
    return Outcome(task=task, code=code, printed=printed.getvalue())


def _running(tasks: Sequence[Task], at_once: ManyAtOnce) -> Iterator[Outcome]:
    if not tasks:
        return iter(())
    if at_once.ray is None:
        return run_local(perform, tasks, min(at_once.jobs or 1, len(tasks)))
    from roadworthy.deploy.many.ray import run_ray

    return run_ray(perform, tasks, None if at_once.ray == "auto" else at_once.ray)


def _print(
    outcomes: Sequence[Outcome],
    row: Callable[[dict[str, Any]], Sequence[str]],
    columns: Sequence[str],
    *,
    as_json: bool,
) -> None:
    said = [_said(outcome) for outcome in outcomes]
    if as_json:
        print_json({"tasks": said})
        return
    console = out()
    made = table("", "name", *columns, "")
    for each in said:
        mark = Text("✓", "green") if each["exit"] == 0 else Text("✗", "bold red")
        note = "done by an earlier run" if each["skipped"] else ""
        shown = row(each["result"]) if "error" not in each["result"] else [""] * len(columns)
        made.add_row(mark, each["name"], *shown, note)
    console.print(made)
    for each in said:
        errors = [Finding(**found) for found in each["result"].get("error", ())]
        if errors:
            console.print("", Text(each["name"], "bold"), sep="\n")
        for finding in errors:
            console.print(*finding_lines(finding), sep="\n")
    failed = sum(each["exit"] != 0 for each in said)
    skipped = sum(each["skipped"] for each in said)
    told = [f"{len(said)} policies", f"{failed} failed" if failed else "none failed"]
    console.print(", ".join(told + ([f"{skipped} done by an earlier run"] if skipped else [])))


def _said(outcome: Outcome) -> dict[str, Any]:
    try:
        result = json.loads(outcome.printed)
    except ValueError:
        what = f"it ended with the exit code {outcome.code} and said nothing that can be read"
        finding = {
            "code": "RW900",
            "what": what,
            "where": outcome.task.name,
            "hint": "run it alone",
        }
        result = {"error": [finding]}
    return {
        "name": outcome.task.name,
        "exit": outcome.code,
        "skipped": outcome.skipped,
        "result": result,
    }
