"""`roadworthy c`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roadworthy.cli import c_sizes
from roadworthy.cli.console import out, print_json
from roadworthy.cli.objects import refuse_missing
from roadworthy.cli.options import AsJson, AxisSizes, Canary, Folder


def c_files(
    folder: Folder,
    target: Annotated[Path, typer.Option("--out", "-o", help="Where the files go.")],
    name: Annotated[
        str, typer.Option(help="What every name in them begins with: two policies, two names.")
    ] = "policy",
    size: AxisSizes = None,
    canary: Canary = True,
    as_json: AsJson = False,
) -> None:
    """Write a policy as C, from its ONNX file. Needs no PyTorch, and a C compiler to try it.

    roadworthy c walker -o robot/walker --name walker

    roadworthy c standup -o robot/standup --name standup

    A program may then have both: walker_step and standup_step. The self-test is run here first.

    roadworthy c crowd -o robot/crowd --size agents=8

    for an axis whose size the export left open.
    """
    refuse_missing(folder)
    from roadworthy.api.write_c import write_c

    files = write_c(folder, target, name=name, sizes=c_sizes.axis_sizes(size), canary=canary)
    if as_json:
        print_json({"files": [str(path) for path in files]})
        return
    for path in files:
        out().print(str(path), markup=False, soft_wrap=True)
