"""`roadworthy inspect --c`: what a policy takes of a board, and whether it fits."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from roadworthy.cli.console import out, print_json, size_text, table
from roadworthy.errors import BundleError, UsageError
from roadworthy.spec.signature import Signature

if TYPE_CHECKING:
    from roadworthy.targets.c.folder.footprint import Footprint


def axis_sizes(said: list[str] | None) -> dict[str, int]:
    """Name → size, from `NAME=NUMBER`."""
    found: dict[str, int] = {}
    for each in said or ():
        name, _, number = each.rpartition("=")
        if not name or not number.isdecimal():
            raise UsageError(f"cannot read --size {each!r}", hint="write NAME=NUMBER: agents=8")
        if name in found:
            raise UsageError(f"--size {name} is said twice", hint="one --size for each axis")
        found[name] = int(number)
    return found


def show(
    model: bytes,
    signature: Signature,
    *,
    flash: str | None,
    ram: str | None,
    size: list[str] | None,
    as_json: bool,
) -> None:
    """Prints flash, static RAM and stack for each board whose compiler is here.

    The exit code is 1 where it does not fit one of them.
    """
    from roadworthy.targets.c.folder.files import written
    from roadworthy.targets.c.folder.footprint import BOARDS, footprint, size_in_bytes
    from roadworthy.targets.c.folder.interface import interface

    limits = {
        name: None if words is None else size_in_bytes(words)
        for name, words in (("flash", flash), ("ram", ram))
    }
    if not model:
        raise BundleError(
            "the bundle has no policy.onnx, which C is written from",
            hint='export with targets=["onnx"]',
        )
    texts = written(interface(model, signature, sizes=axis_sizes(size)))
    found = [footprint(board, texts) for board in BOARDS if board.there]
    asked = any(limit is not None for limit in limits.values())
    if asked and not found:
        raise BundleError(
            "no compiler for any board is here: nothing was measured", hint="apt install gcc"
        )
    absent = {board.name: board.packages for board in BOARDS if not board.there}
    fit = {each.board: each.fits(**limits) for each in found}
    if as_json:
        boards = [asdict(each) | {"fits": fit[each.board]} for each in found]
        print_json({"boards": boards, "not_measured": absent, **limits})
    else:
        _print(found, fit, asked=asked)
        for name, packages in absent.items():
            out().print(f"{name}: not measured; apt install {packages}", markup=False)
    if not all(fit.values()):
        raise typer.Exit(1)


def _print(found: list[Footprint], fit: dict[str, bool], *, asked: bool) -> None:
    listed = table("board", ">flash", ">RAM", ">stack", *(["fits"] if asked else []), title="As C")
    for each in found:
        cells = [each.board, *map(size_text, (each.flash, each.ram, each.stack))]
        listed.add_row(*cells, *(["yes" if fit[each.board] else "NO"] if asked else []))
    out().print(listed)
