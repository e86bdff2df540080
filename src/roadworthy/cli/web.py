"""`roadworthy web`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roadworthy.cli.console import out, print_json, working
from roadworthy.cli.options import AsJson, Canary, Folder
from roadworthy.spec.limits import size_text


def web(
    folder: Folder,
    output: Annotated[Path, typer.Option("-o", "--out", help="The site's folder.")] = Path("site"),
    env: Annotated[
        str | None,
        typer.Option(help="Runs in the page: CartPole-v1, Pendulum-v1, Acrobot-v1, MountainCar-v0"),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(help="wasm: compiled from the policy, by zig. onnx: onnxruntime-web."),
    ] = None,
    canary: Canary = True,
    as_json: AsJson = False,
) -> None:
    """Write a static site in which the bundle runs in the browser. Needs no network.

    roadworthy web walker -o site

    roadworthy web cartpole -o site --env CartPole-v1
    """
    from roadworthy.show.playground.site import write_site  # other verbs start without it

    with working(silent=as_json) as progress:
        site = write_site(folder, output, env=env, engine=engine, canary=canary, progress=progress)
    size = sum(each.stat().st_size for each in site.folder.iterdir())
    if as_json:
        said = {"site": str(site.folder), "bytes": size, "engine": site.engine, "why": site.why}
        print_json(said)
    else:
        out().print(f"open {site.folder / 'index.html'} ({size_text(size)} in all)")
        out().print(str(site), style="dim", markup=False, highlight=False)
