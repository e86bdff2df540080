"""`roadworthy emit`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from roadworthy.cli.console import out, print_json
from roadworthy.cli.objects import refuse_missing
from roadworthy.cli.options import AsJson, Folder
from roadworthy.deploy.emit import LAYOUTS, get

EMITTED = f"Write the files of another runtime beside the bundle: {', '.join(LAYOUTS)}."


def emit(
    folder: Folder,
    layout: Annotated[str, typer.Argument(help=f"One of {', '.join(LAYOUTS)}.")],
    place: Annotated[
        Path | None, typer.Option("-o", "--out", help="Where they go; FOLDER.LAYOUT if not said.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the files that another runtime reads, beside a bundle that stays as it is.

    roadworthy emit go2 unitree

    roadworthy emit cartpole godot -o game/policy
    """
    refuse_unknown_layouts([layout])
    refuse_missing(folder)
    from roadworthy.deploy.emit.writing import emit as emit_bundle

    written = emit_bundle(folder, layout, place)
    files = sorted(path for path in written.rglob("*") if path.is_file())
    if as_json:
        print_json({"folder": str(written), "files": [str(path) for path in files]})
        return
    for path in files:
        out().print(str(path), markup=False, soft_wrap=True)


def refuse_unknown_layouts(names: Sequence[str] | None) -> None:
    """An error, before anything is done, for a layout that there is not."""
    for name in names or ():
        get(name)


def emit_all(folder: Path, names: Sequence[str] | None) -> list[str]:
    """The folders of the layouts that were asked for with an export."""
    if not names:
        return []
    from roadworthy.deploy.emit.writing import emit as emit_bundle

    return [str(emit_bundle(folder, name)) for name in dict.fromkeys(names)]
