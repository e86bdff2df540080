"""`roadworthy shrink`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roadworthy.cli.console import out, print_json, size_text, table, working
from roadworthy.cli.objects import explained, refuse_missing
from roadworthy.cli.options import AsJson, Canary, EpisodeSeed, Folder
from roadworthy.cli.play import environment
from roadworthy.errors import UsageError, did_you_mean


def shrink(
    folder: Folder,
    env: Annotated[str, typer.Option(help="Gymnasium id, module:Id, or file.py:make_env.")],
    weights: Annotated[
        str | None, typer.Option(help="The storage to write: float16 or int8. With --out.")
    ] = None,
    target: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where the C with such weights goes.")
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, help="How many episodes each plays.")] = 20,
    margin: Annotated[
        float | None, typer.Option(min=0, help="Mean return that may be lost; 5 % if not said.")
    ] = None,
    seed: EpisodeSeed = 0,
    canary: Canary = True,
    as_json: AsJson = False,
) -> None:
    """Show what smaller weights cost: size and return of the policy as C. Needs no PyTorch.

    roadworthy shrink cartpole --env CartPole-v1

    roadworthy shrink cartpole --env CartPole-v1 --weights int8 -o cartpole_c

    The C is written only where the policy plays as well with such weights.
    """
    refuse_missing(folder)
    from roadworthy.api.shrink import STORAGES
    from roadworthy.api.shrink import shrink as shrink_bundle
    from roadworthy.targets.c.folder.placing import FILES, refuse_taken

    if (weights is None) != (target is None):
        raise UsageError(
            "--weights and --out go together", hint="--weights int8 -o cartpole_c, or neither"
        )
    if weights is not None and weights not in STORAGES:
        raise UsageError(f"no storage {weights!r}", hint=did_you_mean(weights, STORAGES))
    if target is not None:  # before minutes of playing
        refuse_taken(target, FILES)
    with working(silent=as_json) as progress, explained(env):
        found = shrink_bundle(
            folder, env=environment(env), episodes=episodes, margin=margin, seed=seed,
            canary=canary, progress=progress,
        )  # fmt: skip
    if as_json:
        rows = [
            {
                "weights": each.weights, "constant_bytes": each.constant_bytes,
                "returns": list(each.played.returns) if each.played else [],
                "lost": each.lost if each.played else None, "passed": each.passed,
                "refused": each.refused,
            }
            for each in found
        ]  # fmt: skip
        print_json({"env": env, "seed": seed, "allowed_to_lose": found[0].allowed, "rows": rows})
    else:
        shown = table("weights", ">constants", ">mean return", ">lost", "plays as well")
        for each in found:
            if each.played is None:
                shown.add_row(each.weights, "", "", "", f"NO: {each.refused}")
                continue
            cells = (size_text(each.constant_bytes), f"{each.played.mean_return:.1f}")
            lost = f"{each.lost:.1f}" if each is not found[0] else ""
            shown.add_row(each.weights, *cells, lost, "yes" if each.passed else "NO")
        out().print(shown)
    if target is not None:
        chosen = next(each for each in found if each.weights == weights)
        chosen.write(target)
        if not as_json:
            out().print(f"{', '.join(sorted(chosen.texts))} → {target}", markup=False)
