"""`roadworthy verify`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from roadworthy.cli import many
from roadworthy.cli.console import out, print_certificate, print_json, working
from roadworthy.cli.describing import Described
from roadworthy.cli.objects import refuse_missing, refuse_unreachable, resolve, thing
from roadworthy.cli.options import AsJson, Canary, ManyAtOnce, Only, Trust
from roadworthy.cli.play import environment
from roadworthy.cli.running import run_all
from roadworthy.spec.bundle import Bundle
from roadworthy.spec.certificate import Certificate


def verify(
    context: typer.Context,
    *,
    folders: Annotated[list[str], typer.Argument(help="A bundle folder, or several.")],
    against: Annotated[
        str | None,
        typer.Option(help="The live module, file.py:name, or its checkpoint. Needs PyTorch."),
    ] = None,
    env: Annotated[
        str | None,
        typer.Option(help="Play in closed loop: Gymnasium id, module:Id, or file.py:make_env."),
    ] = None,
    described: Annotated[Described, Only(("exploration", "settings", "assume", "vecnormalize"))],
    episodes: Annotated[
        int | None, typer.Option(min=1, help="How many episodes to play; 20 if not said.")
    ] = None,
    margin: Annotated[
        float | None, typer.Option(min=0, help="Mean return that the artifact may lose.")
    ] = None,
    trust: Trust = False,
    canary: Canary = True,
    device: Annotated[
        str, typer.Option(help="Where to run it: cpu, cuda, cuda:1, tensorrt.")
    ] = "cpu",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the fresh steps and episodes.")] = 0,
    at_once: ManyAtOnce,
    as_json: AsJson = False,
) -> None:
    """Test a bundle and print its certificate; exit 1 when it fails.

    Alone, it replays the recorded steps of the original: the self-test on the robot.

    roadworthy verify walker

    roadworthy verify walker --against my_policy.py:actor

    roadworthy verify cartpole --against my_policy.py:actor --env CartPole-v1 --episodes 50

    roadworthy verify out/* --env CartPole-v1 --episodes 1000 --jobs 2

    roadworthy verify cartpole --against ppo.zip --trust

    A checkpoint is compared as it was rebuilt; with --trust, with what its own framework predicts.
    A policy of a framework is given what export was given: --exploration, --env, --set.
    """
    if many.is_wanted(folders, at_once):
        return run_all(
            many.verify_tasks(context, folders), at_once, as_json=as_json,
            columns=("certificate", ">steps", ">worst"), row=_summary,
        )  # fmt: skip
    folder = Path(folders[0])
    # Before the live policy is loaded, and PyTorch with it, which takes seconds.
    refuse_missing(folder)
    described.refuse_unreadable()
    if against is not None:
        refuse_unreachable(against)
    if env is not None and ".py:" in env:
        refuse_unreachable(env, file=False)
    from roadworthy.api.verify import refuse_lonely
    from roadworthy.api.verify import verify as verify_bundle  # it takes its time

    Bundle.open(folder)
    refuse_lonely(against, env, episodes=episodes, margin=margin)

    with working(silent=as_json) as progress:
        live = thing(against) if against else None
        certificate = verify_bundle(
            folder,
            against=live,
            env=_env(env, live),
            episodes=episodes,
            margin=margin,
            seed=seed,
            trust=trust,
            device=device,
            canary=canary,
            progress=progress,
            **described.keywords(),
        )
    if as_json:
        print_json(certificate.to_json())
    else:
        print_certificate(certificate)
        if live is None:
            told = (
                "compared with the recorded steps only; --against file.py:name adds the live policy"
            )
            out().print(told, style="dim")
    if not certificate.passed:
        raise typer.Exit(1)
    return None


def _summary(result: Mapping[str, Any]) -> tuple[str, ...]:
    certificate = Certificate.from_json(result)
    failed = [check.name for check in certificate.checks if not check.passed]
    steps = sum(check.steps for check in certificate.checks)
    worst = max((d.absolute for c in certificate.checks for d in c.differences), default=0.0)
    verdict = "passed" if certificate.passed else f"FAILED: {', '.join(failed)}"
    return verdict, str(steps), f"{worst:.1e}" if worst else "0"


def _env(name: str | None, live: Any) -> Any:
    """The environment to play in; or the one that says what a framework's policy sees."""
    if name is None or live is None or ".py:" not in name:
        return None if name is None else environment(name)
    from roadworthy.api.against import is_environment_of

    made = resolve(name)
    return made if is_environment_of(live, made) else environment(name)
